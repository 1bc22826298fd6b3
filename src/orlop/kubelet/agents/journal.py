"""Reads a pod's journal for the kubelet: the file, and what its records add up to.

Records come from the agent's connection at once and from the file as the safety net, in any
mixture: each is applied once, by its number. A torn last line is left for later and a garbled one
is skipped. The file is read and not written; the engine is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ...log import logger

log = logger(__name__)


MOST_AT_ONCE = 16 << 20  # bytes of a file; what is left is read at the next look
MOST_KNOWN = 1000  # containers, and conditions, of one pod: a journal may name any
# What an agent may say at most: containers of its own user can write into its journal, and what a
# status cannot hold would keep the pod from ever having another.
_Moment = Annotated[float, msgspec.Meta(ge=0.0, le=253402300799.0)]  # the last second of 9999
_Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]
_Code = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Used(msgspec.Struct, frozen=True):
    """The resources that a pod has used in all, as its agent counted."""

    elapsed: _Seconds = 0.0  # as `cpu`
    cpu: _Seconds | None = None  # not known of ranks
    memory: Annotated[int, msgspec.Meta(ge=0, le=2**60)] = 0  # the most there was, in bytes


class Record(msgspec.Struct, frozen=True):
    """One line of the journal; each type of record sets the fields that apply to it."""

    seq: int
    type: str
    time: _Moment = 0.0
    # started
    job: str = ""
    node: str = ""
    addresses: tuple[str, ...] = ()
    runtime: str = ""
    # container; `restart` also of started
    name: str = ""
    init: bool = False
    restart: _Count = 0
    state: str = ""
    reason: str = ""
    message: str = ""
    startedAt: _Moment | None = None
    finishedAt: _Moment | None = None
    exitCode: _Code | None = None
    signal: _Code | None = None
    # container that runs, and health
    started: bool = True
    ready: bool = True
    # event
    kind: str = ""
    container: str = ""
    # condition
    condition: str = ""
    status: str = ""
    # terminating
    why: str = ""
    grace: _Seconds | None = None
    # finished
    phase: str = ""
    usage: Used | None = None


_decoder = msgspec.json.Decoder(Record)


def record_of(raw: Any) -> Record | None:
    """Return the record in a message of the agent; None where it is none."""
    try:
        return msgspec.convert(raw, Record)
    except msgspec.ValidationError as error:
        log.warning("an agent sent a record that is none", error=error)
        return None


@dataclass(slots=True)
class Container:
    """One container: its present record, its last end, and the number of its latest run."""

    name: str
    restart: int = 0
    current: Record | None = None
    ended: Record | None = None  # of the run before the present one, or of the present if over
    # What its probes say of the present run; without any, that it runs is enough.
    is_started: bool = False
    is_ready: bool = False

    def apply(self, record: Record) -> None:
        # A waiting container is counted by the agent as the run to come, by Kubernetes as the last.
        if record.state != "waiting":
            self.restart = max(self.restart, record.restart)
        if self.current is not None and self.current.state == "terminated":
            self.ended = self.current
        self.current = record
        self.on_health(record)

    def on_health(self, record: Record) -> None:
        is_running = self.current is not None and self.current.state == "running"
        if self.current is not None and self.current.restart == record.restart:
            self.is_started = is_running and record.started
            self.is_ready = is_running and record.ready

    def interrupt(self, when: float) -> None:
        """Record that its job began anew: its run is over, and how it would have ended is
        unknown.
        """
        if self.current is not None and self.current.state == "running":
            self.ended = lost(self.current, when, "ContainerStatusUnknown", _INTERRUPTED)
        elif self.current is not None and self.current.state == "terminated":
            self.ended = self.current
        self.current = None
        self.is_started = self.is_ready = False


_INTERRUPTED = "The container was lost when its job was requeued"


def lost(record: Record, when: float, reason: str, message: str) -> Record:
    """Return the end of a running container that was not seen to end."""
    return Record(
        seq=record.seq,
        type="container",
        time=when,
        name=record.name,
        init=record.init,
        restart=record.restart,
        state="terminated",
        reason=reason,
        message=message,
        startedAt=record.startedAt,
        finishedAt=when,
        exitCode=137,
    )


@dataclass(slots=True)
class Journal:
    """The sum of all records so far."""

    seq: int = 0
    time: float = 0.0  # of the last record
    started: Record | None = None
    containers: dict[str, Container] = field(default_factory=dict)
    conditions: dict[str, Record] = field(default_factory=dict)
    terminating: Record | None = None
    finished: Record | None = None

    def apply(self, record: Record) -> bool:
        """Add a record; return False where it is known already."""
        if record.seq <= self.seq:
            return False
        self.seq, self.time = record.seq, max(self.time, record.time)
        match record.type:
            case "started":
                self._begin(record)
            case "container" if record.state in _STATES and _has_room(self.containers, record.name):
                known = self.containers.setdefault(record.name, Container(record.name))
                known.apply(record)
            case "health" if record.name in self.containers:
                self.containers[record.name].on_health(record)
            case "condition" if record.condition and _has_room(self.conditions, record.condition):
                self.conditions[record.condition] = record
            case "terminating":
                self.terminating = record
            case "finished" if record.phase in ("Succeeded", "Failed"):
                self.finished = record
        return True

    def _begin(self, record: Record) -> None:
        if self.started is not None:
            for container in self.containers.values():
                container.interrupt(record.time)
        self.started = record
        self.terminating = self.finished = None

    @property
    def was_signalled(self) -> bool:
        """Return whether the engine, and not the kubelet, told the agent to end the pod."""
        return self.terminating is not None and self.terminating.why == "signal"


_STATES = ("waiting", "running", "terminated")


def _has_room(known: Mapping[str, object], name: str) -> bool:
    return name in known or len(known) < MOST_KNOWN


class JournalFile:
    """Reads what was appended since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Record]:
        """Return the new whole lines; empty where there is no file yet."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(MOST_AT_ONCE)
        except FileNotFoundError:
            return []
        except OSError as error:  # a shared file system that is away: unknown is not empty
            log.warning("a journal cannot be read now", file=self._path, error=error)
            return []
        whole, newline, _ = data.rpartition(b"\n")
        if not newline and len(data) == MOST_AT_ONCE:  # no record is that long: pass it over
            whole = data
        self._offset += len(whole) + len(newline)
        records = (self._decoded(line) for line in whole.splitlines() if line.strip())
        return [record for record in records if record is not None]

    def _decoded(self, line: bytes) -> Record | None:
        try:
            return _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.warning("a line of a journal is no record", file=self._path, error=error)
            return None
