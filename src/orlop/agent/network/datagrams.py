"""Answers the calls of datagram sockets: sendto, recvfrom, sendmsg, recvmsg and their plurals.

A datagram to an address of the cluster is sent from here, on the caller's own socket, to where
that really is; one that arrives is told as from whom the program knows. What is none of the
cluster's passes through the kernel untouched. A datagram to a socket that serves a port, from
somebody nobody speaks for, is dropped.
"""

from __future__ import annotations

import os
import select
import struct
import time
from errno import EAGAIN, EBADF, EMSGSIZE, EOPNOTSUPP

from . import sockaddr, sockets
from .abstract import Abstract
from .bindings import Bindings
from .bpf import AF_NETLINK, TAGGED
from .directory import Directory
from .flows import Flow, Flows
from .identities import Identities
from .interfaces import Interfaces
from .messages import (
    MAX_CONTROL,
    MAX_DATA,
    SIZE_OF_MANY,
    Message,
    pack_control,
    unpack_control,
)
from .notices import Notices
from .notify import Call
from .pending import Pending
from .routes import Place, Routes
from .sockaddr import AF_INET, AF_INET6, ANY4, Address
from .sockets import LATER, MSG_DONTWAIT, SO_DOMAIN, SOL_SOCKET
from .target import Target
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from typing import Any, Optional

    from .pending import Wait

    # What was received: data, control messages, flags, and from whom.
    Received = tuple[bytes, bytes, int, bytes]
    Deliver = Callable[[Target, Received], int]
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

MSG_PEEK, MSG_TRUNC, MSG_ERRQUEUE, MSG_FASTOPEN = 0x2, 0x20, 0x2000, 0x20000000
UDP = 17
MAX_MANY = 1024
ABSENT = 0.5  # seconds
ANNOUNCE_EVERY = 5.0  # seconds; a netd that was replaced hears of us again


class _Lost(Exception):
    """Nobody is there to receive it: as on any network, its sender is not told."""


