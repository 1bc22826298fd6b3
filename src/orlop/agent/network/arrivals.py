"""Takes connections from the listening sockets of callers.

Used by accepting. Keeps those whose caller was interrupted before it had them, for the next that
asks. It judges nobody.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from . import sockets
from .sockaddr import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

MAX_KEPT = 256


class Arrivals:
    def __init__(self) -> None:
        self._lock = threading.Lock()  # what we saw waiting nobody else takes
        self._kept: OrderedDict[int, tuple[int, Address]] = OrderedDict()  # by listening socket

    def take(self, fd: int, flags: int, blocking: bool) -> tuple[int, Optional[Address]]:
        """A connection that is there, and its real peer; raises BlockingIOError."""
        if not blocking:
            return sockets.accept(fd, flags, False)
        with self._lock:
            return sockets.accept(fd, flags, True)

    def kept(self, fd: int) -> Optional[tuple[int, Address]]:
        """One that was kept, and who it is."""
        return self._kept.pop(sockets.cookie(fd), None) if self._kept else None

    def keep(self, fd: int, connection: int, peer: Address) -> None:
        self._kept[sockets.cookie(fd)] = (connection, peer)
        if len(self._kept) > MAX_KEPT:
            os.close(self._kept.popitem(last=False)[1][0])
