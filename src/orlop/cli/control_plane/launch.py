"""Starts the control plane in the background, and stops it, on this host.

Called by `up` and `down`. The child leads a session of its own, keeps nothing of the terminal and
writes to the log; that it is up, or why not, comes through a pipe, so that polling is not needed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from ...errors import Error, HomeInUse
from ...settings import Paths
from ..home.record import Record, birth_of
from .log_output import put_aside
from .readiness import awaited

LOG_SHOWN = 15  # lines of it, when a start fails


class StartFailed(Error):
    """Raised when the control plane did not come up; says why, with the end of its log."""


def start(paths: Paths, flags: list[str]) -> Record:
    """Return when the API server answers; raise when the process ends before.

    Raises HomeInUse where another `up`, here or on another host, was quicker.
    """
    paths.log.mkdir(mode=0o700, parents=True, exist_ok=True)
    put_aside(paths.log_file)
    read, write = os.pipe()
    with open(paths.log_file, "ab", opener=_private) as log:
        where = log.tell()
        child = subprocess.Popen(
            [*this_program(), "serve", "--ready-fd", str(write), *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[write],
            start_new_session=True,
            cwd="/",
            env={**os.environ, "ORLOP_HOME": str(paths.home)},
        )
    os.close(write)
    try:
        record, why = awaited(read)
    except HomeInUse:
        child.wait()
        raise
    if record is None:
        child.wait()
        raise StartFailed(_explained(paths.log_file, where, why))
    child.returncode = 0  # it lives on, and is no longer ours to wait for
    return record


def this_program() -> list[str]:
    """Return how to run this very installation again; -P: no module of the current folder."""
    return [sys.executable, "-P", "-m", "orlop.cli"]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _explained(log: Path, where: int, why: str) -> str:
    if why:
        return f"the control plane did not start: {why} (its log: {log})"
    with log.open("rb") as file:
        file.seek(where)
        lines = file.read().decode(errors="replace").splitlines()[-LOG_SHOWN:]
    said = "\n".join(f"  {line}" for line in lines) or "  nothing"
    return f"the control plane ended while it started; the end of {log}:\n{said}"


def stop(record: Record, timeout: float) -> bool:
    """Ask the process to end; return whether it did in time. `record` must be of this host."""
    try:
        process = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return True
    try:
        if birth_of(record.pid) != record.birth:
            return True  # the pid is another's by now
        signal.pidfd_send_signal(process, signal.SIGTERM)
        ready, _, _ = select.select([process], [], [], timeout)
        return bool(ready)
    finally:
        os.close(process)
