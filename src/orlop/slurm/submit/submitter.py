"""Submits one job for each pod's folder, with one sbatch for many pods that are alike.

Used by `jobs`. The first pod of a kind goes to sbatch at once; those that come while it runs go
together as a job array, so that nobody waits for company and a burst is a handful of commands. An
array that Slurm refuses is halved until it fits, so that a limit of jobs is filled with few calls.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from ... import wellknown
from ...api.objects import key_of, uid_of
from ...engine import JobId, Submission
from ...errors import EngineError, EngineUnavailable, Error
from ...log import logger
from ...settings import Paths
from ..batch import Batch, to_its_end
from ..commands import Commands
from ..gang import gang_folder, gang_jobs
from ..gang.gang_jobs import GangJobs
from ..translate.job import JobSpec, array_comment, as_array
from ..translate.script import script
from . import job_arrays
from .job_arrays import Array
from .sbatch import Answer, Folder, job_id

log = logger(__name__)

SUBMITTERS = 8  # sbatch calls at once: more gain nothing (446 jobs/s with 8, 426 with 4)
# Pods between their lock and their job's number: each holds files open, and login nodes allow few.
SUBMISSIONS = 4 * SUBMITTERS
SWEEP = 3600.0  # seconds between two looks for arrays of which no pod is left
_LOCK_POLL = 0.02


class Slurm(gang_jobs.Slurm, Protocol):
    """The facts of the site that a submission needs."""

    async def find(self, submission: Submission, workdir: Path) -> JobId | None:
        """Find a job of that pod, or of its array, that was submitted although its number was never
        heard.
        """
        ...

    async def refused(self, words: str, spec: JobSpec) -> EngineError:
        """Return what sbatch said, as an error that names the remedy."""
        ...

    def accepted(self, job: JobId, spec: JobSpec) -> None:
        """Take note that sbatch has taken the job."""
        ...

    async def max_array(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Asked:
    submission: Submission
    spec: JobSpec


_Outcomes = dict[str, JobId | Error]  # by the pods' uids


class Submitter:
    def __init__(self, slurm: Slurm, commands: Commands, cluster_uid: str, paths: Paths) -> None:
        self._slurm = slurm
        self._commands = commands
        self._cluster_uid = cluster_uid
        self._root = paths.arrays
        self._open_folders = asyncio.Semaphore(SUBMISSIONS)
        self._threads = ThreadPoolExecutor(SUBMITTERS, thread_name_prefix="sbatch")
        self._alike: dict[object, Batch[_Asked, _Outcomes]] = {}
        self._asking: dict[object, int] = {}
        self._swept = -SWEEP  # when arrays without pods were last removed
        self.gangs = GangJobs(
            slurm, commands, cluster_uid, paths.gangs, self._known, self._lock, self._sbatch
        )

    async def submit(self, submission: Submission) -> JobId:
        """Return the job of the pod's folder; submit it unless it was submitted before.

        1. What an earlier control plane or call has begun is found again.
        2. A member of a gang is submitted with all others of it.
        3. Else together with its like, as soon as no sbatch for them is under way.
        """
        try:
            if submission.gang is not None:
                job = await self.gangs.submit(submission)
                if job is not None:
                    return job
            async with self._open_folders:
                known = await self._known(submission)
                if known is not None:
                    return known
                spec = await self._slurm.spec(submission)
            for warning in spec.warnings:
                log.warning("not as asked", pod=str(key_of(submission.pod)), why=warning)
                submission.warn(warning)
            outcome = await self._with_its_like(_Asked(submission, spec))
        except OSError as error:
            raise _unwritten(submission.folder, error) from error
        if isinstance(outcome, Error):
            raise outcome
        return outcome

    # What was begun before

    async def _known(self, submission: Submission) -> JobId | None:
        folder = Folder(submission.folder)
        if folder.is_untouched:
            return None
        try:
            await self._lock(folder)
            return await self._begun(folder, submission)
        finally:
            folder.release()

    async def _lock(self, folder: Folder) -> None:
        """Lock the folder; wait for an sbatch that an earlier control plane, or a call, has
        left.
        """
        try:
            async with asyncio.timeout(self._commands.timeout):
                while not folder.try_lock():  # noqa: ASYNC110  another process has it
                    await asyncio.sleep(_LOCK_POLL)
        except TimeoutError:
            message = f"an earlier sbatch for {folder.folder} still runs"
            raise EngineUnavailable(f"{message}; slurmctld may be busy or unreachable") from None

    async def _begun(self, folder: Folder, submission: Submission) -> JobId | None:
        """Return the job of an sbatch that was begun, even if its end was not heard."""
        if not folder.was_begun:
            return None
        array = job_arrays.joined(folder)
        known = folder.job()
        if known is None:
            workdir = array or submission.folder
            known = folder.claimed() or await self._slurm.find(submission, workdir)
            if known is not None:
                log.info("found job again", pod=str(key_of(submission.pod)), job=known)
                folder.record(known)
            elif array is not None:
                gang_folder.leave(folder)
        return known

    # Submitting

    async def _with_its_like(self, asked: _Asked) -> JobId | Error:
        shape = job_arrays.shape(asked.submission.pod, asked.spec)
        most = max(1, min(job_arrays.MOST, await self._slurm.max_array()))
        batch = self._alike.setdefault(shape, Batch(self._send, most=most))
        self._asking[shape] = self._asking.get(shape, 0) + 1
        try:
            return (await batch.ask(asked))[uid_of(asked.submission.pod)]
        finally:
            self._asking[shape] -= 1
            if not self._asking[shape]:
                del self._asking[shape], self._alike[shape]

    async def _send(self, together: list[_Asked]) -> _Outcomes:
        """Submit for all that wait together; done by the caller that leads."""
        outcomes: _Outcomes = {}
        waiting = []
        for asked in together:
            known = await self._known(asked.submission)  # a leader before us may have begun
            if known is None:
                waiting.append(asked)
            else:
                outcomes[uid_of(asked.submission.pod)] = known
        return outcomes | await self._fill(waiting)

    async def _fill(self, waiting: Sequence[_Asked]) -> _Outcomes:
        """Submit as many at once as Slurm takes, with no more questions than that needs.

        They ask for the same: where one is refused on its own, so are the others, and where
        slurmctld does not answer for one it answers for none.
        """
        outcomes: _Outcomes = {}
        left, most = list(waiting), len(waiting)
        if left and most < job_arrays.least(left[0].submission.pod):
            answers = await asyncio.gather(*(self._alone(asked) for asked in left))
            uids = (uid_of(asked.submission.pod) for asked in left)
            return dict(zip(uids, answers, strict=True))
        while left:
            some = left[:most]
            if len(some) > 1:
                accepted = await self._send_array(some)
                if accepted is None:
                    most = (len(some) + 1) // 2
                    continue
                outcomes |= accepted
            else:
                outcome = await self._alone(some[0])
                some = left if isinstance(outcome, Error) else some
                outcomes |= {uid_of(asked.submission.pod): outcome for asked in some}
            left = left[len(some) :]
        return outcomes

    async def _alone(self, asked: _Asked) -> JobId | Error:
        folder = Folder(asked.submission.folder)
        try:
            async with self._open_folders:
                await self._lock(folder)
                # Whoever had the lock until now may have done it.
                known = await self._begun(folder, asked.submission)
                return known or await self._sbatch(folder, asked.spec)
        except Error as error:
            return error
        except OSError as error:
            return _unwritten(folder.folder, error)
        finally:
            folder.release()

    async def _send_array(self, waiting: list[_Asked]) -> _Outcomes | None:
        """Submit the pods as one array; return None where Slurm has refused it."""
        first = waiting[0]
        folders = [asked.submission.folder for asked in waiting]
        array = await to_its_end(lambda: self._make(folders))
        name = job_arrays.name_of(first.submission.pod, first.spec)
        comment = array_comment(self._cluster_uid, array.id)
        spec = as_array(first.spec, name, comment, str(array.folder), len(waiting))
        folder = Folder(array.folder)
        try:
            await self._lock(folder)
            job = await self._sbatch(folder, spec)
        except EngineUnavailable:
            raise  # it may have been accepted: the folders say where to look
        except EngineError as error:
            log.info("array refused, trying less", name=name, tasks=len(waiting), error=error)
            await to_its_end(lambda: array.dissolve(folders))
            return None
        finally:
            folder.release()
        return {
            uid_of(asked.submission.pod): JobId(f"{job}_{task}")
            for task, asked in enumerate(waiting)
        }

    def _make(self, folders: list[Path]) -> Array:
        if time.monotonic() - self._swept > SWEEP:
            self._swept = time.monotonic()
            job_arrays.sweep(self._root)
        return Array.make(self._root, folders)

    async def _sbatch(self, folder: Folder, spec: JobSpec) -> JobId:
        path = folder.folder / wellknown.SCRIPT_FILE
        _write(path, script(spec))
        answer = await self._run_sbatch(folder, str(path))
        if answer.status == 0:
            job = job_id(answer.output) or _unheard(folder)
            self._slurm.accepted(job, spec)
            return job
        error = await self._slurm.refused(answer.errors, spec)
        if not isinstance(error, EngineUnavailable):
            folder.forget()
        raise error

    async def _run_sbatch(self, folder: Folder, path: str) -> Answer:
        """Run sbatch in a thread; should this coroutine be cancelled, sbatch goes on and keeps the
        lock.
        """
        argv = self._commands.argv("sbatch", "--parsable", path)
        lock = folder.lend()
        environment, timeout = self._commands.environment(), self._commands.timeout
        future = self._threads.submit(folder.sbatch, argv, environment, timeout, lock)
        future.add_done_callback(lambda _: os.close(lock))
        return await asyncio.wrap_future(future)


def _unwritten(folder: Path, error: OSError) -> EngineUnavailable:
    remedy = "check space, quota and permissions of the home folder"
    return EngineUnavailable(f"{folder}: {error.strerror or error}; {remedy}")


def _unheard(folder: Folder) -> NoReturn:
    """Raise for a job that Slurm took and whose number was lost: as the file is empty, the next
    call looks for it.
    """
    message = f"sbatch succeeded, but its answer is not in {folder.submit_file}"
    raise EngineUnavailable(f"{message}; check space and quota of the home folder")


def _write(path: Path, text: str) -> None:
    """Write without waiting for the disk: sbatch copies the text at once, and Slurm keeps what is
    submitted.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o700)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
