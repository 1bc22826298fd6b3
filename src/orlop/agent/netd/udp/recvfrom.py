"""Answers recvfrom: hands on the datagrams that are for the program, from whom it knows them.

Each is judged when it is received: an answer must be from the one that was written to, and at a
socket that serves a port, what comes from somebody nobody speaks for is dropped.
"""

from __future__ import annotations

import os
import select
import struct
import time
from errno import EAGAIN, EBADF

from ..identity.sock_diag import UDP
from ..seccomp.bpf import AF_NETLINK
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from ..sockets import sockaddr, socket_calls
from ..sockets.msghdr import MAX_CONTROL, MAX_DATA, pack_control
from ..sockets.sockaddr import AF_INET, AF_INET6, Address
from ..sockets.socket_calls import LATER, MSG_DONTWAIT, SO_DOMAIN, SOL_SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any, Optional

    from ..pod_network import PodNetwork
    from ..tcp.pending_calls import Wait

    # What was received: data, control messages, flags, and from whom.
    Received = tuple[bytes, bytes, int, bytes]
    Deliver = Callable[[Target, Received], int]
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

MSG_PEEK, MSG_TRUNC, MSG_ERRQUEUE = 0x2, 0x20, 0x2000


def recvfrom(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    at, length, name, name_length = call.args[1], call.args[2], call.args[4], call.args[5]
    if not name and is_plain(call, target):
        return None

    def deliver(target: Target, received: Received) -> int:
        data, _, _, source = received
        part = data[: min(length, MAX_DATA)]
        if part:
            target.write(call, at, part)
        target.write_address(call, name, name_length, source)
        return len(data) if call.args[3] & MSG_TRUNC else len(part)

    return receive(network, call, target, call.args[3], deliver)


def is_plain(call: Call, target: Target) -> bool:
    """Return whether what comes needs no judgement.

    The socket is connected, so that the kernel lets in one peer, or it is none of ours.
    """
    fd = target.grab(call, call.args[0])
    try:
        if not socket_calls.is_socket(fd):
            return True
        is_ours = socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN) in (
            AF_INET,
            AF_INET6,
            AF_NETLINK,
        )
        return not is_ours or socket_calls.peer_address(fd) is not None
    finally:
        os.close(fd)


def receive(
    network: PodNetwork, call: Call, target: Target, flags: int, deliver: Deliver
) -> Optional[int]:
    fd = target.grab(call, call.args[0])
    try:
        family = socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN)
        if flags & MSG_ERRQUEUE or not _is_ours(network, fd, family):
            return None
        waiting = _Receiving(network, call, fd, family, flags, deliver)
        wait = waiting.step(target, True)
        if wait is not None:
            network.pending.add(call, fd, wait, waiting.step)
            fd = -1
        return LATER
    finally:
        if fd >= 0:
            os.close(fd)


def _is_ours(network: PodNetwork, fd: int, family: int) -> bool:
    if family == AF_NETLINK:
        return not network.addressing.is_node
    if family not in (AF_INET, AF_INET6) or socket_calls.protocol(fd) != "udp":
        return False
    if network.flows.find(socket_calls.cookie(fd)) is not None:
        return True
    own = socket_calls.own_address(fd)
    if own is None or network.bindings.given("udp", own) is not None:
        return own is not None
    # Bound to an address of the node's own, where all who can reach the node write to.
    is_the_nodes = not (own.is_any or own.is_loopback or own.is_for_many)
    return is_the_nodes and not network.addressing.is_node and socket_calls.peer_address(fd) is None


def next_datagram(network: PodNetwork, fd: int, family: int, peek: int) -> Received:
    own = _socket(os.dup(fd), family)
    try:
        while True:
            with network.stamping:
                got = own.recvmsg(MAX_DATA, MAX_CONTROL, peek | MSG_DONTWAIT)
                arrived = socket_calls.stamp(fd) if family != AF_NETLINK else 0.0
            data, control, flags, source = got
            if family == AF_NETLINK:
                data, name = network.interfaces.rewritten(data), _netlink_name(source)
                if data:
                    return data, b"", flags, name
            else:
                shown = _from(network, fd, _address(family, source), arrived)
                if shown is not None:
                    return data, pack_control(control, network.addressing), flags, shown.pack()
            if peek:
                own.recv(1, MSG_DONTWAIT)  # not for the program: out of its way
    finally:
        own.close()


def _from(network: PodNetwork, fd: int, real: Address, arrived: float) -> Optional[Address]:
    """Return whom the program knows a sender as; None: nobody it should hear."""
    flow, own = network.flows.find(socket_calls.cookie(fd)), socket_calls.own_address(fd)
    assert own is not None, "an internet socket has such a name"
    if flow is not None:
        key = real.ip, real.port
        named, place = flow.virtual.get(key), flow.places.get(key)
        if named is not None:
            # Where there is no place, it is of no pod.
            is_theirs = place is None or network.announcements.has_answered(
                fd, own, named, place, arrived
            )
            return Address(real.family, named.ip, named.port) if is_theirs else None
        if flow.awaits(real):
            return real
    port = network.identities.shown("udp", own).port
    notice = None
    if len(real.ip) == 4:  # nobody is announced by an address of IPv6
        notice = network.notices.speaker(real, own, port, arrived)
    if notice is None:
        is_open = network.addressing.is_open("udp", own)
        return real if is_open and _is_allowed(network, real, port) else None
    found = Address(real.family, notice.peer.ip, notice.peer.port)
    if notice.own is None and not _is_allowed(network, found, port):
        return None
    # What is sent back there goes where it came from, published or not.
    network.flows.of(socket_calls.cookie(fd)).answers(found, real)
    return found


def _is_allowed(network: PodNetwork, peer: Address, port: int) -> bool:
    return network.endpoints.allows("ingress", "udp", sockaddr.text(peer.ip), port)


class _Receiving:
    """One receive of one caller."""

    def __init__(
        self,
        network: PodNetwork,
        call: Call,
        fd: int,
        family: int,
        flags: int,
        deliver: Deliver,
    ) -> None:
        self._network, self._call, self._fd, self._family = network, call, fd, family
        self._flags, self._deliver = flags, deliver
        self._waits = socket_calls.is_blocking(fd) and not flags & MSG_DONTWAIT
        timeout = socket_calls.receive_timeout(fd) if self._waits else 0.0
        self._give_up_at = time.monotonic() + timeout if timeout else None

    def step(self, target: Target, is_ready: bool) -> Optional[Wait]:
        try:
            received = next_datagram(self._network, self._fd, self._family, self._flags & MSG_PEEK)
            self._call.answer(self._deliver(target, received))
        except BlockingIOError:
            left = 0.0
            if self._give_up_at is not None:
                left = self._give_up_at - time.monotonic()
            if self._waits and left >= 0:
                return int(select.EPOLLIN), left
            self._call.answer(-EAGAIN)
        except OSError as error:
            self._call.answer(-(error.errno or EBADF))
        return None


def _socket(fd: int, family: int) -> socket.socket:
    """Make a socket object for a descriptor that is ours."""
    kind = socket.SOCK_RAW if family == AF_NETLINK else socket.SOCK_DGRAM
    return socket.socket(family, kind, 0 if family == AF_NETLINK else UDP, fileno=fd)


def _address(family: int, source: Any) -> Address:
    words = source[0]
    if words.startswith("::ffff:") and "." in words:
        words = words[7:]
    return Address(family, sockaddr.number(words.partition("%")[0]), source[1])


def _netlink_name(source: Any) -> bytes:
    return struct.pack("<HHII", AF_NETLINK, 0, *source)
