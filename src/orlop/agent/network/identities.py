"""Who is who: the names that a pod's programs know their sockets and peers by.

Filled by whoever answers connect and accept, and read for getsockname and getpeername. A socket
is known by its cookie, which no other ever has; so nothing must be undone when it is closed, and
the oldest are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict

from .bindings import Bindings
from .sockaddr import LOOPBACK4, LOOPBACK6, Address
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

MAX_PEERS = 65536


class Identities:
    def __init__(self, world: World, bindings: Bindings) -> None:
        self._world, self._bindings = world, bindings
        self._peers: OrderedDict[int, Address] = OrderedDict()
        self._own: OrderedDict[int, Address] = OrderedDict()

    def connected(self, cookie: int, peer: Address) -> None:
        """The socket's peer is, to its program, the one it asked for."""
        self._peers[cookie] = peer
        if len(self._peers) > MAX_PEERS:
            self._peers.popitem(last=False)

    def peer(self, cookie: int) -> Optional[Address]:
        return self._peers.get(cookie)

    def knows(self, cookie: int) -> bool:
        """Whether it is a connection that we had to do with."""
        return cookie in self._peers

    def accepted(self, cookie: int, own: Address) -> None:
        """A connection of the pod to itself: under which of its names."""
        self._own[cookie] = own
        if len(self._own) > MAX_PEERS:
            self._own.popitem(last=False)

    def own(self, protocol: str, cookie: int, real: Address, is_connected: bool) -> Address:
        """The name of a socket, as its program should see it."""
        shown = self.shown(protocol, real, is_connected)
        if not is_connected:
            return shown
        given = self._own.get(cookie)
        if given is not None:
            return Address(real.family, given.ip, shown.port)
        peer = self._peers.get(cookie)
        return self.towards(peer, shown) if peer is not None else shown

    def towards(self, peer: Address, shown: Address) -> Address:
        """Who speaks to itself by its loopback has that name there, too."""
        if not (peer.is_loopback or peer.is_any):
            return shown
        ip = LOOPBACK6 if len(peer.ip) == 16 else LOOPBACK4
        return Address(shown.family, ip, shown.port)

    def shown(self, protocol: str, real: Address, is_connected: bool = True) -> Address:
        """The real address of a socket of ours, as its program should see it."""
        given = self._bindings.given(protocol, real)
        if given is None:
            return self._world.shown(real)
        if given.is_any and is_connected:
            return Address(real.family, self._world.pod, given.port)
        return Address(real.family, given.ip, given.port)

    def neighbour(self, real: Address) -> Optional[Address]:
        """The pod of this node that a loopback address stands for."""
        if real.ip == self._world.loopback:
            return self._world.shown(real)
        pod = self._world.pod_of(real.ip)
        return Address(real.family, pod, real.port) if pod else None
