"""Answers connect: on the caller's own socket, to where the destination really is.

A blocking socket is set going without waiting and the call then handed back to the kernel, which
finds it on its way and waits in the caller: signals, timeouts and restarts are the kernel's own,
and netd never waits for anybody. Only a service with more endpoints than one is watched for a
moment, so that a refusal goes on to the next.
"""

from __future__ import annotations

import os
import select
import time
from errno import ECONNREFUSED, EHOSTUNREACH, EINPROGRESS, ENETUNREACH, ETIMEDOUT

from . import sockets
from .datagrams import Datagrams
from .identities import Identities
from .lent import Lent
from .notices import Notices
from .notify import Call
from .pending import Pending
from .routes import Place, Routes
from .sockaddr import AF_INET6, ANY4, Address
from .sockets import (
    IP_BIND_ADDRESS_NO_PORT,
    IPPROTO_IP,
    IPPROTO_IPV6,
    IPV6_V6ONLY,
    LATER,
    TCP_CLOSE,
)
from .target import Target
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Optional

    from .pending import Wait

# For the answer of one endpoint, when there is another to go to: it comes within a round trip, but
# on a node that is full the kernel's own threads have to wait for a core, too.
WAIT = (int(select.EPOLLOUT), 0.1)
PATIENT_WAIT = (int(select.EPOLLOUT), 0.25)  # of a caller who waits in any case
MAX_UNHEARD = 64
UDP_PATIENCE = 1.0  # seconds for a port to be bound
UNREACHED = (ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT)


class Connecting:
    def __init__(
        self,
        world: World,
        routes: Routes,
        notices: Notices,
        identities: Identities,
        pending: Pending,
        datagrams: Datagrams,
        lent: Lent,
    ) -> None:
        self.lent = lent
        self._world, self._routes, self._notices = world, routes, notices
        self._identities, self._pending, self._datagrams = identities, pending, datagrams
        self._unheard: list[int] = []  # cookies
        self.on_unheard: Callable[[int], None] = self._keep_in_mind
        self.step_aside: Callable[[], None] = lambda: None  # before a call takes long

    def connect(self, call: Call, target: Target, to: Address) -> Optional[int]:
        """The answer; None: the kernel may go on with it."""
        fd = target.grab(call, call.args[0])
        try:
            protocol = sockets.protocol(fd)
            if not protocol:
                return None
            own = sockets.own_address(fd)
            has_name = protocol == "tcp" and own is not None and own.port
            if has_name and sockets.tcp_state(fd) != TCP_CLOSE:
                # On its way, connected or listening: the kernel says which, whatever the address.
                return self._again(fd)
            back = self._datagrams.way_back(fd, to) if protocol == "udp" else None
            if back is not None:
                return self.connect_datagrams(fd, to, Place(back))
            if protocol == "udp":
                return self._connect_udp(fd, to)
            places = self._routes.find(protocol, to)
            if places is None:
                self._identities.forget(sockets.cookie(fd))
                return None
            attempt = _Attempt(self, fd, to, places, call)
            result = attempt.next()
            if result == LATER:
                self._pending.add(call, fd, attempt.wait, attempt.on_outcome)
                fd = -1
            return result
        finally:
            if fd >= 0:
                os.close(fd)

    def _connect_udp(self, fd: int, to: Address) -> Optional[int]:
        """UDP knows no refusal: a server may bind its port a moment after it is connected to."""
        until = time.monotonic() + UDP_PATIENCE
        while True:
            try:
                places = self._routes.find("udp", to)
                place = next(places, None) if places is not None else None
            except OSError as error:
                if error.errno != ECONNREFUSED or self._world.is_own(to):
                    raise
                places, place = iter(()), None
            if places is None:
                return None
            if place is not None:
                return self.connect_datagrams(fd, to, place)
            if time.monotonic() > until:
                return -ECONNREFUSED
            self.step_aside()
            time.sleep(0.05)

    def _again(self, fd: int) -> Optional[int]:
        if self._unheard and not sockets.is_blocking(fd):
            cookie = sockets.cookie(fd)
            if cookie in self._unheard:
                self._unheard.remove(cookie)
                return -EINPROGRESS  # our first answer met a signal instead of the caller
        return None

    def not_heard(self, call: Call) -> None:
        """A signal kept our answer from the caller, who will ask again if it cares."""
        if call.cookie:
            self.on_unheard(call.cookie)

    def _keep_in_mind(self, cookie: int) -> None:
        self._unheard = [*self._unheard[-MAX_UNHEARD:], cookie]

    # For attempts

    def start(self, call: Call, fd: int, to: Address, place: Place, blocking: bool) -> int:
        """Set a connection going; 0 or the errno."""
        if to.family == AF_INET6 and len(to.ip) == 16 and len(place.real.ip) == 4:
            sockets.switch_off(fd, IPPROTO_IPV6, IPV6_V6ONLY)
        self._choose_source(fd, to.family, place)
        cookie = sockets.cookie(fd)
        # Before it is on its way: whoever follows us must know, should we end just after.
        self._identities.connected(cookie, to)
        code = self.lent.connect(call, fd, place.real.pack(), blocking)
        if code in sockets.CONNECTING:
            call.cookie = cookie
            self._announce(fd, to, place)
        else:
            self._identities.forget(cookie)
        return code

    def _choose_source(self, fd: int, family: int, place: Place) -> None:
        """By its source address a server on this node knows the pod, unless it has one already."""
        own, world = sockets.own_address(fd), self._world
        if own is None or own.port or not world.has_address:
            return
        if place.real.ip in (world.node, world.loopback):
            self._come_from(fd, Address(family, world.loopback, 0))
        elif own.ip == world.loopback:  # where an endpoint on this node refused it
            self._come_from(fd, Address(family, ANY4, 0))

    def _come_from(self, fd: int, source: Address) -> None:
        """By its source address a server on this node knows the pod."""
        sockets.switch_on(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT)
        try:
            sockets.bind(fd, source.pack())
        except OSError:
            pass  # it is announced all the same

    def _announce(self, fd: int, to: Address, place: Place) -> None:
        if place.notice is None and not place.own_port:
            return
        real = sockets.own_address(fd)
        if real is None or len(real.ip) == 16:
            return
        shown = self._identities.shown("tcp", real)
        if place.own_port:
            own = self._identities.named(to, place.own_port)
            self._notices.expect("tcp", real, self._identities.towards(to, shown), own)
        elif place.pod is not None and place.notice is not None:
            notice = self._notices.sign("tcp", real, shown.port, place.pod)
            self._notices.send(notice, place.notice)

    def connect_datagrams(self, fd: int, to: Address, place: Place) -> int:
        cookie = sockets.cookie(fd)
        self._identities.connected(cookie, to)
        code = sockets.connect(fd, place.real.pack())
        if code:
            self._identities.forget(cookie)
            return -code
        self._datagrams.connected(fd, to, place)
        return 0


