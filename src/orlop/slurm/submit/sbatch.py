"""Runs one sbatch per pod folder, however often it is asked for and whoever is killed meanwhile.

Used by `sbatch_runner` and `user_slurm`. sbatch prints the job's number into `<folder>/submit`, and
for as long as it runs it holds a lock on `<folder>/submit.lock` that it inherited. So whoever comes
later knows:

- the file has a number: the job is submitted;
- the lock is held: somebody's sbatch is under way, wait for it;
- the file is there but empty: somebody began and was killed, so Slurm itself must be asked;
- there is no file: nobody began, or Slurm refused.

sbatch is not killed when the coroutine that started it is: it ends by itself, and its answer is in
the file for the next one to ask. `Folder.sbatch` blocks; it is called in a thread.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import wellknown
from ...engine import JobId
from ...errors import EngineUnavailable
from ...files import write_private
from ..commands import not_startable

_LOCK_POLL = 0.02
LOCK_FILE = wellknown.SUBMIT_FILE + ".lock"
# Its number, for a pod whose submit file leads to that of a job array; +number, to a gang's.
TASK_FILE = "task"
# A parallel file system may be mounted without locks; the agent's claim is then the last guard.
_NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of an sbatch."""

    status: int
    output: str
    errors: str


class Folder:
    """A pod's folder and its submit lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = -1

    @property
    def submit_file(self) -> Path:
        return self.folder / wellknown.SUBMIT_FILE

    def try_lock(self) -> bool:
        """Try to take the lock; return False while another process has it: an sbatch that an
        earlier control plane left, say.
        """
        if self._lock < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._lock = os.open(self.folder / LOCK_FILE, flags, 0o600)
        return _try_lock(self._lock)

    async def locked(self, timeout: float) -> None:
        """Take the lock; wait for an sbatch that an earlier control plane, or a call, has left."""
        try:
            async with asyncio.timeout(timeout):
                while not self.try_lock():  # noqa: ASYNC110  another process has it
                    await asyncio.sleep(_LOCK_POLL)
        except TimeoutError:
            message = f"an earlier sbatch for {self.folder} still runs"
            raise EngineUnavailable(f"{message}; slurmctld may be busy or unreachable") from None

    def lend(self) -> int:
        """Return a second hold on the lock, for sbatch; the caller closes it."""
        return os.dup(self._lock)

    def release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def job(self) -> JobId | None:
        """Return the job that an earlier sbatch printed, or that `record` wrote."""
        try:
            found = job_id(self.submit_file.read_text())
            if found is None or not self.submit_file.is_symlink():
                return found
            return part_of(found, (self.folder / TASK_FILE).read_text())
        except FileNotFoundError:
            return None

    @property
    def is_untouched(self) -> bool:
        """Return whether no submission has begun here: whoever begins one takes the lock before all
        else.
        """
        return not (self.folder / LOCK_FILE).exists() and not self.was_begun

    @property
    def was_begun(self) -> bool:
        """Return whether an sbatch was started here and its answer was not heard: Slurm may have
        the job.
        """
        return self.submit_file.exists()

    def claimed(self) -> JobId | None:
        """Return the job whose agent owns the pod: it ran, whatever Slurm remembers of it."""
        try:
            text = (self.folder / wellknown.CLAIM_FILE).read_text()
        except FileNotFoundError:
            return None
        match = re.search(r'"job"\s*:\s*"?(\d+(?:[_+]\d+)?)"?', text)
        return JobId(match.group(1)) if match else None

    def record(self, job: JobId) -> None:
        write_private(self.submit_file, f"{job}\n")

    def forget(self) -> None:
        """Forget a submission that Slurm refused: there is no job, and the next caller need not
        search for it.
        """
        self.submit_file.unlink(missing_ok=True)

    def sbatch(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        timeout: float,
        lock: int,
        cwd: Path | None = None,
    ) -> Answer:
        """Run sbatch to its end, with its output in the submit file and the lock in its hands.

        Where it runs, here unless told, is what the job knows as SLURM_SUBMIT_DIR. Blocks. At its
        timeout it is killed; the empty file then stays, a sign that it was begun.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        output = os.open(self.submit_file, flags, 0o600)
        # Not a pipe: were its reader killed, a mere warning of sbatch's would kill sbatch.
        errors = os.memfd_create("sbatch-errors", os.MFD_CLOEXEC)
        try:
            child = self._start(argv, environment, lock, cwd or self.folder, (output, errors))
            status = _wait(child, timeout)
            return Answer(status, self.submit_file.read_text(), _read(errors))
        finally:
            os.close(output)
            os.close(errors)

    def _start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        lock: int,
        cwd: Path,
        streams: tuple[int, int],
    ) -> subprocess.Popen[bytes]:
        """Start sbatch, and forget only what did not start: later errors say nothing about the
        job.
        """
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=streams[0],
                stderr=streams[1],
                env=environment,
                cwd=cwd,
                pass_fds=[lock],
                start_new_session=True,  # a Ctrl-C meant for us must not reach it
            )
        except OSError as error:
            self.forget()
            raise not_startable(argv[0], error) from error


def job_id(output: str) -> JobId | None:
    """Return the number in `sbatch --parsable`'s last line, `17` or `17;cluster`; None until whole.

    `17_3` is what `record` writes for a task of an array, `17+3` for a member of a gang.
    """
    if not output.endswith("\n"):
        return None
    lines = output.split()
    match = re.fullmatch(r"(\d+(?:[_+]\d+)?)(;.*)?", lines[-1]) if lines else None
    return JobId(match.group(1)) if match else None


def part_of(job: str, task: str) -> JobId:
    """Return one pod's part of a job that belongs to many pods."""
    return JobId(f"{job}{task}" if task.startswith("+") else f"{job}_{task}")


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return True
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _wait(child: subprocess.Popen[bytes], timeout: float) -> int:
    try:
        return child.wait(timeout)
    except subprocess.TimeoutExpired:
        # Many sites wrap sbatch in a script: what that started holds the lock too.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        message = f"sbatch did not answer within {timeout:g} s"
        raise EngineUnavailable(f"{message}; slurmctld may be busy or unreachable") from None


def _read(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode(errors="replace")
