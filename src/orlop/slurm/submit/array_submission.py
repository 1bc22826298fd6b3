"""Submits pods that are alike as one job array, by one sbatch.

Used by `submitter` for those that wait together. An array that Slurm refuses is dissolved: its pods
have asked for nothing then, and may be tried as fewer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...api.objects import uid_of
from ...engine import JobId, Submission
from ...log import logger
from ..batch import to_its_end
from ..site import SlurmSite
from ..translate.job import JobSpec, array_comment, as_array
from . import job_arrays
from .job_arrays import Array
from .sbatch import Folder
from .sbatch_runner import Refused, SbatchRunner

log = logger(__name__)

SWEEP = 3600.0  # seconds between two looks for arrays of which no pod is left


@dataclass(frozen=True, slots=True)
class Asked:
    """A pod that waits for its sbatch, and what that is told of it."""

    submission: Submission
    spec: JobSpec

    @property
    def uid(self) -> str:
        return uid_of(self.submission.pod)


@dataclass(frozen=True, slots=True)
class AcceptedArray:
    """Slurm has taken the array; `jobs` are its tasks, by the pods' uids."""

    jobs: dict[str, JobId]


class ArraySubmitter:
    """`root` is the folder of job arrays."""

    def __init__(self, site: SlurmSite, sbatch: SbatchRunner, root: Path) -> None:
        self._site = site
        self._sbatch = sbatch
        self._root = root
        self._swept = -SWEEP

    async def submit(self, waiting: Sequence[Asked]) -> AcceptedArray | Refused:
        """Submit the pods, of which there are several, as one array."""
        first = waiting[0]
        folders = [asked.submission.folder for asked in waiting]
        array = await to_its_end(lambda: self._make(folders))
        name = job_arrays.name_of(first.submission.pod, first.spec)
        comment = array_comment(self._site.cluster_uid, array.id)
        spec = as_array(first.spec, name, comment, str(array.folder), len(waiting))
        folder = Folder(array.folder)
        try:
            await folder.locked(self._site.commands.timeout)
            outcome = await self._sbatch.run(folder, spec)
            if isinstance(outcome, Refused):
                tasks, error = len(waiting), outcome.error
                log.info("array refused", name=name, tasks=tasks, error=error)
                await to_its_end(lambda: array.dissolve(folders))
                return outcome
        finally:
            folder.release()
        jobs = (JobId(f"{outcome.job}_{task}") for task in range(len(waiting)))
        return AcceptedArray({asked.uid: job for asked, job in zip(waiting, jobs, strict=True)})

    def _make(self, folders: list[Path]) -> Array:
        if time.monotonic() - self._swept > SWEEP:
            self._swept = time.monotonic()
            job_arrays.sweep(self._root)
        return Array.make(self._root, folders)
