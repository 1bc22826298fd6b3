"""Answers sendto: sends datagrams from here, on the caller's own socket, to where they really go.

What is none of the cluster's passes through the kernel untouched, unless an egress policy restricts
the pod: then its sockets cannot send by themselves, and all is sent from here, by their twins.
"""

from __future__ import annotations

import os
import struct
from errno import EDESTADDRREQ, EMSGSIZE, EOPNOTSUPP

from ..identity.sock_diag import UDP
from ..seccomp.bpf import MSG_FASTOPEN
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from ..sockets import sockaddr, socket_calls
from ..sockets.msghdr import MAX_DATA, join_pieces
from ..sockets.sockaddr import AF_INET, Address
from ..sockets.socket_calls import MSG_DONTWAIT, SO_DOMAIN, SOL_SOCKET
from .destinations import Lost
from .send_twins import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Optional

    from ..pod_network import PodNetwork
    from ..sockets.msghdr import Control
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import


def sendto(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    fd, at, length, flags, name, name_length = call.args
    if not name:
        return send_silent(network, call, target, lambda: [(at, length)], flags)
    raw = target.read_address(call, name, name_length & 0xFFFFFFFF)
    copy = target.grab(call, fd)
    try:
        to = parse(raw, copy)
        if to is None:
            return network.unix_sockets.send(call, target, copy, raw)
        if socket_calls.protocol(copy) == "tcp":  # it speaks to whom it is connected
            is_fast = flags & MSG_FASTOPEN and network.addressing.is_virtual(to.ip)
            return -EOPNOTSUPP if is_fast else None
        if length > MAX_DATA:
            return -EMSGSIZE
        try:
            real = network.destinations.find(copy, to, (call.pid, fd & 0x7FFFFFFF))
        except Lost:
            return length
        if real is None:
            return None
        return put(network, copy, target.read(call, at, length), [], flags, real)
    finally:
        os.close(copy)


def send_silent(
    network: PodNetwork,
    call: Call,
    target: Target,
    pieces: Callable[[], list[tuple[int, int]]],
    flags: int,
) -> Optional[int]:
    """Send on a socket that cannot send by itself, where the call names no address."""
    fd = target.grab(call, call.args[0])
    try:
        if not socket_calls.is_socket(fd) or socket_calls.protocol(fd) != "udp":
            return None
        return put(network, fd, join_pieces(call, target, pieces()), [], flags, None)
    finally:
        os.close(fd)


def put(
    network: PodNetwork,
    fd: int,
    data: bytes,
    control: list[Control],
    flags: int,
    to: Optional[Address],
) -> int:
    """Send on a caller's socket, or by its twin; `to` None: to whom it is connected."""
    flags = flags & 0xFFFFFFFF | MSG_DONTWAIT
    try:
        if not control:
            return socket_calls.send(fd, data, flags, to.pack() if to is not None else b"")
        family = socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN)
        own = socket.socket(family, socket.SOCK_DGRAM, UDP, fileno=os.dup(fd))
        try:
            return own.sendmsg([data], control, flags, *([words(family, to)] if to else []))
        finally:
            own.close()
    except BrokenPipeError:
        to = to or socket_calls.peer_address(fd)
        if to is None:
            raise OSError(EDESTADDRREQ, "not connected") from None
        return network.twins.send(fd, data, control, flags, to)


def parse(raw: bytes, fd: int) -> Optional[Address]:
    """Read a destination as the kernel takes it: without a family, IPv4 for a socket of IPv4."""
    is_nameless = raw[:2] == b"\0\0" and len(raw) >= 16
    if is_nameless and socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET:
        raw = struct.pack("<H", AF_INET) + raw[2:]
    return sockaddr.parse(raw)
