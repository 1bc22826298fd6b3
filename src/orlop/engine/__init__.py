"""Defines `Engine`, which gives a pod a machine, and the values that it takes and returns.

Implemented by slurm.jobs (each pod a batch job) and engine.local (a child process; for a laptop,
and for the first five minutes). Slurm's part is in slurm/. What both need to start a gang together
is here: `gang_barrier` counts who is there, whatever will run them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NewType, Protocol, runtime_checkable

from ..api.objects import Obj

JobId = NewType("JobId", str)


class JobState(enum.Enum):
    """A job's state in words that every engine shares; UNKNOWN is a state, not an end."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"

    @property
    def has_ended(self) -> bool:
        return self in _ENDED


_ENDED = frozenset(
    {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.OUT_OF_MEMORY,
        JobState.NODE_FAIL,
        JobState.PREEMPTED,
        JobState.CANCELLED,
    }
)


@dataclass(frozen=True, slots=True)
class Job:
    """What the engine says of one job at one moment."""

    id: JobId
    state: JobState
    pod_uid: str = ""  # from the job's comment; empty for jobs that are no pods of this cluster
    name: str = ""
    reason: str = ""  # the engine's own word: why it waits, or why it ended
    message: str = ""  # a sentence for people: partition, expected start
    partition: str = ""
    nodes: tuple[str, ...] = ()  # compute nodes, once allocated
    submitted: float | None = None  # Unix times
    started: float | None = None
    ended: float | None = None
    is_hopeless: bool = False  # it waits for what cannot come; the message says for what
    ends: float | None = None  # when its time limit ends it, while it runs
    restarts: int = 0  # times the engine requeued it


@dataclass(frozen=True, slots=True)
class Machine:
    """What becomes a Kubernetes node: a partition, or this host."""

    name: str
    cpus: int
    memory_mib: int
    resources: Mapping[str, int] = field(default_factory=dict)  # e.g. {"nvidia.com/gpu": 8}
    labels: Mapping[str, str] = field(default_factory=dict)
    is_default: bool = False
    is_ready: bool = True
    is_schedulable: bool = True
    message: str = ""  # why it is not ready or schedulable, in the engine's words
    hosts: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()  # labels that some of its hosts do not have
    architecture: str = "amd64"
    max_time: float | None = None


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start together or not at all, as one of them sees it."""

    key: str  # the same for all members, and for no other gang
    name: str  # namespace/name, for people
    size: int  # so many members there must be
    peers: frozenset[str]  # uids of the members that are there and wanted, its own included
    room: str = ""  # members that come once these run, as `api.gangs.later_of` reads it


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Annotations of the objects whose policy holds for a pod."""

    namespace: Mapping[str, str] = field(default_factory=dict)
    priority_class: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Submission:
    """A pod ready to run: its folder holds the plan; `command` starts the agent on it."""

    pod: Obj
    folder: Path
    command: tuple[str, ...]
    machine: str  # the Machine it was bound to
    gang: Gang | None = None
    around: Surroundings = field(default_factory=Surroundings)
    # Of what the engine cannot do as asked, in words for the pod's owner.
    warn: Callable[[str], None] = field(default=lambda _: None, compare=False)


@dataclass(frozen=True, slots=True)
class JobUsage:
    """What a job has used, as the engine's accounts have it; None: they do not know."""

    elapsed: float | None = None  # seconds, as `cpu`
    cpu: float | None = None
    memory: int | None = None  # bytes, the most that a step had
    energy: int | None = None  # joules


@runtime_checkable
class Accounts(Protocol):
    """An engine that keeps accounts of jobs that have ended."""

    async def usage(self, ids: Collection[JobId]) -> Mapping[JobId, JobUsage]:
        """Return the usage of those in the accounts already; none where there are no accounts."""
        ...


class Engine(Protocol):
    """The calls of an engine; each may raise EngineUnavailable, which says nothing of any job."""

    name: str

    async def version(self) -> str:
        """Return product and version, for people; also the check that it answers."""
        ...

    async def machines(self) -> list[Machine]: ...

    async def submit(self, submission: Submission) -> JobId:
        """Ask for the pod's job; asked again for the same folder it answers the same job.

        Raise SubmitRejected or SubmitDeferred with the engine's words and the remedy, and
        WaitingForGang while members are missing with whom it must start: ask again then.
        """
        ...

    async def jobs(self) -> Mapping[JobId, Job]:
        """Return all jobs of this cluster that the engine still lists, in one query."""
        ...

    async def ended(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        """Return the last word on jobs no longer listed; one that nobody knows is left out."""
        ...

    async def terminate(self, job: JobId) -> None:
        """Ask the agent, through the engine, to end the pod within its grace period."""
        ...

    async def cancel(self, job: JobId) -> None:
        """End the job now; no error if it has ended already."""
        ...

    async def requeue(self, job: JobId) -> None:
        """Have a job that has ended run again, under its number; EngineError where it cannot.

        Raise WaitingForGang where it runs again with others that have not ended: ask again.
        """
        ...
