"""Finds the job of a pod for which an earlier control plane, or call, has begun a submission.

Asked before anything is submitted. A number in the folder is believed; where an sbatch was begun
and its answer was not heard, the agent's claim and Slurm itself are asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...api.objects import key_of
from ...engine import JobId, Submission
from ...log import logger
from ..gang import gang_folder
from ..queue import SlurmQueue
from . import job_arrays
from .sbatch import Folder

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class BegunSubmissions:
    """`timeout` is how long an sbatch that somebody else has started is waited for."""

    queue: SlurmQueue
    timeout: float

    async def of(self, submission: Submission) -> JobId | None:
        """Return the pod's job, if it was submitted before."""
        folder = Folder(submission.folder)
        if folder.is_untouched:
            return None
        try:
            await folder.locked(self.timeout)
            return await self.in_folder(folder, submission)
        finally:
            folder.release()

    async def in_folder(self, folder: Folder, submission: Submission) -> JobId | None:
        """Return the job of an sbatch that was begun, even if its end was not heard; the caller
        holds the folder's lock.
        """
        if not folder.was_begun:
            return None
        array = job_arrays.joined(folder)
        known = folder.job()
        if known is None:
            workdir = array or submission.folder
            known = folder.claimed() or await self.queue.find(submission, workdir)
            if known is not None:
                log.info("found job again", pod=str(key_of(submission.pod)), job=known)
                folder.record(known)
            elif array is not None:
                gang_folder.leave(folder)
        return known