class _Attempt:
    """One connect of one caller, over all the places there are."""

    def __init__(
        self, connecting: Connecting, fd: int, to: Address, places: Iterator[Place], call: Call
    ) -> None:
        self._connecting, self._call, self._fd = connecting, call, fd
        self._to, self._places = to, places
        self._place: Optional[Place] = None
        self._next_place = next(places, None)
        self._error = ECONNREFUSED
        self._is_blocking = sockets.is_blocking(fd)
        self.wait = PATIENT_WAIT if self._is_blocking else WAIT

    def next(self) -> Optional[int]:
        """Try until one is on its way: the answer, None to hand it to the kernel, or LATER."""
        while self._next_place is not None:
            self._place = self._next_place
            code = self._connecting.start(
                self._call, self._fd, self._to, self._place, self._is_blocking
            )
            self._next_place = next(self._places, None)
            if code == 0:
                return 0
            if code == EINPROGRESS:
                return LATER if self._next_place is not None else self._on_its_way()
            self._error = code
            if code not in UNREACHED:
                break
        return -self._error

    def _on_its_way(self) -> Optional[int]:
        return None if self._is_blocking else -EINPROGRESS

    def on_outcome(self, target: Target, is_ready: bool) -> Optional[Wait]:
        """The connection is made or refused, or we have waited long enough."""
        result = self._on_its_way()
        if is_ready and self._place is not None:
            # Asked again, the kernel gives the error and makes the socket fresh.
            packed = self._place.real.pack()
            code = self._connecting.lent.connect(self._call, self._fd, packed, self._is_blocking)
            if code in UNREACHED:
                self._error = code
                result = self.next()
            elif code == 0 and result is None:
                result = 0
        if result == LATER:
            return self.wait
        if result is None:
            self._call.go_on()
        elif not self._call.answer(result):
            self._connecting.not_heard(self._call)
        return None
