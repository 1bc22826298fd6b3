"""Answers the calls of datagram sockets: sendto, recvfrom, sendmsg, recvmsg and their plurals.

A datagram to an address of the cluster is sent from here, on the caller's own socket, to where
that really is; one that arrives is told as from whom the program knows. What is none of the
cluster's passes through the kernel untouched, unless an egress policy restricts the pod: then its
sockets cannot send by themselves, and all is sent from here, by their twins. A datagram to a socket
that serves a port, from somebody nobody speaks for, is dropped.
"""

from __future__ import annotations

import os
import select
import struct
import threading
import time
from errno import (
    EAFNOSUPPORT,
    EAGAIN,
    EBADF,
    EDESTADDRREQ,
    EMSGSIZE,
    EOPNOTSUPP,
    EPERM,
    EPROTONOSUPPORT,
)

from ..endpoint_cache import EndpointCache
from ..identity.names import Identities
from ..identity.notices import ASK_TIME, Notice, Notices
from ..identity.sock_diag import UDP, Owners
from ..interfaces import Interfaces
from ..pod_addressing import PodAddressing
from ..routes import Place, Routes
from ..seccomp.bpf import AF_NETLINK, AF_UNIX, MSG_FASTOPEN, SOCK_DGRAM, STRICT, TAGGED
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from ..sockets import port_holders, sockaddr, socket_calls
from ..sockets.abstract_unix import Abstract
from ..sockets.bind import Bindings
from ..sockets.msghdr import (
    MAX_CONTROL,
    MAX_DATA,
    SIZE_OF_MANY,
    Message,
    join_pieces,
    pack_control,
    read_pieces,
    unpack_control,
    write_pieces,
)
from ..sockets.sockaddr import AF_INET, AF_INET6, ANY4, Address
from ..sockets.socket_calls import LATER, MSG_DONTWAIT, SO_DOMAIN, SOL_SOCKET
from ..tcp.pending_calls import Pending
from .connected import Connected
from .flows import Flow, Flows
from .port_leases import Leases
from .send_twins import Twins, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from typing import Any, Optional

    from ..sockets.msghdr import Control
    from ..tcp.pending_calls import Wait

    # What was received: data, control messages, flags, and from whom.
    Received = tuple[bytes, bytes, int, bytes]
    Origin = tuple[int, int]  # a process and a descriptor of its
    Deliver = Callable[[Target, Received], int]
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

MSG_PEEK, MSG_TRUNC, MSG_ERRQUEUE = 0x2, 0x20, 0x2000
AF_ALG = 38  # of this machine alone: it names ciphers
MAX_MANY = 1024
ABSENT = 0.5  # seconds
ANNOUNCE_EVERY = 0.7  # seconds; what others believe of us, or we of them, ends after one


class _Lost(Exception):
    """Nobody is there to receive it: as on any network, its sender is not told."""


