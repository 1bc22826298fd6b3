"""Locks between processes, by files, for coroutines.

Used by `cache`; a lock ends with the process that holds it, however that ends. Waiting is polling,
for a blocked thread per waiter would be worse. A lock's file stays: another process may be about to
lock it.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from pathlib import Path
from typing import Self

# Parallel file systems mounted without locks: the rename that publishes an image is atomic anyway.
_NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.5


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        if error.errno not in _NO_LOCKS:
            raise
    return True


class FileLock:
    """A lock by a file: `async with FileLock(path):` one process, and in it one coroutine, at a
    time.

    Without `wait` the body runs in any case, and `is_held` says whether it has the lock.
    """

    def __init__(self, path: Path, *, wait: bool = True) -> None:
        self._path = path
        self._wait = wait
        self.descriptor = -1
        self.is_held = False

    async def __aenter__(self) -> Self:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self.descriptor = os.open(self._path, flags, 0o600)
        pause = _FIRST_WAIT
        try:
            while not (held := try_lock(self.descriptor)) and self._wait:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_WAIT)
        except BaseException:
            os.close(self.descriptor)
            raise
        self.is_held = held
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_held = False
        os.close(self.descriptor)
