"""Submits gangs as Slurm jobs: one sbatch for all members, one step for each.

Used by `jobs`, for pods that must start together. Members wait at a gang barrier that holds nothing
of Slurm's; the last to come submits for all. Whoever comes later takes the place of a member that
has ended, in the same allocation, as long as others of the gang run there. A gang is not split.
What an end means for a pod is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from ...api.objects import key_of, uid_of
from ...engine import Job, JobId, JobState, Machine, Submission
from ...engine.gang_barrier import Muster, waiting_words
from ...errors import ConfigError, EngineError, EngineUnavailable, WaitingForGang
from ...log import logger
from ..batch import to_its_end
from ..commands import CommandFailed, Commands
from ..submit.sbatch import Folder
from ..translate.job import JobSpec
from . import gang_folder, sizes
from . import roster as gang_roster
from .gang_folder import Gang, GangCandidate, Kept, Member, member_id, parts_of
from .gang_spec import Named, as_gang, gang_comment, gang_in, lead_of
from .packing import Packing, Shape
from .roster import Roster

log = logger(__name__)

REMEMBERED = 4.0  # seconds for which a refusal is told to all members without another sbatch
SWEEP = 3600.0  # seconds between two looks for gangs of which no pod is left
_HELD = "held"  # file of a gang's folder: its job waits for a member that has left


class Slurm(Protocol):
    """The facts of the site that a gang needs."""

    async def spec(self, submission: Submission) -> JobSpec: ...

    async def gang_jobs(self) -> Mapping[str, Job]:
        """Return the jobs that Slurm lists of gangs, by the gang's id."""
        ...

    async def machine(self, name: str) -> Machine | None: ...


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: EngineError | ConfigError
    uids: frozenset[str]
    until: float


