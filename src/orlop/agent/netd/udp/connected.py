"""Watches UDP sockets that are connected to pods, and cuts off those whose pod is gone.

Told by `destinations`; runs in a thread of its own, that begins with the first. What such a socket
sends and hears is not asked about, call by call; so from time to time each is looked at, and where
nobody says any more that the port is the pod's, it is connected to nowhere: what it sends is
refused, as on any network, and not heard by another user who has the port. It is connected again
when the pod, or another endpoint of its service, is there.
"""

from __future__ import annotations

import os
import threading
import time

from ..pod_addressing import PodAddressing
from ..seccomp.caller_process import Descriptors
from ..sockets import socket_calls
from ..sockets.sockaddr import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Optional

    from ..routes import Place

    Origin = tuple[int, int]  # a process and a descriptor of its
    # Tells the socket's place, once more, that it speaks there; whether that is known to be ours.
    Ask = Callable[[int, Address, Place], bool]
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

EVERY = 0.7  # seconds
LOST = 1.0  # seconds since a place was last known to be ours: two questions without an answer
MAX_WATCHED = 1024


class Watched:
    """One connected socket."""

    def __init__(self, origin: Origin, to: Address, place: Place) -> None:
        self.origin, self.to, self.place = origin, to, place
        self.known = time.monotonic()  # when its place was last known to be ours
        self.is_cut = False


class Connected:
    """The watch; `ask` as above; `find` is where an address leads now, None: nobody is there."""

    def __init__(
        self, addressing: PodAddressing, ask: Ask, find: Callable[[Address], Optional[Place]]
    ) -> None:
        self._addressing, self._ask, self._find = addressing, ask, find
        self._processes = Descriptors()
        self._watched: dict[int, Watched] = {}  # by cookie
        self._lock = threading.Lock()
        self._nowhere: Optional[socket.socket] = None

    def watch(self, cookie: int, origin: Origin, to: Address, place: Place) -> None:
        """Watch a socket that was just connected to a place that is ours."""
        with self._lock:
            is_first = self._nowhere is None
            if is_first:
                self._nowhere = self._made_nowhere()
            self._watched.pop(cookie, None)
            if len(self._watched) >= MAX_WATCHED:
                del self._watched[next(iter(self._watched))]
            self._watched[cookie] = Watched(origin, to, place)
        if is_first:
            threading.Thread(target=self._go_on, name="connected", daemon=True).start()

    def forget(self, cookie: int) -> None:
        self._watched.pop(cookie, None)

    def _made_nowhere(self) -> socket.socket:
        """Make a port where nobody listens: its socket is connected to itself."""
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        made.bind((_text(self._addressing.loopback), 0))
        made.connect(made.getsockname())
        return made

    def _go_on(self) -> None:
        while True:
            time.sleep(EVERY)
            self.look()

    def look(self) -> None:
        """Look at each of them once."""
        for cookie, watched in list(self._watched.items()):
            fd = self._copy(cookie, watched.origin)
            if fd < 0:  # closed, or passed on to a process that we do not know of
                self._watched.pop(cookie, None)
                continue
            try:
                self._look_at(fd, watched)
            except OSError:
                pass  # nobody can say where it leads just now; it is looked at again
            finally:
                os.close(fd)

    def _copy(self, cookie: int, origin: Origin) -> int:
        try:
            fd = self._processes.copy(*origin)
        except OSError:
            return -1
        try:
            if fd < 0 or socket_calls.cookie(fd) == cookie:
                return fd
        except OSError:
            pass  # another kind of file by now
        os.close(fd)
        return -1

    def _look_at(self, fd: int, watched: Watched) -> None:
        peer, nowhere = socket_calls.peer_address(fd), self._nowhere_for(watched.to.family)
        if peer is None or peer != (nowhere if watched.is_cut else watched.place.real):
            self.forget(socket_calls.cookie(fd))  # its program has connected it elsewhere
        elif self._ask(fd, watched.to, watched.place):
            watched.known = time.monotonic()
            if watched.is_cut:
                socket_calls.connect(fd, watched.place.real.pack())
                watched.is_cut = False
        elif watched.is_cut:
            watched.place = self._find(watched.to) or watched.place
            self._ask(fd, watched.to, watched.place)
        elif time.monotonic() - watched.known >= self._patience(watched.place):
            socket_calls.connect(fd, nowhere.pack())
            watched.is_cut = True

    def _nowhere_for(self, family: int) -> Address:
        assert self._nowhere is not None, "made before anything is watched"
        return Address(family, self._addressing.loopback, self._nowhere.getsockname()[1])

    def _patience(self, place: Place) -> float:
        """Return how long to wait for an answer; on this node the kernel knows at once."""
        return 0.0 if place.real.ip == self._addressing.node else LOST


def _text(ip: bytes) -> str:
    return socket.inet_ntoa(ip)
