"""Writes the control plane's log to its file, and limits how much of it is kept.

Used by the command line, once, where the process's own output is the log file, which is put aside
when it is large. Messages that anybody may cause, as by connecting and sending nonsense, are
written a few times and then counted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

LIMIT = 16 << 20  # bytes; beyond that the log is put aside, in the place of the one before
BURST, RATE = 50, 0.5  # lines of one kind at once, and then a second

_NO_HTTP = "aiohttp.http_exceptions"


def put_aside(path: Path, limit: int = LIMIT) -> bool:
    """Put a large log aside; return whether the log is another file from now on."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > limit:
            path.replace(path.with_suffix(f"{path.suffix}.1"))
            return True
    return False


class Output:
    """Standard error, and the file behind it: when that is full, output goes on in another.

    Standard output is moved with it; a file that is not `path` stays as it is, like a terminal.
    """

    def __init__(
        self, path: Path, limit: int = LIMIT, descriptors: tuple[int, ...] = (2, 1)
    ) -> None:
        self._path, self._limit, self._descriptors = path, limit, descriptors
        self._is_ours = self._is_the_file()

    def _is_the_file(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptors[0]), self._path.stat())
        except OSError:
            return False

    def write(self, text: str) -> None:
        data = text.encode(errors="backslashreplace")
        with contextlib.suppress(OSError):  # a full disk must not end the control plane
            while data:
                data = data[os.write(self._descriptors[0], data) :]
            if self._is_ours and os.fstat(self._descriptors[0]).st_size > self._limit:
                self._turn_over()

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def _turn_over(self) -> None:
        put_aside(self._path, self._limit)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self._path, flags, 0o600)
        try:
            for descriptor in self._descriptors:
                os.dup2(file, descriptor)
        finally:
            os.close(file)


class Moderation(logging.Filter):
    """Lets through so many lines of one kind, and then says how many it has left out.

    A kind is a place in a program that says something. What we tell of our own accord, at the level
    of information and below, is not held back: nobody can cause it at will.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        is_ours = record.name.startswith("orlop")
        if is_ours and record.levelno <= logging.INFO:
            return True
        _shorten(record)
        name = (record.pathname, record.lineno, str(record.msg) if is_ours else "")
        now = self._now()
        kind = self._kinds.setdefault(name, _Kind(now))
        if not kind.takes(now):
            return False
        if kind.left_out:
            record.values = {**getattr(record, "values", {}), "left_out": kind.left_out}
            kind.left_out = 0
        return True


class _Kind:
    def __init__(self, now: float) -> None:
        self._room, self._since = float(BURST), now
        self.left_out = 0

    def takes(self, now: float) -> bool:
        self._room = min(BURST, self._room + (now - self._since) * RATE)
        self._since = now
        if self._room < 1:
            self.left_out += 1
            return False
        self._room -= 1
        return True


def _shorten(record: logging.LogRecord) -> None:
    """Shorten what is told of a client that sends no HTTP to one line, without bytes or stack."""
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and type(error).__module__ == _NO_HTTP:
        record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
        record.msg, record.args = f"{record.getMessage()}: it is no HTTP", None