class Datagrams:
    def __init__(
        self,
        world: World,
        bindings: Bindings,
        routes: Routes,
        directory: Directory,
        notices: Notices,
        identities: Identities,
        pending: Pending,
        abstract: Abstract,
    ) -> None:
        self._world, self._bindings, self._routes = world, bindings, routes
        self._directory, self._notices, self._identities = directory, notices, identities
        self._pending, self._abstract = pending, abstract
        self._interfaces = Interfaces(world)
        self.ioctl = self._interfaces.ioctl
        self._flows = Flows()
        self._sources: dict[bytes, bytes] = {}
        self._absent: dict[tuple[bytes, int], float] = {}  # until when nobody is looked for there

    # socket

    def socket(self, call: Call, target: Target) -> Optional[int]:
        """Make it here, at a descriptor by which the filter knows it."""
        family, kind, protocol = (int(arg & 0xFFFFFFFF) for arg in call.args[:3])
        if family in (AF_INET, AF_INET6) and protocol not in (0, UDP):
            return None
        place = _free_place(call, target)
        if place < 0:
            return None
        made = socket.socket(family, kind & 0xF, protocol)
        made.setblocking(not kind & os.O_NONBLOCK)
        try:
            call.give(made.fileno(), place, kind & os.O_CLOEXEC)
        except OSError:
            return None  # beyond its limit: it has to do with the calls that name an address
        finally:
            made.close()
        return place

    # Sending

    def sendto(self, call: Call, target: Target) -> Optional[int]:
        fd, at, length, flags, name, name_length = call.args
        raw = target.read_address(call, name, name_length & 0xFFFFFFFF)
        to, copy = sockaddr.parse(raw), target.grab(call, fd)
        try:
            if to is None:
                return self._abstract.send(call, target, copy, raw)
            if sockets.protocol(copy) == "tcp":
                is_fast = flags & MSG_FASTOPEN and self._world.is_virtual(to.ip)
                return -EOPNOTSUPP if is_fast else None
            if length > MAX_DATA:
                return -EMSGSIZE
            try:
                real = self._destination(copy, to)
            except _Lost:
                return length
            if real is None:
                return None
            data = target.read(call, at, length)
            return sockets.send(copy, data, flags & 0xFFFFFFFF | MSG_DONTWAIT, real.pack())
        finally:
            os.close(copy)

    def sendmsg(self, call: Call, target: Target) -> Optional[int]:
        fd = target.grab(call, call.args[0])
        try:
            return self._send_message(call, target, fd, call.args[1], call.args[2])
        finally:
            os.close(fd)

    def sendmmsg(self, call: Call, target: Target) -> Optional[int]:
        """Several at once; what the kernel is to send itself, it sends from there on."""
        at, count = call.args[1], min(call.args[2] & 0xFFFFFFFF, MAX_MANY)
        flags = call.args[3] | MSG_DONTWAIT
        fd = target.grab(call, call.args[0])
        done = 0
        try:
            for number in range(count):
                place = at + SIZE_OF_MANY * number
                sent = self._send_message(call, target, fd, place, flags)
                if sent is None:
                    return done or None
                target.write(call, place + SIZE_OF_MANY - 8, struct.pack("<I", sent))
                done += 1
        except OSError:
            if not done:
                raise
        finally:
            os.close(fd)
        return done

    def _send_message(
        self, call: Call, target: Target, fd: int, at: int, flags: int
    ) -> Optional[int]:
        message = Message(call, target, at)
        if not message.name:
            return None
        raw = target.read_address(call, message.name, message.name_length)
        to = sockaddr.parse(raw)
        if to is None:
            return self._abstract.send_message(call, target, fd, raw, message, flags)
        try:
            real = self._destination(fd, to)
        except _Lost:
            return len(message.data())
        if real is None:
            return None
        control = unpack_control(message.control(), self._world)
        own = _socket(os.dup(fd), real.family)
        try:
            return own.sendmsg([message.data()], control, flags | MSG_DONTWAIT, _words(real))
        finally:
            own.close()

    def _destination(self, fd: int, to: Address) -> Optional[Address]:
        """Where a datagram really goes; None: to where it says."""
        if sockets.protocol(fd) != "udp":
            return None
        back = self.way_back(fd, to)
        if back is not None:
            return back
        places = self._places(to)
        if places is None:
            if not self._world.is_node:  # there, what comes need not have been awaited
                self._flows.of(sockets.cookie(fd)).goes_outside(to)
            return None
        flow = self._flows.of(sockets.cookie(fd))
        place = next(places, None)
        if place is None:
            self._absent[(to.ip, to.port)] = time.monotonic() + ABSENT
            raise _Lost
        if place.pod is None:
            flow.goes_outside(place.real)
        flow.names(place.real, to)
        self.announce(fd, flow, to, place)
        return place.real

    def _places(self, to: Address) -> Optional[Iterator[Place]]:
        """As Routes.find, but who is not there is not looked for again at once."""
        if self._absent.get((to.ip, to.port), 0.0) > time.monotonic():
            raise _Lost
        try:
            return self._routes.find("udp", to)
        except OSError:
            if len(self._absent) > MAX_MANY:
                self._absent.clear()
            self._absent[(to.ip, to.port)] = time.monotonic() + ABSENT
            raise _Lost from None

    def way_back(self, fd: int, to: Address) -> Optional[Address]:
        """Where one really is who wrote to this socket, published or not."""
        flow = self._flows.find(sockets.cookie(fd))
        back = flow.back.get((to.ip, to.port)) if flow is not None else None
        return Address(to.family, back.ip, back.port) if back is not None else None

    def announce(self, fd: int, flow: Flow, to: Address, place: Place) -> None:
        """Tell whoever is written to who writes, now and then."""
        own = sockets.own_address(fd)
        if own is not None and not own.port:
            sockets.bind(fd, Address(own.family, ANY4, 0).pack())
            own = sockets.own_address(fd)
        if own is None or len(place.real.ip) == 16:
            return
        if not flow.is_due(place.real, time.monotonic(), ANNOUNCE_EVERY):
            return
        ip = own.ip if any(own.ip) else self._source(place.real.ip)
        real = Address(own.family, ip, own.port)
        shown = self._identities.shown("udp", real)
        if place.own_port:
            shown = self._identities.towards(to, shown)
            self._notices.expect("udp", real, shown, self._identities.named(to, place.own_port))
        elif place.pod is not None and place.notice is not None:
            notice = self._notices.sign("udp", real, shown.port, place.pod)
            self._notices.send(notice, place.notice)

    def _source(self, to: bytes) -> bytes:
        """The address of this node that a datagram to a place leaves from."""
        found = self._sources.get(to)
        if found is None:
            probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            probe.connect((sockaddr.text(to), 9))
            found = self._sources[to] = sockaddr.number(probe.getsockname()[0])
            probe.close()
        return found

    def connected(self, fd: int, to: Address, place: Place) -> None:
        """A socket that was connected: those it speaks with."""
        flow = self._flows.of(sockets.cookie(fd))
        flow.names(place.real, to)
        if place.pod is None:
            flow.goes_outside(place.real)
        self.announce(fd, flow, to, place)

    # Receiving

    def recvfrom(self, call: Call, target: Target) -> Optional[int]:
        at, length, name, name_length = call.args[1], call.args[2], call.args[4], call.args[5]

        def deliver(target: Target, received: Received) -> int:
            data, _, _, source = received
            part = data[: min(length, MAX_DATA)]
            if part:
                target.write(call, at, part)
            target.write_address(call, name, name_length, source)
            return len(data) if call.args[3] & MSG_TRUNC else len(part)

        return self._receive(call, target, call.args[3], deliver)

    def recvmsg(self, call: Call, target: Target) -> Optional[int]:
        def deliver(target: Target, received: Received) -> int:
            data, control, flags, source = received
            put = Message(call, target, call.args[1]).fill(data, control, flags, source)
            return len(data) if call.args[2] & MSG_TRUNC else put

        return self._receive(call, target, call.args[2], deliver)

    def recvmmsg(self, call: Call, target: Target) -> Optional[int]:
        """The first is waited for; those that are there already come with it."""
        at, count = call.args[1], min(call.args[2] & 0xFFFFFFFF, MAX_MANY)

        def deliver(target: Target, received: Received) -> int:
            done = 0
            fd = target.grab(call, call.args[0])
            try:
                while True:
                    place = at + SIZE_OF_MANY * done
                    data, control, flags, source = received
                    put = Message(call, target, place).fill(data, control, flags, source)
                    target.write(call, place + SIZE_OF_MANY - 8, struct.pack("<I", put))
                    done += 1
                    if done == count:
                        return done
                    try:
                        received = self._next(fd, sockets.option(fd, SOL_SOCKET, SO_DOMAIN), 0)
                    except OSError:
                        return done
            finally:
                os.close(fd)

        return self._receive(call, target, call.args[3], deliver) if count else None

    def _receive(self, call: Call, target: Target, flags: int, deliver: Deliver) -> Optional[int]:
        fd = target.grab(call, call.args[0])
        try:
            family = sockets.option(fd, SOL_SOCKET, SO_DOMAIN)
            if flags & MSG_ERRQUEUE or not self._is_ours(fd, family):
                return None
            waiting = _Receiving(self, call, fd, family, flags, deliver)
            wait = waiting.step(target, True)
            if wait is not None:
                self._pending.add(call, fd, wait, waiting.step)
                fd = -1
            return LATER
        finally:
            if fd >= 0:
                os.close(fd)

    def _is_ours(self, fd: int, family: int) -> bool:
        if family == AF_NETLINK:
            return not self._world.is_node
        if family not in (AF_INET, AF_INET6) or sockets.protocol(fd) != "udp":
            return False
        if self._flows.find(sockets.cookie(fd)) is not None:
            return True
        own = sockets.own_address(fd)
        return own is not None and self._bindings.given("udp", own) is not None

    def receive(self, fd: int, family: int, flags: int) -> Received:
        """The next datagram that is for the program; raises BlockingIOError."""
        return self._next(fd, family, flags & MSG_PEEK)

    def _next(self, fd: int, family: int, peek: int) -> Received:
        own = _socket(os.dup(fd), family)
        try:
            while True:
                got = own.recvmsg(MAX_DATA, MAX_CONTROL, peek | MSG_DONTWAIT)
                data, control, flags, source = got
                if family == AF_NETLINK:
                    data, name = self._interfaces.rewritten(data), _netlink_name(source)
                    if data:
                        return data, b"", flags, name
                else:
                    shown = self._from(fd, _address(family, source))
                    if shown is not None:
                        return data, pack_control(control, self._world), flags, shown.pack()
                if peek:
                    own.recv(1, MSG_DONTWAIT)  # not for the program: out of its way
        finally:
            own.close()

    def _from(self, fd: int, real: Address) -> Optional[Address]:
        """Whom the program knows a sender as; None: nobody it should hear."""
        flow, own = self._flows.find(sockets.cookie(fd)), sockets.own_address(fd)
        assert own is not None, "an internet socket has such a name"
        if flow is not None:
            named = flow.virtual.get((real.ip, real.port))
            if named is not None:
                return Address(real.family, named.ip, named.port)
            if flow.awaits(real):
                return real
        port = self._identities.shown("udp", own).port
        notice = self._notices.find("udp", real, port)
        if notice is None:
            is_open = self._world.is_open("udp", own)
            return real if is_open and self._is_allowed(real, port) else None
        found = Address(real.family, notice.peer.ip, notice.peer.port)
        if notice.own is None and not self._is_allowed(found, port):
            return None
        # What is sent back there goes where it came from, published or not.
        self._flows.of(sockets.cookie(fd)).answers(found, real)
        return found

    def _is_allowed(self, peer: Address, port: int) -> bool:
        return self._directory.allows("ingress", "udp", sockaddr.text(peer.ip), port)


