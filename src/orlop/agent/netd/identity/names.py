"""Keeps the names by which a pod's programs know their sockets and peers.

Filled by whoever answers connect and accept, and asked for getsockname and getpeername. What is
known of single connections is in the connection table; what an address can tell is told here.
"""

from __future__ import annotations

from ..pod_addressing import PodAddressing
from ..sockets import socket_calls
from ..sockets.bindings import Bindings
from ..sockets.sockaddr import AF_INET, LOOPBACK4, LOOPBACK6, Address
from ..tcp.connection_table import ConnectionTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional


class Identities:
    def __init__(
        self, addressing: PodAddressing, bindings: Bindings, register: ConnectionTable
    ) -> None:
        self._addressing, self._bindings, self._register = addressing, bindings, register

    def connected(self, cookie: int, peer: Address) -> None:
        """Remember that the socket's peer is, to its program, the one it asked for."""
        self._register.put(cookie, peer)

    def forget(self, cookie: int) -> None:
        """Remember that the socket speaks with nobody of the cluster."""
        self._register.remove(cookie)

    def accepted(self, cookie: int, peer: Address, own: Address) -> None:
        """Remember under which names of its own the pod speaks to itself on this connection."""
        self._register.put(cookie, peer, own)

    def sibling(self, cookie: int, real: Address, port: int) -> Optional[tuple[Address, Address]]:
        """Return both ends' names of a connection to our port from a socket of this very pod."""
        found = self._register.find(cookie, real.family) if cookie else None
        if found is None:
            return None
        return self.towards(found[0], self.shown("tcp", real)), self.named(found[0], port)

    def named(self, to: Address, port: int) -> Address:
        """Return our port's name for a socket of this pod that asked for `to`.

        One that asked for a service sees the pod's address.
        """
        ip = to.ip if self._addressing.is_own(to) else self._addressing.pod
        return Address(to.family, ip, port)

    def vouched(self, connection: int) -> Optional[tuple[Address, Optional[Address]]]:
        """Return who an accepted connection is, by a notice or a netd before us, and its name."""
        return self._register.find(socket_calls.cookie(connection), AF_INET)

    def who(self, connection: int) -> Optional[Address]:
        """Return the peer of an accepted connection, as we or a netd before us found it."""
        real = socket_calls.peer_address(connection)
        if real is None:
            return None
        found = self._register.find(socket_calls.cookie(connection), real.family)
        return found[0] if found is not None else None

    def peer(self, cookie: int, real: Address) -> Optional[Address]:
        """Return the address by which a program knows its peer; None: by the real one."""
        found = self._register.find(cookie, real.family)
        return found[0] if found is not None else self.neighbour(real)

    def own(self, protocol: str, fd: int, real: Address) -> Address:
        """Return the name of a socket, as its program should see it."""
        found = self._register.find(socket_calls.cookie(fd), real.family)
        if found is None:
            return self.shown(protocol, real, _is_connected(fd))
        peer, given = found
        shown = self.shown(protocol, real)
        if given is not None:
            return Address(real.family, given.ip, shown.port)
        return self.towards(peer, shown)

    def towards(self, peer: Address, shown: Address) -> Address:
        """Return our own name to a peer: who speaks to itself by its loopback sees that."""
        if not (peer.is_loopback or peer.is_any):
            return shown
        ip = LOOPBACK6 if len(peer.ip) == 16 else LOOPBACK4
        return Address(shown.family, ip, shown.port)

    def shown(self, protocol: str, real: Address, is_connected: bool = True) -> Address:
        """Return the real address of a socket of ours, as its program should see it."""
        given = self._bindings.given(protocol, real)
        if given is None:
            return self._addressing.shown(real)
        if given.is_any and is_connected:
            return Address(real.family, self._addressing.pod, given.port)
        return Address(real.family, given.ip, given.port)

    def neighbour(self, real: Address) -> Optional[Address]:
        """Return the pod of this node that a loopback address stands for."""
        if real.ip == self._addressing.loopback:
            return self._addressing.shown(real)
        pod = self._addressing.pod_of(real.ip)
        return Address(real.family, pod, real.port) if pod else None


def _is_connected(fd: int) -> bool:
    try:
        socket_calls.peer_name(fd)
        return True
    except OSError:
        return False
