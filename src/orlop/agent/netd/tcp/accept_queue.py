"""Takes connections from the listening sockets of callers.

Used by `accept`. Keeps those whose caller was interrupted before it had them, for the next that
asks.
"""

from __future__ import annotations

import os
import threading

from ..layout import MAX_KEPT
from ..sockets import socket_calls
from ..sockets.sockaddr import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional


class AcceptQueue:
    def __init__(self) -> None:
        self._lock = threading.Lock()  # what we saw waiting nobody else takes
        # With the cookie of the listening socket, the earliest first.
        self._kept: list[tuple[int, int, Optional[Address], int]] = []

    def take(self, fd: int, flags: int, blocking: bool) -> tuple[int, Optional[Address]]:
        """Return a connection that is there, and its real peer; raise BlockingIOError."""
        if not blocking:
            return socket_calls.accept(fd, flags, False)
        with self._lock:
            return socket_calls.accept(fd, flags, True)

    def kept(self, fd: int) -> Optional[tuple[int, Optional[Address], int]]:
        """Return one that was kept, who it is, and by what number a caller may have it already.

        Its peer is None where a netd that was killed had not yet made sure.
        """
        if not self._kept:
            return None
        cookie = socket_calls.cookie(fd)
        with self._lock:
            for place, (listening, connection, peer, number) in enumerate(self._kept):
                if listening == cookie:
                    del self._kept[place]
                    return connection, peer, number
        return None

    def keep(self, listening: int, connection: int, peer: Optional[Address], number: int) -> None:
        """Keep a connection; `listening` is the cookie of the socket it came by."""
        with self._lock:
            self._kept.append((listening, connection, peer, number))
            if len(self._kept) > MAX_KEPT:
                os.close(self._kept.pop(0)[1])