class GangJobs:
    """`sbatch` submits the script of a folder whose lock is held; `lock` waits for that lock.

    `known` finds the job of a pod for which an earlier control plane, or call, has begun.
    """

    def __init__(
        self,
        slurm: Slurm,
        commands: Commands,
        cluster_uid: str,
        root: Path,
        known: Callable[[Submission], Awaitable[JobId | None]],
        lock: Callable[[Folder], Awaitable[None]],
        sbatch: Callable[[Folder, JobSpec], Awaitable[JobId]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slurm = slurm
        self._commands = commands
        self._cluster_uid = cluster_uid
        self._root = root
        self._begun = known
        self._lock = lock
        self._sbatch = sbatch
        self._clock = clock
        self._muster = Muster()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._refusals: dict[str, _Refusal] = {}
        self._gangs: dict[str, Gang] | None = None
        self._swept = -SWEEP

    # Submitting

    async def submit(self, submission: Submission) -> JobId | None:
        """Return the member's job; None where its gang runs without it and has no room: it then
        goes alone.

        Raises WaitingForGang while there are too few members.
        """
        gang = submission.gang
        assert gang is not None, "only members of a gang come here"
        turn = self._turns.setdefault(gang.key, asyncio.Lock())
        async with turn:
            known = await self._begun(submission)
            if known is not None:
                return known  # who had the turn before us submitted for all
            spec = await self._slurm.spec(submission)
            running = await self._running(submission)
            if running is not None:
                recruit = gang_roster.recruit(submission, spec, running.kept.least)
                joined = await self._join(running, submission, recruit)
                if joined is not None:
                    return joined or None
            return await self._together(submission, gang_roster.recruit(submission, spec).shape)

    async def _running(self, submission: Submission) -> Gang | None:
        """Return the gang whose job runs or waits, if any of its members is still wanted."""
        gang = submission.gang
        assert gang is not None, "only members of a gang come here"
        alike = [one for one in self._known().values() if one.is_of(gang.key) and one.job()]
        if not alike:
            return None
        listed = await self._slurm.gang_jobs()
        for one in alike:
            job = listed.get(one.id)
            if job is None or job.state.has_ended or job.state is JobState.COMPLETING:
                continue
            if any(m.is_active and m.uid in gang.peers for m in one.members()):
                return one
        return None

    async def _join(
        self, running: Gang, submission: Submission, recruit: GangCandidate
    ) -> JobId | None:
        """Join in the place of a member that has ended, or in one kept for the pod; return an empty
        id where there is no place, None where the gang is over.
        """
        gang = submission.gang
        assert gang is not None, "only members of a gang come here"
        active = [member for member in running.members() if member.is_active]
        for member in active:
            if member.uid == uid_of(submission.pod) and member.given is not None:
                return member_id(running.job(), member.number)  # it is one already
        going = [member for member in active if member.uid not in gang.peers]
        place = gang_roster.place_in(running.kept, active, recruit.shape, is_one_going=bool(going))
        if place is None:
            if not going:
                return JobId("")
            words = f"pod {going[0].key}, whose place in job {running.job()} it takes, is ending"
            raise WaitingForGang(words)
        number = await to_its_end(lambda: running.join(recruit, *place))
        if number is None:
            return None
        log.info("joined gang", pod=recruit.name, gang=gang.name, job=running.job(), member=number)
        await self._release(running)
        return member_id(running.job(), number)

    async def _together(self, submission: Submission, shape: Shape) -> JobId:
        gang = submission.gang
        assert gang is not None, "only members of a gang come here"
        machine = await self._slurm.machine(submission.machine)
        if machine is not None:
            sizes.check_alone(shape, str(key_of(submission.pod)), machine)
        members = self._muster.add(submission)
        uids = frozenset(uid_of(member.pod) for member in members)
        past = self._refusals.get(gang.key)
        if past is not None and past.uids == uids and self._clock() < past.until:
            raise past.error
        try:
            job = await self._submit(gang.name, members)
        except EngineUnavailable:
            raise  # it may have been accepted: the folders say where to look
        except (EngineError, ConfigError) as error:
            until = self._clock() + REMEMBERED
            self._refusals[gang.key] = _Refusal(error, uids, until)
            raise
        self._refusals.pop(gang.key, None)
        numbers = {uid_of(member.pod): number for number, member in enumerate(members)}
        for member in members:
            self._muster.discard(member)
        return member_id(job, numbers[uid_of(submission.pod)])

    async def _submit(self, name: str, members: list[Submission]) -> JobId:
        roster = await gang_roster.call(members, self._slurm.spec)
        machine = await self._slurm.machine(members[0].machine)
        packing = sizes.packed(roster.shapes, machine)
        # Before any file is written: what does not go together never becomes a folder.
        as_gang(roster.specs, packing, roster.limits, Named(name, "", ""))
        gang = await to_its_end(lambda: self._make(members[0], roster, packing))
        named = Named(name, gang_comment(self._cluster_uid, gang.id), str(gang.folder))
        folder = Folder(gang.folder)
        try:
            await self._lock(folder)  # before any pod leads here: who asks for one waits for it
            await to_its_end(lambda: gang.enlist(roster.recruits, packing))
            spec = as_gang(roster.specs, packing, roster.limits, named)
            job = await self._sbatch(folder, spec)
        except EngineUnavailable:
            raise
        except EngineError:
            await to_its_end(lambda: gang.dissolve([one.folder for one in roster.recruits]))
            self._known().pop(gang.id, None)
            raise
        finally:
            folder.release()
        about = {"members": len(members), "to_come": len(roster.later), "bundles": packing.count}
        log.info("submitted gang", gang=name, job=job, **about)
        return job

    def _make(self, first: Submission, roster: Roster, packing: Packing) -> Gang:
        if time.monotonic() - self._swept > SWEEP:
            self._swept = time.monotonic()
            gang_folder.sweep(self._root)
            self._gangs = None
        gang = first.gang
        assert gang is not None, "only members of a gang come here"
        kept = Kept(
            gang.key,
            gang.name,
            roster.size,
            packing.bundle,
            packing.count,
            lead_of(roster.specs),
            roster.least,
            tuple(roster.seats(packing)),
        )
        made = Gang.make(self._root, kept)
        self._known()[made.id] = made
        return made

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
            words = waiting_words(gang.kept.name, there, gang.kept.size)
            job = replace(job, reason="WaitingForGang", message=f"job {job.id} is held: {words}")
        hosts = gang.hosts()
        found = [_as_job(member, job, hosts) for member in members]
        return {one.id: one for one in found}

    def expand_ended(self, job: Job, folder: str) -> dict[JobId, Job]:
        """Do the same for a job that only the accounting remembers, by its working directory."""
        return self.expand(replace(job, pod_uid=f"gang-{Path(folder).name}"))

    def ends(self, ids: Sequence[JobId]) -> dict[JobId, Job]:
        """Return what the leader wrote of members whose job is forgotten by Slurm."""
        by_job = {gang.job(): gang for gang in self._known().values()}
        found: dict[JobId, Job] = {}
        for job in ids:
            parts = parts_of(job)
            gang = by_job.get(parts[0]) if parts is not None else None
            for member in gang.members() if gang is not None else ():
                if parts is not None and member.number == parts[1] and member.end is not None:
                    nobody = Job(job, JobState.UNKNOWN)
                    assert gang is not None, "it has members"
                    found[job] = replace(_as_job(member, nobody, gang.hosts()), id=job)
        return found

    # Ending

    async def cancel(self, ids: Sequence[JobId]) -> list[str]:
        """End these members now; return the jobs, and steps, that scancel must be given for it."""
        listed = {job.id: job for job in (await self._slurm.gang_jobs()).values()}
        wanted: list[str] = []
        for base, numbers in _by_job(ids).items():
            gang = self._by_job(base)
            if gang is None:
                wanted.append(base)
                continue
            gang.leave(numbers)
            members = gang.members()
            if not any(member.is_active for member in members):
                wanted.append(base)
            elif JobId(base) in listed and listed[JobId(base)].state is JobState.PENDING:
                await self._hold(gang)
            else:
                wanted += _steps(base, [m for m in members if m.number in numbers])
        return wanted

    async def steps(self, ids: Sequence[JobId]) -> tuple[list[str], list[JobId]]:
        """Return the steps in which these members run, and the members that run in none."""
        steps: list[str] = []
        idle: list[JobId] = []
        for base, numbers in _by_job(ids).items():
            gang = self._by_job(base)
            members = {m.number: m for m in gang.members()} if gang is not None else {}
            for number in numbers:
                found = _steps(base, [members[number]] if number in members else [])
                steps += found
                idle += [] if found else [member_id(base, number)]
        return steps, idle

    async def requeue(self, job: JobId) -> None:
        """Have the member's gang run again, with all of it that wants to; each of them asks for it.

        Raises WaitingForGang while others of it still run.
        """
        base, number = parts_of(job) or (job, -1)
        gang = self._by_job(base)
        if gang is None:
            raise EngineError(f"the gang of {job} is not known any more")
        async with self._turns.setdefault(gang.kept.key, asyncio.Lock()):
            found = (await self._slurm.gang_jobs()).get(gang.id)
            if found is not None and not found.state.has_ended:
                if any(one.number == number and one.end is not None for one in gang.members()):
                    raise WaitingForGang(f"job {base} still runs with others of its gang")
                return  # another member has asked
            await to_its_end(lambda: gang.reopen(time.time()))
            await self._commands.run("scontrol", "requeue", gang.job())
            log.info("requeued gang", gang=gang.kept.name, job=gang.job())

    def _by_job(self, job: str) -> Gang | None:
        return next((gang for gang in self._known().values() if gang.job() == job), None)

    async def _hold(self, gang: Gang) -> None:
        """Hold the gang's job: it must not start with fewer than all, so it waits and holds
        nothing.
        """
        (gang.folder / _HELD).touch(mode=0o600)
        await self._control("hold", gang.job())

    async def _release(self, gang: Gang) -> None:
        there = sum(not member.has_left for member in gang.members())
        if there >= gang.kept.size and (gang.folder / _HELD).exists():
            await self._control("release", gang.job())
            (gang.folder / _HELD).unlink(missing_ok=True)

    async def _control(self, verb: str, job: str) -> None:
        try:
            await self._commands.run("scontrol", verb, job)
        except CommandFailed as error:
            log.info("job is not waiting any more", job=job, verb=verb, error=error)


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


def _steps(base: str, members: Sequence[Member]) -> list[str]:
    steps = (gang_folder.step_of(member.folder) for member in members)
    return [f"{base}.{step}" for step in steps if step]


def _by_job(ids: Sequence[JobId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for job in dict.fromkeys(ids):
        parts = parts_of(job)
        if parts is not None:
            found.setdefault(parts[0], []).append(parts[1])
    return found
