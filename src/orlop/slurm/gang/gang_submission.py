"""Submits gangs as Slurm jobs: one sbatch for all members, one step for each.

Used by `submitter`, for pods that must start together. Members wait at a gang barrier that holds
nothing of Slurm's; the last to come submits for all. Whoever comes later takes the place of a
member that has ended, in the same allocation, as long as others of the gang run there. A gang is
not split.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ...api.objects import key_of, uid_of
from ...engine import JobId, JobState, Submission
from ...engine.gang_barrier import Muster
from ...errors import ConfigError, EngineError, EngineUnavailable, WaitingForGang
from ...log import logger
from ..batch import to_its_end
from ..queue import SlurmQueue
from ..site import SlurmSite
from ..submit.begun import BegunSubmissions
from ..submit.sbatch import Folder
from ..submit.sbatch_runner import Accepted, Refused, SbatchRunner
from . import roster as gang_roster
from . import sizes
from .gang_folder import Gang, GangCandidate, Kept, member_id
from .gang_folders import GangFolders
from .gang_hold import release
from .gang_spec import Named, as_gang, gang_comment, lead_of
from .packing import Packing, Shape
from .roster import Roster

log = logger(__name__)

REMEMBERED = 4.0  # seconds for which a refusal is told to all members without another sbatch


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: EngineError | ConfigError
    uids: frozenset[str]
    until: float


@dataclass(frozen=True, slots=True)
class GoesAlone:
    """The gang runs without the pod and has no room for it."""


@dataclass(frozen=True, slots=True)
class GangIsOver:
    """The gang ended while the pod was about to join it."""


class GangSubmitter:
    def __init__(
        self,
        site: SlurmSite,
        queue: SlurmQueue,
        folders: GangFolders,
        begun: BegunSubmissions,
        sbatch: SbatchRunner,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._site = site
        self._queue = queue
        self._folders = folders
        self._begun = begun
        self._sbatch = sbatch
        self._clock = clock
        self._muster = Muster()
        self._refusals: dict[str, _Refusal] = {}

    async def submit(self, submission: Submission) -> Accepted | GoesAlone:
        """Submit a member of a gang, or have it join those that run already.

        Raises WaitingForGang while there are too few members.
        """
        gang = submission.gang
        assert gang is not None, "only members of a gang come here"
        turn = self._folders.turn(gang.key)
        async with turn:
            known = await self._begun.of(submission)
            if known is not None:
                return Accepted(known)  # who had the turn before us submitted for all
            spec = await self._site.spec(submission)
            running = await self._running(submission)
            if running is not None:
                recruit = gang_roster.recruit(submission, spec, running.kept.least)
                joined = await self._join(running, submission, recruit)
                if not isinstance(joined, GangIsOver):
                    return joined
            return await self._together(submission, gang_roster.recruit(submission, spec).shape)

    async def _running(self, submission: Submission) -> Gang | None:
        """Return the gang whose job runs or waits, if any of its members is still wanted."""
        gang = submission.gang
        assert gang is not None, "only members of a gang come here"
        candidates = list(self._folders.of_key(gang.key))
        if not candidates:
            return None
        listed = await self._queue.gang_jobs()
        for candidate in candidates:
            job = listed.get(candidate.id)
            if job is None or job.state.has_ended or job.state is JobState.COMPLETING:
                continue
            if any(member.is_active and member.uid in gang.peers for member in candidate.members()):
                return candidate
        return None

    async def _join(
        self, running: Gang, submission: Submission, recruit: GangCandidate
    ) -> Accepted | GoesAlone | GangIsOver:
        """Join in the place of a member that has ended, or in one kept for the pod."""
        gang = submission.gang
        assert gang is not None, "only members of a gang come here"
        active = [member for member in running.members() if member.is_active]
        for member in active:
            if member.uid == uid_of(submission.pod) and member.given is not None:
                # It is one already.
                return Accepted(member_id(running.job(), member.number))
        going = [member for member in active if member.uid not in gang.peers]
        place = gang_roster.place_in(running.kept, active, recruit.shape, is_one_going=bool(going))
        if place is None:
            if not going:
                return GoesAlone()
            message = f"pod {going[0].key}, whose place in job {running.job()} it takes, is ending"
            raise WaitingForGang(message)
        number = await to_its_end(lambda: running.join(recruit, *place))
        if number is None:
            return GangIsOver()
        log.info("joined gang", pod=recruit.name, gang=gang.name, job=running.job(), member=number)
        await release(self._site.commands, running)
        return Accepted(member_id(running.job(), number))

    async def _together(self, submission: Submission, shape: Shape) -> Accepted:
        gang = submission.gang
        assert gang is not None, "only members of a gang come here"
        machine = await self._site.machine(submission.machine)
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
        return Accepted(member_id(job, numbers[uid_of(submission.pod)]))

    async def _submit(self, name: str, members: list[Submission]) -> JobId:
        roster = await gang_roster.call(members, self._site.spec)
        machine = await self._site.machine(members[0].machine)
        packing = sizes.packed(roster.shapes, machine)
        # Before any file is written: what does not go together never becomes a folder.
        as_gang(roster.specs, packing, roster.limits, Named(name, "", ""))
        gang = await to_its_end(lambda: self._folders.make(kept_of(members[0], roster, packing)))
        named = Named(name, gang_comment(self._site.cluster_uid, gang.id), str(gang.folder))
        folder = Folder(gang.folder)
        try:
            # Before any pod leads here: who asks for one waits for it.
            await folder.locked(self._site.commands.timeout)
            await to_its_end(lambda: gang.enlist(roster.recruits, packing))
            spec = as_gang(roster.specs, packing, roster.limits, named)
            outcome = await self._sbatch.run(folder, spec)
            if isinstance(outcome, Refused):
                raise outcome.error
        except EngineUnavailable:
            raise
        except EngineError:
            await to_its_end(lambda: gang.dissolve([recruit.folder for recruit in roster.recruits]))
            self._folders.forget(gang)
            raise
        finally:
            folder.release()
        about = {"members": len(members), "to_come": len(roster.later), "bundles": packing.count}
        log.info("submitted gang", gang=name, job=outcome.job, **about)
        return outcome.job


def kept_of(first: Submission, roster: Roster, packing: Packing) -> Kept:
    """Return what is kept of a gang, of which `first` is any member."""
    gang = first.gang
    assert gang is not None, "only members of a gang come here"
    return Kept(
        gang.key,
        gang.name,
        roster.size,
        packing.bundle,
        packing.count,
        lead_of(roster.specs),
        roster.least,
        tuple(roster.seats(packing)),
    )
