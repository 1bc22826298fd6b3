"""Submits one job for each pod's folder, with one sbatch for many pods that are alike.

Used by `jobs`. The first pod of a kind goes to sbatch at once; those that come while it runs go
together as a job array, so that nobody waits for company and a burst is a handful of commands. An
array that Slurm refuses is halved until it fits, so that a limit of jobs is filled with few calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from ...api.objects import key_of
from ...engine import JobId, Submission
from ...errors import EngineUnavailable, Error
from ...log import logger
from ..batch import Batch
from ..gang.gang_submission import GangSubmitter
from ..site import SlurmSite
from . import job_arrays
from .array_submission import ArraySubmitter, Asked
from .begun import BegunSubmissions
from .sbatch import Folder
from .sbatch_runner import SUBMITTERS, Accepted, Refused, SbatchRunner

log = logger(__name__)

# Pods between their lock and their job's number: each holds files open, and login nodes allow few.
SUBMISSIONS = 4 * SUBMITTERS

_Outcomes = dict[str, JobId | Error]  # by the pods' uids


class Submitter:
    def __init__(
        self,
        site: SlurmSite,
        begun: BegunSubmissions,
        sbatch: SbatchRunner,
        arrays: ArraySubmitter,
        gangs: GangSubmitter,
    ) -> None:
        self._site = site
        self._begun = begun
        self._sbatch = sbatch
        self._arrays = arrays
        self._gangs = gangs
        self._open_folders = asyncio.Semaphore(SUBMISSIONS)
        self._alike: dict[object, Batch[Asked, _Outcomes]] = {}
        self._asking: dict[object, int] = {}

    async def submit(self, submission: Submission) -> JobId:
        """Return the job of the pod's folder; submit it unless it was submitted before.

        1. A member of a gang is submitted with all others of it, where it does not go alone.
        2. What an earlier control plane or call has begun is found again.
        3. Else together with its like, as soon as no sbatch for them is under way.
        """
        try:
            if submission.gang is not None:
                member = await self._gangs.submit(submission)  # 1
                if isinstance(member, Accepted):
                    return member.job
            async with self._open_folders:
                known = await self._begun.of(submission)  # 2
                if known is not None:
                    return known
                spec = await self._site.spec(submission)
            for warning in spec.warnings:
                log.warning("not as asked", pod=str(key_of(submission.pod)), why=warning)
                submission.warn(warning)
            outcome = await self._with_its_like(Asked(submission, spec))  # 3
        except OSError as error:
            raise _unwritten(submission.folder, error) from error
        if isinstance(outcome, Error):
            raise outcome
        return outcome

    async def _with_its_like(self, asked: Asked) -> JobId | Error:
        shape = job_arrays.shape(asked.submission.pod, asked.spec)
        most = max(1, min(job_arrays.MOST, (await self._site.facts()).max_array))
        batch = self._alike.setdefault(shape, Batch(self._send, most=most))
        self._asking[shape] = self._asking.get(shape, 0) + 1
        try:
            return (await batch.ask(asked))[asked.uid]
        finally:
            self._asking[shape] -= 1
            if not self._asking[shape]:
                del self._asking[shape], self._alike[shape]

    async def _send(self, together: list[Asked]) -> _Outcomes:
        """Submit for all that wait together; done by the caller that leads."""
        outcomes: _Outcomes = {}
        waiting = []
        for asked in together:
            # A leader before us may have begun.
            known = await self._begun.of(asked.submission)
            if known is None:
                waiting.append(asked)
            else:
                outcomes[asked.uid] = known
        return outcomes | await self._fill(waiting)

    async def _fill(self, waiting: Sequence[Asked]) -> _Outcomes:
        """Submit as many at once as Slurm takes, with no more questions than that needs.

        They ask for the same: where one is refused on its own, so are the others, and where
        slurmctld does not answer for one it answers for none.
        """
        outcomes: _Outcomes = {}
        left, most = list(waiting), len(waiting)
        if left and most < job_arrays.least(left[0].submission.pod):
            answers = await asyncio.gather(*(self._alone(asked) for asked in left))
            return {asked.uid: answer for asked, answer in zip(left, answers, strict=True)}
        while left:
            some = left[:most]
            if len(some) > 1:
                array = await self._arrays.submit(some)
                if isinstance(array, Refused):
                    most = (len(some) + 1) // 2
                    continue
                outcomes |= array.jobs
            else:
                outcome = await self._alone(some[0])
                some = left if isinstance(outcome, Error) else some
                outcomes |= {asked.uid: outcome for asked in some}
            left = left[len(some) :]
        return outcomes

    async def _alone(self, asked: Asked) -> JobId | Error:
        folder = Folder(asked.submission.folder)
        try:
            async with self._open_folders:
                await folder.locked(self._site.commands.timeout)
                # Whoever had the lock until now may have done it.
                known = await self._begun.in_folder(folder, asked.submission)
                if known is not None:
                    return known
                outcome = await self._sbatch.run(folder, asked.spec)
                return outcome.job if isinstance(outcome, Accepted) else outcome.error
        except Error as error:
            return error
        except OSError as error:
            return _unwritten(folder.folder, error)
        finally:
            folder.release()


def _unwritten(folder: Path, error: OSError) -> EngineUnavailable:
    remedy = "check space, quota and permissions of the home folder"
    return EngineUnavailable(f"{folder}: {error.strerror or error}; {remedy}")
