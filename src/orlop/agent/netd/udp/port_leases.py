"""Keeps UDP sockets open for a moment after they were announced, so that nobody gets their port.

Used by `identity/notices.py`. A server elsewhere takes what comes from an announced port as the
pod's for BELIEVED seconds; the copy of the socket that is kept here is longer-lived than that, even
when the program has closed its own. Asked later, a copy is taken anew from the process that had it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict

from ..seccomp.caller_process import Descriptors
from ..sockets import socket_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

BELIEVED = 1.0  # seconds after a notice or a confirmation has arrived
KEPT = 1.6  # seconds after it was sent
MAX_KEPT = 1024  # each costs a descriptor and a port of the node
MAX_ORIGINS = 8192


class Leases:
    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        """Take `on_first`, which is called when somebody has to sweep from now on."""
        self._on_first = on_first
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[int, float]] = OrderedDict()  # by cookie
        self._origins: OrderedDict[int, tuple[int, int]] = OrderedDict()  # process and descriptor
        self._processes = Descriptors()

    def take(self, fd: int, cookie: int, origin: Optional[tuple[int, int]]) -> bool:
        """Keep a copy of a socket from now on; return False where too many are kept already.

        `origin`: the process and the descriptor it has it by; None: as before.
        """
        with self._lock:
            if origin is not None:
                self._origins[cookie] = origin
                self._origins.move_to_end(cookie)
            if len(self._origins) > MAX_ORIGINS:
                self._origins.popitem(last=False)
            return self._keep(cookie, lambda: os.dup(fd))

    def renew(self, cookie: int) -> bool:
        """Keep a socket announced before; return False where its process has it no more."""
        with self._lock:
            return self._keep(cookie, lambda: self._again(cookie))

    def _keep(self, cookie: int, copy: Callable[[], Optional[int]]) -> bool:
        self._drop(time.monotonic())
        if cookie in self._kept:
            fd: Optional[int] = self._kept.pop(cookie)[0]
        else:
            fd = copy() if len(self._kept) < MAX_KEPT else None
        if fd is None:
            return False
        self._kept[cookie] = fd, time.monotonic() + KEPT
        if len(self._kept) == 1:
            self._on_first()
        return True

    def _again(self, cookie: int) -> Optional[int]:
        """Copy the socket from the process that had it, if it is still there."""
        try:
            fd = self._processes.copy(*self._origins[cookie])
        except (KeyError, OSError):
            return None
        if fd >= 0 and not _is_cookie(fd, cookie):
            os.close(fd)
            return None
        return fd if fd >= 0 else None

    def _drop(self, now: float) -> None:
        """Close those whose time is over; the first to be kept is the first to go."""
        while self._kept:
            cookie, (fd, until) = next(iter(self._kept.items()))
            if until > now:
                return
            del self._kept[cookie]
            os.close(fd)

    def sweep(self) -> float:
        """Close what is over; return the seconds until there is more to do, 0 for nothing."""
        with self._lock:
            now = time.monotonic()
            self._drop(now)
            return next(iter(self._kept.values()))[1] - now if self._kept else 0.0

    def give_up(self, port: int) -> None:
        """Close what is at a port that the pod itself wants again."""
        with self._lock:
            for cookie, (fd, _) in list(self._kept.items()):
                own = socket_calls.own_address(fd)
                if own is not None and own.port == port:
                    del self._kept[cookie]
                    os.close(fd)


def _is_cookie(fd: int, cookie: int) -> bool:
    try:
        return socket_calls.cookie(fd) == cookie
    except OSError:
        return False  # no socket by now
