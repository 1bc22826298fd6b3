"""Keeps real ports with the pod: a socket for each, bound and not used, that lets nobody in.

Used by `bind`. SO_REUSEADDR knows no users: whoever sets it may have a port together with all who
have set it, too, and listen there while they do not. So ours does not have it. A program of the
pod's gets beside it by SO_REUSEPORT, for which the kernel wants all sockets to be of one user, and
which is on while netd binds or listens.
"""

from __future__ import annotations

import os

from . import socket_calls
from .sockaddr import AF_INET, AF_INET6, Address
from .socket_calls import SO_REUSEADDR, SO_REUSEPORT, SOL_SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

# Of a UDP port, so that nothing arrives at it: nobody sends from there.
_NOWHERE = Address(AF_INET, b"\x7f\0\0\1", 1)


def hold_tcp(place: Address) -> tuple[int, Address]:
    """Take a real port before a program has it, at port 0 any; return its holder and the place."""
    holder = socket.socket(_family(place), socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        socket_calls.bind(holder.fileno(), Address(_family(place), place.ip, place.port).pack())
        found = socket_calls.own_address(holder.fileno())
        assert found is not None, "an internet socket has such a name"
    except OSError:
        holder.close()
        raise
    return holder.detach(), Address(place.family, place.ip, found.port)


def hold_udp(fd: int, real: Address) -> int:
    """Keep the port that a program's socket was just bound to; return -1 where that cannot be."""
    if real.is_any or _family(real) == AF_INET6:
        return -1  # what it is not to receive cannot be said for all addresses
    holder = socket.socket(AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        with Beside(fd, [holder.fileno()]):
            socket_calls.bind(holder.fileno(), Address(AF_INET, real.ip, real.port).pack())
        if socket_calls.connect(holder.fileno(), _NOWHERE.pack()):
            raise OSError("no way to nowhere")
    except OSError:
        holder.close()
        return -1
    return holder.detach()


def _family(place: Address) -> int:
    return AF_INET if len(place.ip) == 4 else AF_INET6


class Beside:
    """Lets a program's socket have a port that we hold, for the length of a `with`."""

    def __init__(self, fd: int, holders: list[int]) -> None:
        self._fd, self._holders = fd, holders
        self._on: list[int] = []

    def __enter__(self) -> None:
        if not self._holders:
            return
        owner = os.fstat(self._fd).st_uid
        for holder in self._holders:
            if os.fstat(holder).st_uid != owner:  # of a container that has several users
                os.fchown(holder, owner, -1)
        # What comes to a UDP port is dealt among all that are bound so, but not, since Linux 5.4,
        # to one that is connected, as the holder is.
        shares = bool(socket_calls.option(self._fd, SOL_SOCKET, SO_REUSEPORT))
        for one in [*self._holders, *([] if shares else [self._fd])]:
            socket_calls.switch_on(one, SOL_SOCKET, SO_REUSEPORT)
            self._on.append(one)

    def __exit__(self, *error: object) -> None:
        for one in self._on:
            socket_calls.switch_off(one, SOL_SOCKET, SO_REUSEPORT)


def share_with_ours_alone(fd: int) -> bool:
    """Let a UDP socket share its port with its user's sockets only; return whether it shares."""
    if socket_calls.option(fd, SOL_SOCKET, SO_REUSEADDR):
        socket_calls.switch_off(fd, SOL_SOCKET, SO_REUSEADDR)
        socket_calls.switch_on(fd, SOL_SOCKET, SO_REUSEPORT)
    return bool(socket_calls.option(fd, SOL_SOCKET, SO_REUSEPORT))