class Datagrams:
    def __init__(
        self,
        world: PodAddressing,
        bindings: Bindings,
        routes: Routes,
        directory: EndpointCache,
        notices: Notices,
        identities: Identities,
        pending: Pending,
        abstract: Abstract,
        owners: Owners,
        leases: Leases,
    ) -> None:
        self._owners, self._leases = owners, leases
        self.step_aside: Callable[[], None] = lambda: None  # before a call takes long
        self._world, self._bindings, self._routes = world, bindings, routes
        self._directory, self._notices, self._identities = directory, notices, identities
        self._pending, self._abstract = pending, abstract
        self._interfaces = Interfaces(world)
        self.ioctl = self._interfaces.ioctl
        self._flows = Flows()
        self.connections = Connected(world, self._speak_to, self._first_place)
        self.twins = Twins()
        self.twins.holder_of = lambda own: bindings.holder("udp", own)
        self._sources: dict[bytes, bytes] = {}
        self._stamping = threading.Lock()  # a socket tells the time of the last that was received
        self._absent: dict[tuple[bytes, int], float] = {}  # until when nobody is looked for there

    # socket

    def socket(self, call: Call, target: Target) -> Optional[int]:
        """Make a socket here, at a descriptor by which the filter knows it.

        Where an egress policy holds, a UDP socket is made unable to send by itself, and a socket of
        a kind whose calls are not followed is refused.
        """
        family, kind, protocol = (int(arg & 0xFFFFFFFF) for arg in call.args[:3])
        is_udp = family in (AF_INET, AF_INET6) and kind & 0xF == SOCK_DGRAM and protocol in (0, UDP)
        if not is_udp and family not in (AF_UNIX, AF_NETLINK):
            return _refusal(family) if self._routes.are_held else None
        is_held = is_udp and self._routes.are_held
        place = _free_place(call, target, STRICT if is_held else TAGGED)
        if place < 0 and not is_held:
            return None
        made = socket.socket(family, kind & 0xF, protocol)
        made.setblocking(not kind & os.O_NONBLOCK)
        try:
            if is_held:
                socket_calls.silence(made.fileno())
            return self._give(call, made.fileno(), place, kind & os.O_CLOEXEC, is_held)
        finally:
            made.close()

    def _give(self, call: Call, fd: int, place: int, flags: int, anywhere: bool) -> Optional[int]:
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

    def setsockopt(self, call: Call, target: Target) -> Optional[int]:
        """Refuse, under an egress policy, to join a group, which tells the network so."""
        return -EPERM if self._routes.are_held else None

    # Sending

    def sendto(self, call: Call, target: Target) -> Optional[int]:
        fd, at, length, flags, name, name_length = call.args
        if not name:
            return self._say(call, target, lambda: [(at, length)], flags)
        raw = target.read_address(call, name, name_length & 0xFFFFFFFF)
        copy = target.grab(call, fd)
        try:
            to = _parse(raw, copy)
            if to is None:
                return self._abstract.send(call, target, copy, raw)
            if socket_calls.protocol(copy) == "tcp":  # it speaks to whom it is connected
                is_fast = flags & MSG_FASTOPEN and self._world.is_virtual(to.ip)
                return -EOPNOTSUPP if is_fast else None
            if length > MAX_DATA:
                return -EMSGSIZE
            try:
                real = self._destination(copy, to, (call.pid, fd & 0x7FFFFFFF))
            except _Lost:
                return length
            if real is None:
                return None
            return self._put(copy, target.read(call, at, length), [], flags, real)
        finally:
            os.close(copy)

    def _put(
        self, fd: int, data: bytes, control: list[Control], flags: int, to: Optional[Address]
    ) -> int:
        """Send on a caller's socket, or by its twin; `to` None: to whom it is connected."""
        flags = flags & 0xFFFFFFFF | MSG_DONTWAIT
        try:
            if not control:
                return socket_calls.send(fd, data, flags, to.pack() if to is not None else b"")
            family = socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN)
            own = _socket(os.dup(fd), family)
            try:
                return own.sendmsg([data], control, flags, *([words(family, to)] if to else []))
            finally:
                own.close()
        except BrokenPipeError:
            to = to or socket_calls.peer_address(fd)
            if to is None:
                raise OSError(EDESTADDRREQ, "not connected") from None
            return self.twins.send(fd, data, control, flags, to)

    def write(self, call: Call, target: Target) -> Optional[int]:
        return self._say(call, target, lambda: [(call.args[1], call.args[2])], 0)

    def writev(self, call: Call, target: Target) -> Optional[int]:
        at, count = call.args[1], call.args[2]
        return self._say(call, target, lambda: read_pieces(call, target, at, count), 0)

    def _say(
        self,
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
            return self._put(fd, join_pieces(call, target, pieces()), [], flags, None)
        finally:
            os.close(fd)

    def sendmsg(self, call: Call, target: Target) -> Optional[int]:
        fd = target.grab(call, call.args[0])
        try:
            return self._send_message(call, target, fd, call.args[1], call.args[2])
        finally:
            os.close(fd)

    def sendmmsg(self, call: Call, target: Target) -> Optional[int]:
        """Send several at once; what the kernel is to send itself, it sends from there on."""
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
        if not message.name and not self._is_silent(call, fd):
            return None
        to = None
        if message.name:
            raw = target.read_address(call, message.name, message.name_length)
            to = _parse(raw, fd)
            if to is None:
                return self._abstract.send_message(call, target, fd, raw, message, flags)
            try:
                to = self._destination(fd, to, (call.pid, call.args[0] & 0x7FFFFFFF))
            except _Lost:
                return len(message.data())
            if to is None:
                return None
        control = unpack_control(message.control(), self._world)
        return self._put(fd, message.data(), control, flags, to)

    def _is_silent(self, call: Call, fd: int) -> bool:
        """Return whether it may be one that cannot send by itself."""
        return call.args[0] & 0xFFFFFFFF in STRICT and socket_calls.protocol(fd) == "udp"

    def _destination(self, fd: int, to: Address, origin: Origin) -> Optional[Address]:
        """Return where a datagram really goes; None: to the address that it names."""
        protocol, is_held = socket_calls.protocol(fd), self._routes.may_be_held
        if protocol != "udp":
            if is_held and protocol != "tcp":
                self._routes.check(protocol, to)  # made before there was a policy
            return None
        back = self.way_back(fd, to)
        if back is not None:
            if not self.is_current(fd, back):
                raise _Lost
            return back
        places = self._places(to)
        self.be_alone(fd)
        if places is None:
            if not self._world.is_node:  # there, what comes need not have been awaited
                self._flows.of(socket_calls.cookie(fd)).goes_outside(to)
            return to if is_held else None
        flow = self._flows.of(socket_calls.cookie(fd))
        place = next(places, None)
        if place is None:
            self._absent[(to.ip, to.port)] = time.monotonic() + ABSENT
            raise _Lost
        if place.pod is None:
            flow.goes_outside(place.real)
        flow.names(place.real, to, place)
        if not self.announce(fd, flow, to, place, origin):
            raise _Lost
        return place.real

    def be_alone(self, fd: int) -> None:
        """Make the port a socket's own before it first speaks: none shares it by SO_REUSEADDR."""
        if not self._world.is_node and self._flows.find(socket_calls.cookie(fd)) is None:
            port_holders.share_with_ours_alone(fd)

    def _places(self, to: Address) -> Optional[Iterator[Place]]:
        """Find places as Routes.find does; where nobody was, it is not looked again at once."""
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
        """Return the real address of one who wrote to this socket, published or not."""
        flow = self._flows.find(socket_calls.cookie(fd))
        back = flow.back.get((to.ip, to.port)) if flow is not None else None
        return Address(to.family, back.ip, back.port) if back is not None else None

    def is_current(self, fd: int, back: Address) -> bool:
        """Return whether the one who wrote from a real address has it still, and no one else."""
        own = socket_calls.own_address(fd)
        assert own is not None, "it was written to"
        port = self._identities.shown("udp", own).port
        return self._notices.speaker(back, own, port, time.time()) is not None

    def announce(self, fd: int, flow: Flow, to: Address, place: Place, origin: Origin) -> bool:
        """Tell whom is written to who writes, now and then; return whether it is there to hear."""
        own = socket_calls.own_address(fd)
        if own is not None and not own.port:
            socket_calls.bind(fd, Address(own.family, ANY4, 0).pack())
            own = socket_calls.own_address(fd)
        if own is None or len(place.real.ip) == 16:
            return True
        if flow.is_due(place.real, time.monotonic(), ANNOUNCE_EVERY):
            self._announce(fd, own, to, place, origin)
        return self._is_there(place)

    def _announce(
        self, fd: int, own: Address, to: Address, place: Place, origin: Optional[Origin]
    ) -> None:
        real = Address(own.family, own.ip, own.port)
        if not any(own.ip):
            real.ip = self._source(place.real.ip)
        shown, cookie = self._identities.shown("udp", real), socket_calls.cookie(fd)
        if place.own_port:
            named = self._identities.named(to, place.own_port)
            notice = Notice(self._identities.towards(to, shown), named)
            self._notices.expect(real, named.port, cookie, notice)
        elif place.pod is not None and place.notice is not None:
            is_kept = self._leases.take(fd, cookie, origin)
            ends, far = (real, shown.port), (*place.pod, place.real.port)
            said = self._notices.notice("udp", ends, far, cookie, int(is_kept))
            self._notices.send(said, place.notice)

    def _is_there(self, place: Place) -> bool:
        """Return whether the port of a pod that is written to is one of ours, here and now."""
        is_there = self._is_ours_now(place, time.time())
        if is_there is None:
            self.step_aside()
            return self._notices.await_held(_far(place))
        return is_there

    def _is_ours_now(self, place: Place, then: float) -> Optional[bool]:
        """Return whether a place is a pod's as it should be; None: its netd has not said lately."""
        is_local = place.real.ip in (self._world.node, self._world.loopback)
        if is_local and self._owners.can_tell_udp and (place.own_port or place.pod is not None):
            return self._owners.holds(UDP, place.real)
        if place.pod is None or place.notice is None or self._world.is_reached_from_outside:
            return True
        return self._notices.was_held(_far(place), then) or None

    def _has_answered(
        self, fd: int, own: Address, real: Address, to: Address, arrived: float
    ) -> bool:
        """Return whether a datagram is from the one that the program meant when it wrote there."""
        place = self._flows.of(socket_calls.cookie(fd)).places.get((real.ip, real.port))
        if place is None:
            return True  # of no pod
        is_ours = self._is_ours_now(place, arrived or time.time())
        if is_ours is not None or self._notices.is_silent(real):
            return bool(is_ours)
        self._announce(fd, own, to, place, None)
        if self._notices.await_held(_far(place), ASK_TIME):
            return True
        self._notices.fell_silent(real)
        return False

    def speaks_to(self, cookie: int, real: Address, named: bytes) -> bool:
        """Return whether a socket of this pod's asked for a name that is really there."""
        flow = self._flows.find(cookie)
        if flow is not None:
            found = flow.virtual.get((real.ip, real.port))
            if found is not None and found.ip == named:
                return True
        peer = self._identities.peer(cookie, real)
        return peer is not None and peer.ip == named

    def _source(self, to: bytes) -> bytes:
        """Return the address of this node that a datagram to a place leaves from."""
        found = self._sources.get(to)
        if found is None:
            probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            probe.connect((sockaddr.text(to), 9))
            found = self._sources[to] = sockaddr.number(probe.getsockname()[0])
            probe.close()
        return found

    def connected(self, fd: int, to: Address, place: Place, origin: Origin) -> bool:
        """Note whom a socket that was connected speaks with; return whether they are there."""
        cookie = socket_calls.cookie(fd)
        flow = self._flows.of(cookie)
        flow.names(place.real, to, place)
        if place.pod is None:
            flow.goes_outside(place.real)
        if not self.announce(fd, flow, to, place, origin):
            return False
        if place.pod is not None and place.notice is not None:
            self.connections.watch(cookie, origin, to, place)
        return True

    def _speak_to(self, fd: int, to: Address, place: Place) -> bool:
        """Tell a place once more who is connected to it; return whether it is known to be ours."""
        own = socket_calls.own_address(fd)
        assert own is not None, "it was connected"
        self._flows.of(socket_calls.cookie(fd)).names(place.real, to, place)
        self._announce(fd, own, to, place, None)
        return bool(self._is_ours_now(place, time.time()))

    def _first_place(self, to: Address) -> Optional[Place]:
        places = self._routes.find("udp", to)
        return next(places, None) if places is not None else None

    # Receiving

    def recvfrom(self, call: Call, target: Target) -> Optional[int]:
        at, length, name, name_length = call.args[1], call.args[2], call.args[4], call.args[5]
        if not name and self._is_plain(call, target):
            return None

        def deliver(target: Target, received: Received) -> int:
            data, _, _, source = received
            part = data[: min(length, MAX_DATA)]
            if part:
                target.write(call, at, part)
            target.write_address(call, name, name_length, source)
            return len(data) if call.args[3] & MSG_TRUNC else len(part)

        return self._receive(call, target, call.args[3], deliver)

    def _is_plain(self, call: Call, target: Target) -> bool:
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

    def read(self, call: Call, target: Target) -> Optional[int]:
        at, length = call.args[1], call.args[2]
        return self._read(call, target, lambda: [(at, length)])

    def readv(self, call: Call, target: Target) -> Optional[int]:
        at, count = call.args[1], call.args[2]
        return self._read(call, target, lambda: read_pieces(call, target, at, count))

    def _read(
        self, call: Call, target: Target, pieces: Callable[[], list[tuple[int, int]]]
    ) -> Optional[int]:
        if self._is_plain(call, target):
            return None
        room = pieces()

        def deliver(target: Target, received: Received) -> int:
            return write_pieces(call, target, room, received[0])

        return self._receive(call, target, 0, deliver)

    def recvmsg(self, call: Call, target: Target) -> Optional[int]:
        def deliver(target: Target, received: Received) -> int:
            data, control, flags, source = received
            put = Message(call, target, call.args[1]).fill(data, control, flags, source)
            return len(data) if call.args[2] & MSG_TRUNC else put

        return self._receive(call, target, call.args[2], deliver)

    def recvmmsg(self, call: Call, target: Target) -> Optional[int]:
        """Wait for the first datagram; those that are there already come with it."""
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
                        received = self._next(fd, socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN), 0)
                    except OSError:
                        return done
            finally:
                os.close(fd)

        return self._receive(call, target, call.args[3], deliver) if count else None

    def _receive(self, call: Call, target: Target, flags: int, deliver: Deliver) -> Optional[int]:
        fd = target.grab(call, call.args[0])
        try:
            family = socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN)
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
        if family not in (AF_INET, AF_INET6) or socket_calls.protocol(fd) != "udp":
            return False
        if self._flows.find(socket_calls.cookie(fd)) is not None:
            return True
        own = socket_calls.own_address(fd)
        if own is None or self._bindings.given("udp", own) is not None:
            return own is not None
        # Bound to an address of the node's own, where all who can reach the node write to.
        is_the_nodes = not (own.is_any or own.is_loopback or own.is_for_many)
        return is_the_nodes and not self._world.is_node and socket_calls.peer_address(fd) is None

    def receive(self, fd: int, family: int, flags: int) -> Received:
        """Return the next datagram that is for the program; raise BlockingIOError."""
        return self._next(fd, family, flags & MSG_PEEK)

    def _next(self, fd: int, family: int, peek: int) -> Received:
        own = _socket(os.dup(fd), family)
        try:
            while True:
                with self._stamping:
                    got = own.recvmsg(MAX_DATA, MAX_CONTROL, peek | MSG_DONTWAIT)
                    arrived = socket_calls.stamp(fd) if family != AF_NETLINK else 0.0
                data, control, flags, source = got
                if family == AF_NETLINK:
                    data, name = self._interfaces.rewritten(data), _netlink_name(source)
                    if data:
                        return data, b"", flags, name
                else:
                    shown = self._from(fd, _address(family, source), arrived)
                    if shown is not None:
                        return data, pack_control(control, self._world), flags, shown.pack()
                if peek:
                    own.recv(1, MSG_DONTWAIT)  # not for the program: out of its way
        finally:
            own.close()

    def _from(self, fd: int, real: Address, arrived: float) -> Optional[Address]:
        """Return the address by which the program knows a sender; None: it should not hear it."""
        flow, own = self._flows.find(socket_calls.cookie(fd)), socket_calls.own_address(fd)
        assert own is not None, "an internet socket has such a name"
        if flow is not None:
            named = flow.virtual.get((real.ip, real.port))
            if named is not None:
                is_theirs = self._has_answered(fd, own, real, named, arrived)
                return Address(real.family, named.ip, named.port) if is_theirs else None
            if flow.awaits(real):
                return real
        port = self._identities.shown("udp", own).port
        notice = None
        if len(real.ip) == 4:  # nobody is announced by an address of IPv6
            notice = self._notices.speaker(real, own, port, arrived)
        if notice is None:
            is_open = self._world.is_open("udp", own)
            return real if is_open and self._is_allowed(real, port) else None
        found = Address(real.family, notice.peer.ip, notice.peer.port)
        if notice.own is None and not self._is_allowed(found, port):
            return None
        # What is sent back there goes where it came from, published or not.
        self._flows.of(socket_calls.cookie(fd)).answers(found, real)
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
        self._waits = socket_calls.is_blocking(fd) and not flags & MSG_DONTWAIT
        timeout = socket_calls.receive_timeout(fd) if self._waits else 0.0
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


def _far(place: Place) -> tuple[bytes, int, int]:
    """Return a port of a pod, as its netd speaks of it."""
    assert place.pod is not None, "nobody speaks for what is no pod's"
    return (*place.pod, place.real.port)


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


def _parse(raw: bytes, fd: int) -> Optional[Address]:
    """Read a destination as the kernel takes it: without a family, IPv4 for a socket of IPv4."""
    is_nameless = raw[:2] == b"\0\0" and len(raw) >= 16
    if is_nameless and socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET:
        raw = struct.pack("<H", AF_INET) + raw[2:]
    return sockaddr.parse(raw)


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
