"""Knows the gangs of this cluster by their folders, and so what became of each member.

Made once for a home and shared: by whoever submits gangs, follows their jobs or ends them. It asks
Slurm nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

from ...engine import Job, JobId, JobState
from ...engine.gang_barrier import waiting_words
from ...log import logger
from . import gang_folder
from .gang_folder import Gang, Kept, Member, member_id, parts_of
from .gang_spec import gang_in

log = logger(__name__)

SWEEP = 3600.0  # seconds between two looks for gangs of which no pod is left


class GangFolders:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._gangs: dict[str, Gang] | None = None
        self._swept = -SWEEP

    def turn(self, key: str) -> asyncio.Lock:
        """Return the lock of a gang, by its key: one at a time submits, joins or requeues."""
        return self._turns.setdefault(key, asyncio.Lock())

    def make(self, kept: Kept) -> Gang:
        """Make a gang without members; those of which no pod is left are removed now and then."""
        if time.monotonic() - self._swept > SWEEP:
            self._swept = time.monotonic()
            gang_folder.sweep(self._root)
            self._gangs = None
        made = Gang.make(self._root, kept)
        self._known()[made.id] = made
        return made

    def forget(self, gang: Gang) -> None:
        self._known().pop(gang.id, None)

    def of_key(self, key: str) -> Iterator[Gang]:
        """Yield the gangs with that key that have a job."""
        return (gang for gang in self._known().values() if gang.is_of(key) and gang.job())

    def of_job(self, job: str) -> Gang | None:
        return next((gang for gang in self._known().values() if gang.job() == job), None)

    def _known(self) -> dict[str, Gang]:
        """Return all gangs that have a folder, or had one at the last sweep."""
        if self._gangs is None:
            self._gangs = {gang.id: gang for gang in gang_folder.existing(self._root)}
        return self._gangs

    # What became of members

    def gang_of(self, job: Job) -> str:
        """Return the id of the gang whose job it is; empty for any other."""
        return gang_in(job.pod_uid)

    def expand(self, job: Job) -> dict[JobId, Job]:
        """Return the members of a gang's job, each as a job of its own."""
        gang = self._known().get(gang_in(job.pod_uid))
        if gang is None or not gang.folder.exists():
            log.warning("a gang's job has no folder", job=job.id, name=job.name)
            return {}
        members = gang.members()
        missing = gang.kept.size - sum(not member.has_left for member in members)
        if job.state is JobState.PENDING and missing > 0:
            there = gang.kept.size - missing
            waiting = waiting_words(gang.kept.name, there, gang.kept.size)
            job = replace(job, reason="WaitingForGang", message=f"job {job.id} is held: {waiting}")
        hosts = gang.hosts()
        jobs = [_as_job(member, job, hosts) for member in members]
        return {member_job.id: member_job for member_job in jobs}

    def expand_ended(self, job: Job, folder: str) -> dict[JobId, Job]:
        """Do the same for a job that only the accounting remembers, by its working directory."""
        return self.expand(replace(job, pod_uid=f"gang-{Path(folder).name}"))

    def ends(self, ids: Sequence[JobId]) -> dict[JobId, Job]:
        """Return what the leader wrote of members whose job is forgotten by Slurm."""
        by_job = {gang.job(): gang for gang in self._known().values()}
        jobs: dict[JobId, Job] = {}
        for job in ids:
            parts = parts_of(job)
            gang = by_job.get(parts[0]) if parts is not None else None
            for member in gang.members() if gang is not None else ():
                if parts is not None and member.number == parts[1] and member.end is not None:
                    nobody = Job(job, JobState.UNKNOWN)
                    assert gang is not None, "it has members"
                    jobs[job] = replace(_as_job(member, nobody, gang.hosts()), id=job)
        return jobs


def _as_job(member: Member, job: Job, hosts: Mapping[int, str]) -> Job:
    """Make the job of one member from the job of all."""
    end = member.end
    state, ended, reason = job.state, job.ended, job.reason
    if end is not None:
        state, ended, reason = JobState(end.state), end.time, ""
        if state is JobState.FAILED and end.code:
            reason = f"ExitCode{end.code}"
        elif state is JobState.TIMEOUT:
            reason = "TimeLimit"
    elif member.has_left and job.state is JobState.PENDING:
        state, ended, reason = JobState.CANCELLED, job.submitted, "CANCELLED"
    host = hosts.get(member.given.bundle) if member.given is not None else None
    base = gangs_base(job.id)
    return replace(
        job,
        id=member_id(base, member.number),
        state=state,
        pod_uid=member.uid,
        name=str(member.key),
        reason=reason,
        message="" if end is not None else job.message,
        nodes=(host,) if host else (),
        started=job.started,
        ended=ended if state.has_ended else None,
    )


def gangs_base(job: str) -> str:
    return job.partition("+")[0]
