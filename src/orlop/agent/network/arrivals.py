"""Takes connections from the listening sockets of callers.

Used by accepting. Keeps those whose caller was interrupted before it had them, for the next that
asks. It judges nobody.
"""

from __future__ import annotations

import os
import threading

from . import sockets
from .sockaddr import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

MAX_KEPT = 256


class Arrivals:
    def __init__(self) -> None:
        self._lock = threading.Lock()  # what we saw waiting nobody else takes
        # With the cookie of the listening socket, the earliest first.
        self._kept: list[tuple[int, int, Address]] = []

    def take(self, fd: int, flags: int, blocking: bool) -> tuple[int, Optional[Address]]:
        """A connection that is there, and its real peer; raises BlockingIOError."""
        if not blocking:
            return sockets.accept(fd, flags, False)
        with self._lock:
            return sockets.accept(fd, flags, True)

    def kept(self, fd: int) -> Optional[tuple[int, Address]]:
        """One that was kept, and who it is."""
        if not self._kept:
            return None
        cookie = sockets.cookie(fd)
        with self._lock:
            for number, (listening, connection, peer) in enumerate(self._kept):
                if listening == cookie:
                    del self._kept[number]
                    return connection, peer
        return None

    def keep(self, fd: int, connection: int, peer: Address) -> None:
        with self._lock:
            self._kept.append((sockets.cookie(fd), connection, peer))
            if len(self._kept) > MAX_KEPT:
                os.close(self._kept.pop(0)[1])