class _Receiving:
    """One receive of one caller."""

    def __init__(
        self,
        datagrams: Datagrams,
        call: Call,
        fd: int,
        family: int,
        flags: int,
        deliver: Deliver,
    ) -> None:
        self._datagrams, self._call, self._fd, self._family = datagrams, call, fd, family
        self._flags, self._deliver = flags, deliver
        self._waits = sockets.is_blocking(fd) and not flags & MSG_DONTWAIT
        timeout = sockets.receive_timeout(fd) if self._waits else 0.0
        self._give_up_at = time.monotonic() + timeout if timeout else None

    def step(self, target: Target, is_ready: bool) -> Optional[Wait]:
        try:
            received = self._datagrams.receive(self._fd, self._family, self._flags)
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


def _free_place(call: Call, target: Target) -> int:
    """A descriptor of the caller's that is not open, among those the filter knows; or -1."""
    for number in TAGGED:
        found = target.peek(call, number)
        if found < 0:
            return number
        os.close(found)
    return -1


def _socket(fd: int, family: int) -> socket.socket:
    """A socket object for a descriptor that is ours."""
    kind = socket.SOCK_RAW if family == AF_NETLINK else socket.SOCK_DGRAM
    return socket.socket(family, kind, 0 if family == AF_NETLINK else UDP, fileno=fd)


def _words(address: Address) -> tuple[str, int]:
    words = sockaddr.text(address.ip)
    is_mapped = address.family == AF_INET6 and len(address.ip) == 4
    return ("::ffff:" + words if is_mapped else words), address.port


def _address(family: int, source: Any) -> Address:
    words = source[0]
    if words.startswith("::ffff:") and "." in words:
        words = words[7:]
    return Address(family, sockaddr.number(words.partition("%")[0]), source[1])


def _netlink_name(source: Any) -> bytes:
    return struct.pack("<HHII", AF_NETLINK, 0, *source)
