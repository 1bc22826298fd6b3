"""Answers connect: on the caller's own socket, to where the destination really is.

The socket is set going without waiting. A program hears of a connection to a pod when it is made
and `proof` has shown whose the other end is; until then its call waits in `pending_calls`, also one
that would not block, for a moment. A refusal goes on to the next endpoint of a service.
"""

from __future__ import annotations

import os
import select
import time
from errno import EALREADY, ECONNREFUSED, EINPROGRESS, ETIMEDOUT

from ..routes import Place
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from ..sockets import socket_calls
from ..sockets.sockaddr import AF_INET6, ANY4, Address
from ..sockets.socket_calls import (
    IP_BIND_ADDRESS_NO_PORT,
    IPPROTO_IP,
    IPPROTO_IPV6,
    IPPROTO_TCP,
    IPV6_V6ONLY,
    LATER,
    TCP_CLOSE,
    TCP_ESTABLISHED,
    TCP_FASTOPEN_CONNECT,
    TCP_SYN_SENT,
)
from . import decisions
from .egress_connect import Held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Optional

    from ..identity.proof import Asked
    from ..pod_network import PodNetwork
    from ..udp.connected import Origin
    from .pending_calls import Pending, Wait

UDP_PATIENCE = 1.0  # seconds for a port to be bound


class Connecting:
    def __init__(self, network: PodNetwork) -> None:
        self.lent, self.proof = network.journal, network.proof
        self.held = Held(network.pending, network.journal)
        self.needs_proof = not network.addressing.is_reached_from_outside
        self._world, self._routes = network.addressing, network.routes
        self._identities, self._pending = network.identities, network.pending
        self._datagrams, quick = network.destinations, network.quick
        self._unheard: list[int] = []  # cookies
        self._attempts: dict[int, _Attempt] = {}  # those that wait, by the socket's cookie
        self.on_unheard = quick.not_heard if quick is not None else self._keep_in_mind
        self.step_aside = network.step_aside

    @property
    def is_held(self) -> bool:
        """Return whether netd makes every connect itself: an egress policy may restrict the pod."""
        return self._routes.may_be_held

    def connect(self, call: Call, target: Target, to: Address, raw: bytes) -> Optional[int]:
        """Connect; return the answer, or None: the kernel may go on with it."""
        fd = target.grab(call, call.args[0])
        try:
            result = self._connect(call, fd, to)
            is_for_us = result is None and self.is_held
            return self.held.connect(call, fd, raw) if is_for_us else result
        finally:
            os.close(fd)

    def _connect(self, call: Call, fd: int, to: Address) -> Optional[int]:
        protocol = socket_calls.protocol(fd)
        if not protocol:
            if self.is_held:
                self._routes.check(protocol, to)
            return None
        own = socket_calls.own_address(fd)
        has_name = protocol == "tcp" and own is not None and own.port
        if has_name and socket_calls.tcp_state(fd) != TCP_CLOSE:
            # On its way, connected or listening: the kernel says which, whatever the address.
            return self._again(call, fd)
        if protocol == "udp":
            self._datagrams.connections.forget(socket_calls.cookie(fd))
        back = self._datagrams.way_back(fd, to) if protocol == "udp" else None
        origin = call.pid, call.args[0] & 0x7FFFFFFF
        if back is not None:
            if not self._datagrams.is_current(fd, back):
                return -ECONNREFUSED
            return self.connect_datagrams(fd, to, Place(back), origin)
        if protocol == "udp":
            self._datagrams.be_alone(fd)
            return self._connect_udp(fd, to, origin)
        places = self._routes.find(protocol, to)
        if places is None:
            self._identities.forget(socket_calls.cookie(fd))
            return None
        return self._try(call, os.dup(fd), to, places)

    def _try(self, call: Call, fd: int, to: Address, places: Iterator[Place]) -> Optional[int]:
        """Go to one place after the other, on a descriptor that is ours to close."""
        try:
            attempt = _Attempt(self, fd, to, places, call)
            result = attempt.next()
            if result == LATER:
                self._attempts[call.cookie] = attempt
                self._pending.add(call, fd, attempt.wait, attempt.step, attempt.leave)
                fd = -1
            return result
        finally:
            if fd >= 0:
                os.close(fd)

    def _connect_udp(self, fd: int, to: Address, origin: Origin) -> Optional[int]:
        """Connect a UDP socket.

        UDP knows no refusal: a server may bind its port a moment after it is connected to.
        """
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
                return self.connect_datagrams(fd, to, place, origin)
            if time.monotonic() > until:
                return -ECONNREFUSED
            self.step_aside()
            time.sleep(0.05)

    def _again(self, call: Call, fd: int) -> Optional[int]:
        attempt = self._attempts.get(socket_calls.cookie(fd))
        is_taken_up = attempt.take_up(call, self._pending) if attempt is not None else None
        if is_taken_up is not None:  # nothing is proven yet
            return LATER if is_taken_up else -EALREADY
        if self._unheard and not socket_calls.is_blocking(fd):
            cookie = socket_calls.cookie(fd)
            if cookie in self._unheard:
                self._unheard.remove(cookie)
                return -EINPROGRESS  # our first answer met a signal instead of the caller
        return None

    def not_heard(self, call: Call, result: int) -> None:
        """Note that a signal kept our answer from the caller, who will ask again if it cares."""
        if call.cookie and self.is_held:
            self.held.not_heard(call, result)
        elif call.cookie and result == -EINPROGRESS:  # after an error who asks again tries again
            self.on_unheard(call.cookie)

    def _keep_in_mind(self, cookie: int) -> None:
        self._unheard = [*self._unheard, cookie][-decisions.MAX_UNHEARD :]

    # For attempts

    def over(self, cookie: int) -> None:
        self._attempts.pop(cookie, None)

    def start(
        self, call: Call, fd: int, to: Address, place: Place, blocking: bool
    ) -> tuple[int, int]:
        """Set a connection going; return 0 or the errno, and the socket's state."""
        if to.family == AF_INET6 and len(to.ip) == 16 and len(place.real.ip) == 4:
            socket_calls.switch_off(fd, IPPROTO_IPV6, IPV6_V6ONLY)
        try:  # else the kernel may wait for the first data, and send it before anything is proven
            socket_calls.switch_off(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT)
        except OSError:
            pass  # it does not know that
        self._choose_source(fd, to.family, place)
        cookie = socket_calls.cookie(fd)
        # Before it is on its way: whoever follows us must know, should we end just after.
        self._identities.connected(cookie, to)
        code = self.lent.connect(call, fd, place.real.pack(), blocking)
        state = socket_calls.tcp_state(fd)
        if decisions.is_over_already(code, state):
            code = self.lent.connect(call, fd, place.real.pack(), blocking)
        if decisions.is_on_its_way(code):
            call.cookie = cookie
        else:
            self._identities.forget(cookie)
        return code, state

    def _choose_source(self, fd: int, family: int, place: Place) -> None:
        """Give the socket the pod's source address, unless it has one already.

        By it a server on this node knows the pod.
        """
        own, world = socket_calls.own_address(fd), self._world
        if own is None or not world.has_address:
            return
        is_local = place.real.ip in (world.node, world.loopback)
        source = decisions.source_of(bool(own.port), is_local, own.ip == world.loopback)
        if source != decisions.KEEP_SOURCE:
            ip = world.loopback if source == decisions.FROM_LOOPBACK else ANY4
            self._come_from(fd, Address(family, ip, 0))

    def _come_from(self, fd: int, source: Address) -> None:
        """Bind the socket to a source address, by which a server on this node knows the pod."""
        socket_calls.switch_on(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT)
        try:
            socket_calls.bind(fd, source.pack())
        except OSError:
            pass  # it is announced all the same

    def connect_datagrams(self, fd: int, to: Address, place: Place, origin: Origin) -> int:
        cookie = socket_calls.cookie(fd)
        self._identities.connected(cookie, to)
        code = socket_calls.connect(fd, place.real.pack())
        if code:
            self._identities.forget(cookie)
            return -code
        if not self._datagrams.connected(fd, to, place, origin):
            socket_calls.disconnect(fd)
            self._identities.forget(cookie)
            return -ECONNREFUSED
        return 0


