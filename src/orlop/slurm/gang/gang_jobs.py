"""Ends members of gangs, and has gangs run again.

Used by `jobs`. A member is a step of its gang's one job: it ends by itself, the job with the last
of them. A job that waits is held while a member is missing. What an end means for a pod is decided
elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ...engine import JobId, JobState
from ...errors import EngineError, WaitingForGang
from ...log import logger
from ..batch import to_its_end
from ..commands import Commands
from ..queue import SlurmQueue
from . import gang_folder
from .gang_folder import Member, member_id, parts_of
from .gang_folders import GangFolders
from .gang_hold import hold

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class GangJobs:
    queue: SlurmQueue
    folders: GangFolders
    commands: Commands

    async def cancel(self, ids: Sequence[JobId]) -> list[str]:
        """End these members now; return the jobs, and steps, that scancel must be given for it."""
        listed = {job.id: job for job in (await self.queue.gang_jobs()).values()}
        wanted: list[str] = []
        for base, numbers in _by_job(ids).items():
            gang = self.folders.of_job(base)
            if gang is None:
                wanted.append(base)
                continue
            gang.leave(numbers)
            members = gang.members()
            if not any(member.is_active for member in members):
                wanted.append(base)
            elif JobId(base) in listed and listed[JobId(base)].state is JobState.PENDING:
                await hold(self.commands, gang)
            else:
                wanted += _steps(base, [m for m in members if m.number in numbers])
        return wanted

    async def steps(self, ids: Sequence[JobId]) -> tuple[list[str], list[JobId]]:
        """Return the steps in which these members run, and the members that run in none."""
        steps: list[str] = []
        idle: list[JobId] = []
        for base, numbers in _by_job(ids).items():
            gang = self.folders.of_job(base)
            members = (
                {member.number: member for member in gang.members()} if gang is not None else {}
            )
            for number in numbers:
                its_steps = _steps(base, [members[number]] if number in members else [])
                steps += its_steps
                idle += [] if its_steps else [member_id(base, number)]
        return steps, idle

    async def requeue(self, job: JobId) -> None:
        """Have the member's gang run again, with all of it that wants to; each of them asks for it.

        Raises WaitingForGang while others of it still run.
        """
        base, number = parts_of(job) or (job, -1)
        gang = self.folders.of_job(base)
        if gang is None:
            raise EngineError(f"the gang of {job} is not known any more")
        async with self.folders.turn(gang.kept.key):
            listed = (await self.queue.gang_jobs()).get(gang.id)
            if listed is not None and not listed.state.has_ended:
                if any(
                    member.number == number and member.end is not None for member in gang.members()
                ):
                    raise WaitingForGang(f"job {base} still runs with others of its gang")
                return  # another member has asked
            await to_its_end(lambda: gang.reopen(time.time()))
            await self.commands.run("scontrol", "requeue", gang.job())
            log.info("requeued gang", gang=gang.kept.name, job=gang.job())


def _steps(base: str, members: Sequence[Member]) -> list[str]:
    steps = (gang_folder.step_of(member.folder) for member in members)
    return [f"{base}.{step}" for step in steps if step]


def _by_job(ids: Sequence[JobId]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for job in dict.fromkeys(ids):
        parts = parts_of(job)
        if parts is not None:
            numbers.setdefault(parts[0], []).append(parts[1])
    return numbers
