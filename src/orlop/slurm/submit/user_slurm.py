"""Serves jobs that are no pods: submitted once, listed, looked up, cancelled.

Used by the controllers of Slurm's own jobs. One squeue serves them and the kubelet: whoever asks,
both hear the answer. Submission follows the protocol of `sbatch.py`, so that a job is submitted
once and found again, whoever is killed at whatever moment.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...errors import EngineUnavailable
from ...log import logger
from ..commands import CommandFailed, Commands
from ..jobs import SlurmEngine
from ..query import user_jobs
from ..query.user_jobs import UserJob, UserJobs, uid_of_comment
from .sbatch import Answer, Folder, job_id
from .sbatch_runner import unheard

log = logger(__name__)

_SUBMITTERS = 4
_SPACE = 60.0  # seconds by which clocks may differ

Listing = Mapping[str, tuple[UserJob, ...]]


class UserSlurm:
    def __init__(self, engine: SlurmEngine, commands: Commands, cluster_uid: str) -> None:
        self.commands = commands
        self.cluster_uid = cluster_uid
        self._engine = engine
        self._threads = ThreadPoolExecutor(_SUBMITTERS, thread_name_prefix="sbatch user")
        self._reader = UserJobs()
        self._text, self._listing = "", dict[str, tuple[UserJob, ...]]()
        self._hear: Callable[[Listing], None] = lambda listing: None
        engine.subscribe(self._on_squeue)

    def subscribe(self, hear: Callable[[Listing], None]) -> None:
        """Have `hear` told every answer of squeue's, whoever asked for it."""
        self._hear = hear

    def _on_squeue(self, text: str) -> None:
        if text != self._text:
            self._text, self._listing = text, self._reader.read(text)
        self._hear(self._listing)

    def is_ours(self, job: UserJob) -> bool:
        """Return whether a SlurmJob of this cluster has asked for it."""
        return bool(self.object_of(job))

    def object_of(self, job: UserJob) -> str:
        """Return the uid of the SlurmJob that has asked for it; empty if none of this cluster's
        has.
        """
        return uid_of_comment(job.comment, self.cluster_uid)

    async def list(self) -> None:
        """Ask squeue; the answer goes to all subscribers."""
        await self._engine.jobs()

    async def ended(self, numbers: Collection[str]) -> Listing:
        """Return the accounting's word on jobs that squeue lists no more; nothing where there is
        none.
        """
        if not numbers or not (await self._engine.site.facts()).has_accounting:
            return {}
        arguments = (*user_jobs.SACCT, "-j", ",".join(numbers))
        return user_jobs.parse_sacct(await self.commands.run("sacct", *arguments))

    async def cancel(self, number: str) -> None:
        """End the job now; no error if it has ended already."""
        await self._engine.cancel_any(number)

    # Submission

    async def submit(
        self,
        folder: Path,
        arguments: Sequence[str],
        script: Path,
        uid: str,
        cwd: Path,
        shell: Mapping[str, str] | None = None,
    ) -> str:
        """Return the number of the folder's job, submitted unless it was; from `cwd` if that is
        here.

        The job gets the variables of a `shell` in the place of ours.
        """
        held = Folder(folder)
        try:
            await held.locked(self.commands.timeout)
            known = await self._begun(held, script, uid)
            return known or await self._sbatch(held, arguments, cwd, shell)
        except OSError as error:
            remedy = "check space, quota and permissions of the home folder"
            raise EngineUnavailable(f"{folder}: {error.strerror or error}; {remedy}") from error
        finally:
            held.release()

    async def submitted(self, folder: Path, script: Path, uid: str) -> str:
        """Return the number of the folder's job if it was ever submitted; submit nothing."""
        held = Folder(folder)
        try:
            await held.locked(self.commands.timeout)
            return await self._begun(held, script, uid)
        except FileNotFoundError:
            return ""
        finally:
            held.release()

    async def _begun(self, held: Folder, script: Path, uid: str) -> str:
        """Return the job of an sbatch that was begun, even if its end was not heard."""
        if not held.was_begun:
            return ""
        known = str(held.job() or "")
        if not known:
            known = await self._find(held.submit_file.stat().st_mtime, script, uid)
            if known:
                log.info("found job again", folder=held.folder.name, job=known)
                held.submit_file.write_text(f"{known}\n")
        return known

    async def _find(self, began: float, script: Path, uid: str) -> str:
        """Find the job by its comment in the queue, else by its script in the accounting."""
        arguments = ("--me", "--local", "--all", "-h", "-t", "all", "-O", "ArrayJobID:|,Comment:|")
        for line in (await self.commands.run("squeue", *arguments)).splitlines():
            number, _, comment = line.partition("|")
            if uid_of_comment(comment.rstrip("|"), self.cluster_uid) == uid:
                return number
        if not (await self._engine.site.facts()).has_accounting:
            return ""
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(began - _SPACE))
        window = ("-S", since, "-E", "now+1hour")
        try:
            text = await self.commands.run("sacct", *user_jobs.SUBMIT_LINE, *window)
            return user_jobs.submitted_with(text, str(script))
        except CommandFailed:  # before 20.11 it knows no SubmitLine
            return ""

    async def _sbatch(
        self,
        held: Folder,
        arguments: Sequence[str],
        cwd: Path,
        shell: Mapping[str, str] | None,
    ) -> str:
        program, *options = self.commands.argv("sbatch", "--parsable", *arguments)
        # Found as all other commands are, wherever that shell would look for it.
        argv = [shutil.which(program, path=self.commands.environ.get("PATH")) or program, *options]
        lock = held.lend()
        environment, timeout = self.commands.user_environment(shell), self.commands.timeout

        def call() -> Answer:  # in a thread: that folder's file system may hang
            return held.sbatch(argv, environment, timeout, lock, here(cwd))

        future = self._threads.submit(call)
        future.add_done_callback(lambda _: os.close(lock))
        answer: Answer = await asyncio.wrap_future(future)
        if answer.status == 0:
            return str(job_id(answer.output) or unheard(held))
        error = await self._engine.refused(answer.errors)
        if not isinstance(error, EngineUnavailable):
            held.forget()
        raise error


def here(folder: Path) -> Path | None:
    """Return the folder if it can exist on this host: it may exist on a compute node alone."""
    return folder if os.path.isdir(folder) and os.access(folder, os.X_OK) else None
