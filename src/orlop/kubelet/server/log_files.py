"""Reads the files of one container's log, as the agent lays them, by offsets of the whole log.

Used by `logs`. `0.log` goes on in `0.log.<offset>`, and the oldest of these files go
(agent/container/logs.py writes them); a byte has the same offset for ever. Whatever lies under such
a name and is no regular file is not read.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

CHUNK = 256 << 10


class LogFiles:
    """The log at `path`; it holds no file open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts: list[int] = []

    def starts(self) -> list[int]:
        """Return where its files begin, the oldest first."""
        name = self._path.name
        try:
            names = os.listdir(self._path.parent)
        except OSError:
            names = []
        later = [found[len(name) + 1 :] for found in names if found.startswith(f"{name}.")]
        self._starts = sorted([0] * (name in names) + [int(n) for n in later if n.isdecimal()])
        return self._starts

    def end(self) -> int:
        """Return where it ends now; 0 where there is none."""
        starts = self.starts()
        return starts[-1] + self._size(starts[-1]) if starts else 0

    def read(self, offset: int, count: int = CHUNK) -> tuple[int, bytes]:
        """Return what is there from an offset on, and of which offset it is: a later one where what
        was asked for is gone. No bytes: there is no more yet.
        """
        known = self._starts
        for is_fresh in (False, True):
            known = self.starts() if is_fresh or not known else known
            before = [start for start in known if start <= offset]
            # The next may be there although a shared file system does not list it yet.
            for start in (*before[-1:], offset):
                if data := self._read(start, offset, count):
                    return offset, data
        later = [start for start in known if start > offset]
        if before or not later:
            return offset, b""
        return later[0], self._read(later[0], later[0], count)

    def span(self, start: int, end: int) -> tuple[int, bytes]:
        """Return all that is there without a gap up to an offset, and where that begins."""
        parts: list[bytes] = []
        at = start
        while at < end:
            found, data = self.read(at, end - at)
            if not data:
                break
            if found != at:
                start, parts = found, []
            parts.append(data)
            at = found + len(data)
        return start, b"".join(parts)

    def _read(self, start: int, offset: int, count: int) -> bytes:
        try:
            descriptor = self._open(start)
        except OSError:
            return b""
        try:
            return os.pread(descriptor, count, offset - start)
        finally:
            os.close(descriptor)

    def _size(self, start: int) -> int:
        try:
            return self._file(start).stat().st_size
        except OSError:
            return 0

    def _open(self, start: int) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self._file(start), flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "expected a regular file", str(self._file(start)))
        return descriptor

    def _file(self, start: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{start}") if start else self._path
