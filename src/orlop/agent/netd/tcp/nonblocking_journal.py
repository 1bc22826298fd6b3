"""Writes down which sockets are set not to block while we connect them, in memory that outlives us.

A blocking socket is its program's own, flags and all: to set it going without waiting, its flag is
changed for the length of a call. Whoever is killed in between leaves it so; therefore the socket is
written down here first, and the netd that follows gives the flag back before it answers anybody.
The first half of the places is the compiled part's (agent/netd/native/lent.c).
"""

from __future__ import annotations

import os

from .. import layout
from ..seccomp.caller_process import Descriptors
from ..sockets import socket_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from typing import Union

    from ..seccomp.notify import Call

_ENTRY, ENTRIES = layout.LENT_ENTRY.struct, layout.LENT
_FREE = bytes(_ENTRY.size)


class NonblockingJournal:
    """The journal; `start` is where it begins in memory that several parts share."""

    def __init__(self, memory: Union[mmap.mmap, bytearray], start: int) -> None:
        self._memory, self._start = memory, start
        self._free = list(range(ENTRIES // 2, ENTRIES))

    def connect(self, call: Call, fd: int, packed: bytes, blocking: bool) -> int:
        """Connect a copy of the caller's socket without waiting; return 0 or the errno."""
        if not blocking:
            return socket_calls.connect(fd, packed)
        at = self._free.pop() if self._free else -1
        number = call.args[0] & 0x7FFFFFFF
        self._put(at, _ENTRY.pack(socket_calls.cookie(fd), call.pid, number))
        os.set_blocking(fd, False)
        try:
            return socket_calls.connect(fd, packed)
        finally:
            os.set_blocking(fd, True)
            self._put(at, _FREE)
            if at >= 0:
                self._free.append(at)

    def _put(self, at: int, packed: bytes) -> None:
        if at >= 0:  # so many at once have never been seen; they go unwritten
            place = self._start + at * _ENTRY.size
            self._memory[place : place + _ENTRY.size] = packed

    def mend(self) -> int:
        """Give back the flags that an earlier netd has not; return how many sockets it was."""
        mended = 0
        owners = Descriptors()
        for at in range(ENTRIES):
            cookie, pid, number = _ENTRY.unpack_from(self._memory, self._start + at * _ENTRY.size)
            if cookie:
                mended += _mend(owners, cookie, pid, number)
                self._put(at, _FREE)
        owners.close()
        return mended


def _mend(owners: Descriptors, cookie: int, pid: int, number: int) -> bool:
    """Give one socket its flag back; return whether it is still there."""
    try:
        fd = owners.copy(pid, number)
    except OSError:
        return False  # its owner is gone
    if fd < 0:
        return False
    try:
        is_it = socket_calls.cookie(fd) == cookie
        if is_it:
            os.set_blocking(fd, True)
        return is_it
    except OSError:
        return False  # another kind of file by now
    finally:
        os.close(fd)
