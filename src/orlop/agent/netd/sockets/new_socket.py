"""Answers socket and setsockopt: makes sockets of datagrams at descriptors that the filter knows.

Where an egress policy holds, a UDP socket is made unable to send by itself, and a socket of a kind
whose calls are not followed is refused.
"""

from __future__ import annotations

import os
from errno import EAFNOSUPPORT, EPERM, EPROTONOSUPPORT

from ..identity.sock_diag import UDP
from ..seccomp.bpf import AF_NETLINK, SOCK_DGRAM, STRICT, TAGGED
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from . import socket_calls
from .sockaddr import AF_INET, AF_INET6, AF_UNIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Optional

    from ..pod_network import PodNetwork
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

AF_ALG = 38  # of this machine alone: it names ciphers


def make_socket(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    """Make a socket here, at a descriptor by which the filter knows it; None: the kernel may."""
    family, kind, protocol = (int(arg & 0xFFFFFFFF) for arg in call.args[:3])
    is_udp = family in (AF_INET, AF_INET6) and kind & 0xF == SOCK_DGRAM and protocol in (0, UDP)
    if not is_udp and family not in (AF_UNIX, AF_NETLINK):
        return _refusal(family) if network.routes.are_held else None
    is_held = is_udp and network.routes.are_held
    made = socket.socket(family, kind & 0xF, protocol)
    made.setblocking(not kind & os.O_NONBLOCK)
    try:
        if is_held:
            socket_calls.silence(made.fileno())
        # Two threads of a program would both find the same place free, and the one that is served
        # last would take it from the other.
        with network.placing:
            place = _free_place(call, target, STRICT if is_held else TAGGED)
            if place < 0 and not is_held:
                return None
            return _give(call, made.fileno(), place, kind & os.O_CLOEXEC, is_held)
    finally:
        made.close()


def set_option(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    """Refuse, under an egress policy, to join a group, which tells the network so."""
    return -EPERM if network.routes.are_held else None


def _give(call: Call, fd: int, place: int, flags: int, anywhere: bool) -> Optional[int]:
    """Give the caller a socket, at `place` if it can be there; return the number it has.

    Elsewhere, if `anywhere`: the filter then asks about it in the calls that name an address.
    """
    try:
        if place >= 0:
            call.give(fd, place, flags)
            return place
    except OSError:
        pass  # beyond its limit
    return call.give_any(fd, flags) if anywhere else None


def _free_place(call: Call, target: Target, places: range) -> int:
    """Return a descriptor that the caller has not open, among those the filter knows; or -1."""
    for number in places:
        found = target.peek(call, number)
        if found < 0:
            return number
        os.close(found)
    return -1


def _refusal(family: int) -> Optional[int]:
    """Return the errno for a socket that we cannot follow; None: it speaks to nobody elsewhere."""
    if family == AF_ALG:
        return None
    return -(EPROTONOSUPPORT if family in (AF_INET, AF_INET6) else EAFNOSUPPORT)
