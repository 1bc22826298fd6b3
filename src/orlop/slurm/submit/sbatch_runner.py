"""Hands a folder's script to sbatch, and says what came of it.

Used by everything that submits pods: one by one, as an array or as a gang. The caller holds the
folder's lock. An answer that nobody heard is neither an acceptance nor a refusal but an error,
because Slurm may have the job.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ... import wellknown
from ...engine import JobId
from ...errors import EngineError, EngineUnavailable
from ..site import SlurmSite
from ..translate.job import JobSpec
from ..translate.script import script
from .limit_checks import Verdicts
from .refusals import Refusals
from .sbatch import Answer, Folder, job_id

SUBMITTERS = 8  # sbatch calls at once: more gain nothing (446 jobs/s with 8, 426 with 4)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Slurm has taken the job."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Refused:
    """Slurm has not taken it, and says why; the folder is as if nobody had asked."""

    error: EngineError


class SbatchRunner:
    def __init__(self, site: SlurmSite, verdicts: Verdicts, refusals: Refusals) -> None:
        self._site = site
        self._verdicts = verdicts
        self._refusals = refusals
        self._threads = ThreadPoolExecutor(SUBMITTERS, thread_name_prefix="sbatch")

    async def run(self, folder: Folder, spec: JobSpec) -> Accepted | Refused:
        """Submit the folder, whose lock is held; raise EngineUnavailable where nobody knows whether
        Slurm has the job.
        """
        path = folder.folder / wellknown.SCRIPT_FILE
        _write(path, script(spec))
        answer = await self._call(folder, str(path))
        if answer.status == 0:
            job = job_id(answer.output) or unheard(folder)
            if self._site.enforces_limits:
                self._verdicts.remember(job, spec)
            return Accepted(job)
        error = await self._refusals.error_of(answer.errors, spec)
        if isinstance(error, EngineUnavailable):
            raise error
        folder.forget()
        return Refused(error)

    async def _call(self, folder: Folder, path: str) -> Answer:
        """Run sbatch in a thread; should this coroutine be cancelled, sbatch goes on and keeps the
        lock.
        """
        commands = self._site.commands
        argv = commands.argv("sbatch", "--parsable", path)
        lock = folder.lend()
        environment, timeout = commands.environment(), commands.timeout
        future = self._threads.submit(folder.sbatch, argv, environment, timeout, lock)
        future.add_done_callback(lambda _: os.close(lock))
        return await asyncio.wrap_future(future)


def unheard(folder: Folder) -> NoReturn:
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
