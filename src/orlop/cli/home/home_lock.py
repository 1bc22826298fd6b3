"""Locks a home folder for at most one control plane, on whichever host.

`serve` takes the home by `HomeLock`; the other commands ask `resident`. Three signs are read,
because none is enough on every file system: a lock (some shared file systems keep locks to one
host), the process itself (where it is on this host), and a heartbeat on the record (where not).
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from ...errors import HomeInUse
from ...settings import Paths
from . import record
from .record import Record

BEAT = 10.0  # seconds between two heartbeats of a living control plane
LEASE = 45.0  # without one for so long, a control plane on another host is taken for dead
# After so long a silence of our own we look again before we write: we may have been taken for dead.
DOUBT = 25.0
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


def resident(paths: Paths) -> Record | None:
    """Return the control plane that runs now, as far as can be told from here."""
    known = record.read(paths)
    if known is None or known.is_stopped:
        return None
    if known.is_of_this_host:
        return known if record.birth_of(known.pid) == known.birth else None
    return known if silence(paths) < LEASE else None


def silence(paths: Paths) -> float:
    """Return the seconds since the last heartbeat, by the file system's own clock."""
    try:
        with tempfile.NamedTemporaryFile(dir=paths.run, prefix=".now.") as probe:
            now = os.fstat(probe.fileno()).st_mtime
        # Opening asks the server of a shared file system; a mere stat may answer from a cache.
        with paths.pid.open("rb") as file:
            return max(0.0, now - os.fstat(file.fileno()).st_mtime)
    except FileNotFoundError:
        return float("inf")


class HomeLock:
    """Holds a home for this process, its one control plane, while a `with` block runs."""

    def __init__(self, paths: Paths, clock: Callable[[], float] | None = None) -> None:
        """Set up; `clock` must go on while the process is stopped or the machine sleeps."""
        self._paths = paths
        self._clock = clock or (lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
        self._lock = -1
        self._mine: Record | None = None
        self._beaten = self._clock()
        self.has_locks = True  # whether the file system knows what a lock is

    def __enter__(self) -> Self:
        other = resident(self._paths)
        if other is not None:
            raise in_use(self._paths.home, other)
        self._lock = os.open(self._paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise in_use(self._paths.home, record.read(self._paths)) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(self._lock)
                raise
            self.has_locks = False  # the other two signs must do
        return self

    def declare(self, mine: Record) -> None:
        self._mine = mine
        record.write(self._paths, mine)
        self._beaten = self._clock()

    def beat(self) -> None:
        """Renew the heartbeat; raise HomeInUse if another took us for dead and has the home now."""
        known = record.read(self._paths)
        if known is not None and known != self._mine:
            raise in_use(self._paths.home, known)
        os.utime(self._paths.pid)
        self._beaten = self._clock()

    def fence(self) -> None:
        """Raise HomeInUse if the home may no longer be ours; called before every write to the
        state.

        A process that was stopped for a minute goes on where it was, and that may be just before a
        write. The clock tells it to look first; while all is well it costs no more than that.
        """
        if self._mine is not None and self._clock() - self._beaten > DOUBT:
            self.beat()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._mine is not None and record.read(self._paths) == self._mine:
            record.write(self._paths, self._mine.stopped())
        os.close(self._lock)


def in_use(home: Path, other: Record | None) -> HomeInUse:
    where = f"on {other}" if other is not None and not other.is_stopped else "and starts just now"
    remedy = "use it, stop it there with `orlop down`, or choose another folder by ORLOP_HOME"
    return HomeInUse(f"{home} already has a control plane, {where}: {remedy}")
