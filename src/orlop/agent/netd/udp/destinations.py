"""Finds where a datagram that a program sends really goes, and makes sure that it is a pod's there.

Used by `sendto` and `sendmsg`, and by `tcp/connect.py` for sockets that are connected. What is none
of the cluster's goes to the address that it names.
"""

from __future__ import annotations

import time

from ..pod_addressing import PodAddressing
from ..routes import Place, Routes
from ..sockets import port_holders, socket_calls
from ..sockets.sockaddr import Address
from .announcements import Announcements
from .connected import Connected
from .flows import Flows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Optional

    from .connected import Origin

ABSENT = 0.5  # seconds
MAX_ABSENT = 1024


class Lost(Exception):
    """Nobody is there to receive it: as on any network, its sender is not told."""


class Destinations:
    def __init__(
        self,
        addressing: PodAddressing,
        routes: Routes,
        flows: Flows,
        announcements: Announcements,
    ) -> None:
        self._addressing, self._routes = addressing, routes
        self._flows, self._announcements = flows, announcements
        self.is_current = announcements.is_current
        self.connections = Connected(addressing, self._speak_to, self._first_place)
        self._absent: dict[tuple[bytes, int], float] = {}  # until when nobody is looked for there

    def find(self, fd: int, to: Address, origin: Origin) -> Optional[Address]:
        """Return where a datagram really goes; None: to the address that it names. Raise Lost."""
        protocol, is_held = socket_calls.protocol(fd), self._routes.may_be_held
        if protocol != "udp":
            if is_held and protocol != "tcp":
                self._routes.check(protocol, to)  # made before there was a policy
            return None
        back = self.way_back(fd, to)
        if back is not None:
            if not self.is_current(fd, back):
                raise Lost
            return back
        places = self._places(to)
        self.be_alone(fd)
        if places is None:
            if not self._addressing.is_node:  # there, what comes need not have been awaited
                self._flows.of(socket_calls.cookie(fd)).goes_outside(to)
            return to if is_held else None
        flow = self._flows.of(socket_calls.cookie(fd))
        place = next(places, None)
        if place is None:
            self._absent[(to.ip, to.port)] = time.monotonic() + ABSENT
            raise Lost
        if place.pod is None:
            flow.goes_outside(place.real)
        flow.names(place.real, to, place)
        if not self._announcements.announce(fd, flow, to, place, origin):
            raise Lost
        return place.real

    def be_alone(self, fd: int) -> None:
        """Make the port a socket's own before it first speaks: none shares it by SO_REUSEADDR."""
        if not self._addressing.is_node and self._flows.find(socket_calls.cookie(fd)) is None:
            port_holders.share_with_ours_alone(fd)

    def _places(self, to: Address) -> Optional[Iterator[Place]]:
        """Find places as Routes.find does; where nobody was, it is not looked again at once."""
        if self._absent.get((to.ip, to.port), 0.0) > time.monotonic():
            raise Lost
        try:
            return self._routes.find("udp", to)
        except OSError:
            if len(self._absent) > MAX_ABSENT:
                self._absent.clear()
            self._absent[(to.ip, to.port)] = time.monotonic() + ABSENT
            raise Lost from None

    def way_back(self, fd: int, to: Address) -> Optional[Address]:
        """Return the real address of one who wrote to this socket, published or not."""
        flow = self._flows.find(socket_calls.cookie(fd))
        back = flow.back.get((to.ip, to.port)) if flow is not None else None
        return Address(to.family, back.ip, back.port) if back is not None else None

    def connected(self, fd: int, to: Address, place: Place, origin: Origin) -> bool:
        """Note whom a socket that was connected speaks with; return whether they are there."""
        cookie = socket_calls.cookie(fd)
        flow = self._flows.of(cookie)
        flow.names(place.real, to, place)
        if place.pod is None:
            flow.goes_outside(place.real)
        if not self._announcements.announce(fd, flow, to, place, origin):
            return False
        if place.pod is not None and place.notice is not None:
            self.connections.watch(cookie, origin, to, place)
        return True

    def _speak_to(self, fd: int, to: Address, place: Place) -> bool:
        """Tell a place once more who is connected to it; return whether it is known to be ours."""
        own = socket_calls.own_address(fd)
        assert own is not None, "it was connected"
        self._flows.of(socket_calls.cookie(fd)).names(place.real, to, place)
        self._announcements.repeat(fd, own, to, place, None)
        return bool(self._announcements.is_ours_now(place, time.time()))

    def _first_place(self, to: Address) -> Optional[Place]:
        places = self._routes.find("udp", to)
        return next(places, None) if places is not None else None