class _Attempt:
    """One connect of one caller, over all the places there are."""

    def __init__(
        self, connecting: Connecting, fd: int, to: Address, places: Iterator[Place], call: Call
    ) -> None:
        self._connecting, self._proof = connecting, connecting.proof
        self._call, self._fd, self._to, self._places = call, fd, to, places
        self._place: Optional[Place] = None
        self._next_place = next(places, None)
        self._is_blocking = socket_calls.is_blocking(fd)
        self._notice: Optional[Asked] = None  # that was sent
        self._asked: Optional[Asked] = None  # the same, if its answer is awaited
        self._began = self._made = 0.0  # when it was set going, and when that was made
        self._again = 0
        self._was_held = False  # one of ours listened there on this node, just before
        self._cookie = socket_calls.cookie(fd)
        self._left = 0.0  # when its caller was interrupted

    def next(self, code: int = ECONNREFUSED) -> Optional[int]:
        """Try until one is on its way, after a failure; return the answer, LATER, or None for the
        kernel to do it.
        """
        while True:
            following = decisions.after_failure(code, self._again)
            if following == decisions.TRY_NEXT:
                self._place, self._again = self._next_place, 0
                self._next_place = next(self._places, None)
            elif following == decisions.TRY_AGAIN:
                self._again += 1
            if self._place is None or following == decisions.TELL_ERROR:
                return -decisions.error_told(code)
            is_by_kernel = self._proof.wanted(self._place) == decisions.PROOF_BY_KERNEL
            self._was_held = is_by_kernel and self._proof.is_held_here(self._place)
            code, state = self._connecting.start(
                self._call, self._fd, self._to, self._place, self._is_blocking
            )
            if decisions.is_on_its_way(code):
                return self._begin(self._place, state == TCP_ESTABLISHED)

    def _begin(self, place: Place, is_made: bool) -> Optional[int]:
        """Go on with one that was set going."""
        self._began, self._made = time.monotonic(), 0.0
        self._notice = self._asked = None
        is_last = self._next_place is None
        proof = self._proof.wanted(place)
        if proof == decisions.PROOF_BY_KERNEL:
            if is_made:
                return self._on_handshake()
            is_kernels = decisions.may_be_left_to_kernel(bool(place.own_port), is_last)
            return self._answer() if is_kernels and self._was_held else LATER
        if proof == decisions.PROOF_BY_NOTICE:
            self._notice = self._proof.ask(self._fd, place)
            self._asked = self._notice if self._connecting.needs_proof else None
            if self._asked is not None:
                return self._answer() if self._asked.is_answered_at_once() else LATER
        is_answered = decisions.is_answered_unproven(is_last, is_made)
        return self._answer() if is_answered else LATER

    def _is_made(self) -> bool:
        return socket_calls.tcp_state(self._fd) == TCP_ESTABLISHED

    def _answer(self) -> Optional[int]:
        how = decisions.answer_to(self._is_blocking, self._connecting.is_held)
        if how == decisions.SAY_IN_PROGRESS:
            return -EINPROGRESS
        if how == decisions.LEAVE_TO_KERNEL:
            return None
        # Asked again, the kernel takes it for connected itself.
        return 0 if self._is_made() and not self._failed() else LATER

    @property
    def wait(self) -> Wait:
        if self._asked is not None:  # an error is told all the same
            return 0, self._asked.pause
        now = time.monotonic()
        return int(select.EPOLLOUT), decisions.seconds_until(now, self._patience_ends())

    def _patience_ends(self) -> float:
        is_last = self._next_place is None
        return decisions.patience_ends(self._began, self._left, is_last, self._is_blocking)

    def step(self, target: Target, is_ready: bool) -> Optional[Wait]:
        """Look what has become of it; return what to wait for, or None when it is answered."""
        result = self._look(is_ready)
        if result == LATER:
            return self.wait
        self._connecting.over(self._cookie)
        if result is None:
            self._call.go_on()
        elif not self._call.answer(result):
            self._connecting.not_heard(self._call, result)
        return None

    def leave(self) -> Optional[Wait]:
        """Look what becomes of it though the caller was interrupted: it may go on with the socket.

        That of a caller that is gone is held until nobody can hear of it any more.
        """
        if self._call.has_caller:
            self._left = self._left or time.monotonic()
            result = self._look(False)
            if result == LATER:
                return self.wait
            if result is not None:
                self._connecting.not_heard(self._call, result)
        elif self._notice is not None and self._notice.may_be_heard:
            return 0, 0.1
        self._connecting.over(self._cookie)
        return None

    def take_up(self, call: Call, pending: Pending) -> Optional[bool]:
        """Answer another call where the first was interrupted, as Pending.take_up."""
        former, call.cookie = self._call, self._cookie
        self._call = call
        found = pending.take_up(call, self._cookie)
        if not found:
            self._call = former
        else:
            self._left, self._is_blocking = 0.0, socket_calls.is_blocking(self._fd)
        return found

    def _look(self, is_ready: bool) -> Optional[int]:
        if self._asked is not None and self._asked.is_answered():
            result = self._answer()
            if result != LATER:
                return result
        state = socket_calls.tcp_state(self._fd)
        if decisions.is_to_be_asked(is_ready, state):
            failed = self._failed()
            if failed:
                return self.next(failed)
        if state != TCP_SYN_SENT:
            return self._on_handshake()
        until = self._patience_ends()
        return self._leave_place(ETIMEDOUT) if time.monotonic() >= until else self._wait_on(until)

    def _failed(self) -> int:
        """Return the errno of a failed connection, by one more connect: then the socket
        is fresh.
        """
        assert self._place is not None, "it was set going to some place"
        packed = self._place.real.pack()
        code = self._connecting.lent.connect(self._call, self._fd, packed, self._is_blocking)
        return code if decisions.is_failed(code) else 0

    def _wait_on(self, until: float) -> int:
        if self._asked is not None:
            self._asked.say_again(until)
        return LATER

    def _on_handshake(self) -> Optional[int]:
        """Check whom a connection has reached, now that the kernel has made it."""
        assert self._place is not None, "it was connected to some place"
        is_here = self._proof.is_here(self._place)
        following = decisions.after_handshake(self._asked is not None, is_here)
        if following == decisions.AWAIT_ACK:
            self._made = self._made or time.monotonic()
            until = decisions.proof_ends(self._made, self._next_place is None)
            is_over = time.monotonic() >= until
            return self._leave_place(ECONNREFUSED) if is_over else self._wait_on(until)
        is_proven = following == decisions.GO_ON or self._proof.here(
            self._fd, self._to, self._place, self._was_held
        )
        return self._answer() if is_proven else self._leave_place(ECONNREFUSED)

    def _leave_place(self, error: int) -> Optional[int]:
        """Leave a place where nobody of ours has answered."""
        socket_calls.disconnect(self._fd)
        return self.next(error)
