"""Keeps what the kubelet knows of each pod beside its API object.

Shared by workers, job poller, agents and logs. Everything here can be found again: from the API,
the pod's folder and the engine; nothing is lost when the control plane is killed. It decides
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...api.objects import Key, Obj, annotations_of, condition_of, is_terminal, key_of, uid_of
from ...engine import Job, JobId
from ...network.addresses import PodAddresses
from ...settings import Paths
from ...wellknown import ALLOCATED, JOB_ID
from ..agents.journal import Journal, JournalFile, Record
from ..status.container_status import ImageUsed
from ..status.pod_status import Observed, PendingReason
from ..status.termination_reason import is_requeued
from .folder import PodFolder, existing

if TYPE_CHECKING:
    from ..agents.connection import AgentConnection


@dataclass(slots=True, eq=False)
class Added:
    """An ephemeral container on its way to the agent."""

    plan: Obj | None = None  # once it is ready
    told: AgentConnection | None = None  # over which connection
    is_preparing: bool = False
    trouble: PendingReason | None = None
    failures: int = 0
    retry_at: float = 0.0


@dataclass(slots=True, eq=False)
class PodState:
    """One pod, by its uid: a name may come again while the last of its name is still ending."""

    uid: str
    key: Key
    folder: PodFolder
    file: JournalFile
    journal: Journal = field(default_factory=Journal)
    told: int = 0  # the last record that was told as an Event
    untold: list[Record] = field(default_factory=list)
    job_id: JobId | None = None
    job: Job | None = None
    sentence_at: float = 0.0  # when a new sentence of the engine was last passed on
    submitted: float = 0.0  # when the job id was learned; an older answer of the engine is no news
    missing: int = 0  # answers in a row in which nobody knew the job
    has_vanished: bool = False
    is_settled: bool = False  # the pod was over when we met it, and the engine has no job of it
    ended_seen: float = 0.0  # when the engine first said that the job has ended
    finished_seen: float = 0.0  # when we first acted on the agent's last word
    images: dict[str, ImageUsed] = field(default_factory=dict)  # by container
    pod_ip: str = ""  # of its plan; empty: its node's
    # What keeps it from being submitted, and when to try again.
    trouble: PendingReason | None = None
    failures: int = 0
    retry_at: float = 0.0
    preparing: asyncio.Task[bool] | None = None
    # What was done about it by this process.
    written: Obj | None = None  # the answer to our last write
    queued_told: str = ""
    warned: bool = False
    asked_to_end: int | None = None  # the grace that was last passed on
    waits_for: str = ""  # the engine's silence that keeps a deleted pod, as it was told
    cancelled_at: float = 0.0
    requeued: int = -1  # how often the job had been when we asked for it once more
    requeue_refused: bool = False
    added: dict[str, Added] = field(default_factory=dict)  # ephemeral containers, by name
    connection: AgentConnection | None = None
    lines: dict[str, AgentConnection] = field(default_factory=dict)  # of its ranks, by node

    def observed(self, engine_error: str) -> Observed:
        is_over = self.has_vanished or (self.job is not None and self.job.state.has_ended)
        needs_output = is_over and self.journal.finished is None
        return Observed(
            journal=self.journal,
            job_id=self.job_id,
            job=self.job,
            has_vanished=self.has_vanished,
            trouble=self.trouble,
            images=self.images,
            engine_error=engine_error,
            output=self.folder.output() if needs_output else "",
            pod_ip=self.pod_ip,
            troubles={name: a.trouble for name, a in self.added.items() if a.trouble is not None},
        )

    def apply(self, record: Record) -> bool:
        """Take in a record of the journal; return False where it is known already."""
        if not self.journal.apply(record):
            return False
        if record.type == "event" and record.seq > self.told:
            self.untold.append(record)
        return True

    def read_journal(self) -> bool:
        """Take in what the file has and the agent did not tell us; return whether there was
        anything.
        """
        applied = [self.apply(record) for record in self.file.read()]
        return any(applied)

    def take_untold(self) -> list[Record]:
        """Return, once, the events of the journal that have not been told."""
        taken, self.untold = self.untold, []
        if taken:
            self.told = taken[-1].seq
        return taken

    @property
    def is_requeued(self) -> bool:
        return is_requeued(self.journal, self.job)

    @property
    def has_ended(self) -> bool:
        """Return whether nothing of the pod's job can be running any more."""
        if self.job_id is None or self.has_vanished or self.is_settled:
            return True
        return self.job is not None and self.job.state.has_ended


class Pods:
    """All pods that the kubelet is concerned with, whether their objects still exist or not."""

    def __init__(self, paths: Paths, addresses: PodAddresses) -> None:
        self._paths = paths
        self.addresses = addresses  # kept as long as the state is
        self._states: dict[str, PodState] = {}

    def __iter__(self) -> Iterator[PodState]:
        return iter(list(self._states.values()))

    def __len__(self) -> int:
        return len(self._states)

    def get(self, uid: str) -> PodState | None:
        return self._states.get(uid)

    def folder_of(self, pod: Obj) -> PodFolder:
        return PodFolder.of(self._paths, pod)

    def of(self, pod: Obj) -> PodState:
        """Return the state of a pod, made from what its folder says where there is none yet."""
        known = self._states.get(uid_of(pod))
        if known is not None:
            return known
        state = self._found(uid_of(pod), key_of(pod), self.folder_of(pod))
        state.job_id = _job_of(pod, state.folder)
        state.is_settled = is_terminal(pod)
        if not state.is_settled:
            self._recall(state)
        return state

    def _recall(self, state: PodState) -> None:
        state.images, state.pod_ip = state.folder.planned()
        self.addresses.reserve(state.uid, state.pod_ip)

    def left_behind(self, uids: frozenset[str]) -> Iterator[PodState]:
        """Yield the states of folders whose pod is not among `uids`."""
        for uid, (key, folder) in existing(self._paths).items():
            if uid not in uids:
                yield self._states.get(uid) or self._left(uid, key, folder)

    def orphan(self, uid: str, key: Key) -> PodState:
        """Return the state of a pod of which only the job is left."""
        known = self._states.get(uid)
        folder = PodFolder(self._paths.pod(key.namespace, key.name, uid))
        return known if known is not None else self._left(uid, key, folder)

    def _left(self, uid: str, key: Key, folder: PodFolder) -> PodState:
        """Make the state of a pod whose job may still run, and has its address until it does
        not.
        """
        state = self._found(uid, key, folder)
        self._recall(state)
        return state

    def _found(self, uid: str, key: Key, folder: PodFolder) -> PodState:
        state = PodState(uid, key, folder, JournalFile(folder.journal))
        state.told = folder.told
        self._states[uid] = state
        return state

    def forget(self, uid: str) -> None:
        self._states.pop(uid, None)
        self.addresses.release(uid)


def _job_of(pod: Obj, folder: PodFolder) -> JobId | None:
    """Return the job that the kubelet has written on the pod.

    A manifest copied from another pod carries that one's job, which is not ours to follow or end;
    what only a kubelet writes, a condition or a folder of this very pod, tells them apart.
    """
    job = annotations_of(pod).get(JOB_ID)
    is_ours = is_terminal(pod) or condition_of(pod, ALLOCATED) is not None or folder.was_submitted
    return JobId(job) if job and is_ours else None
