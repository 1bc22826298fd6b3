"""Answers connect: on the caller's own socket, to where the destination really is.

The socket is set going without waiting. A program hears of a connection to a pod when it is made
and `proof` has shown whose the other end is; until then its call waits in `pending_calls`, also one
that would not block, for a moment. A refusal goes on to the next endpoint of a service.
"""

from __future__ import annotations

import os
import select
import time
from errno import (
    EALREADY,
    ECONNABORTED,
    ECONNREFUSED,
    ECONNRESET,
    EHOSTUNREACH,
    EINPROGRESS,
    EISCONN,
    ENETUNREACH,
    EPIPE,
    ETIMEDOUT,
)

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
from .egress_connect import Held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Optional

    from ..identity.proof import Asked
    from ..pod_network import PodNetwork
    from ..udp.connected import Origin
    from .pending_calls import Pending, Wait

# Seconds for the answer of one endpoint, when there is another to go to: it comes within a round
# trip, but on a node that is full the kernel's own threads have to wait for a core, too.
PATIENCE = 0.3
# Seconds for the last endpoint's answer to a caller who would not wait: one SYN may be lost. Who
# waits is given as long as the kernel tries.
PATIENCE_AT_ONCE, PATIENCE_AT_LEISURE = 1.3, 130.0
# Seconds for the acknowledgement of a connection that is made; with another endpoint to go to.
PROOF_TIME, PROOF_TIME_OF_MANY = 3.0, 1.0
MAX_AGAIN = 2  # times that one is tried that was made and closed before it was acknowledged
MAX_UNHEARD = 64
UDP_PATIENCE = 1.0  # seconds for a port to be bound
UNREACHED = (ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT)
CLOSED = (ECONNABORTED, ECONNRESET, EPIPE)


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
        elif call.cookie:
            self.on_unheard(call.cookie)

    def _keep_in_mind(self, cookie: int) -> None:
        self._unheard = [*self._unheard[-MAX_UNHEARD:], cookie]

    # For attempts

    def over(self, cookie: int) -> None:
        self._attempts.pop(cookie, None)

    def start(self, call: Call, fd: int, to: Address, place: Place, blocking: bool) -> int:
        """Set a connection going; return 0 or the errno."""
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
        if code in socket_calls.CONNECTING:
            call.cookie = cookie
        else:
            self._identities.forget(cookie)
        return code

    def _choose_source(self, fd: int, family: int, place: Place) -> None:
        """Give the socket the pod's source address, unless it has one already.

        By it a server on this node knows the pod.
        """
        own, world = socket_calls.own_address(fd), self._world
        if own is None or own.port or not world.has_address:
            return
        if place.real.ip in (world.node, world.loopback):
            self._come_from(fd, Address(family, world.loopback, 0))
        elif own.ip == world.loopback:  # where an endpoint on this node refused it
            self._come_from(fd, Address(family, ANY4, 0))

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
        self._error = ECONNREFUSED
        self._is_blocking = socket_calls.is_blocking(fd)
        self._asked: Optional[Asked] = None
        self._began = self._made = 0.0  # when it was set going, and when that was made
        self._again = 0
        self._cookie = socket_calls.cookie(fd)
        self._left = 0.0  # when its caller was interrupted

    def next(self) -> Optional[int]:
        """Try until one is on its way; return the answer, LATER, or None for the kernel
        to do it.
        """
        while self._next_place is not None:
            self._place, self._again = self._next_place, 0
            self._next_place = next(self._places, None)
            result = self._start(self._place)
            if result is None or result == LATER or -result not in UNREACHED:
                return result
            self._error = -result
        return -self._error

    def _start(self, place: Place) -> Optional[int]:
        """Set one going."""
        code = self._connecting.start(self._call, self._fd, self._to, place, self._is_blocking)
        if code not in socket_calls.CONNECTING:
            return -code
        self._began, self._made, self._asked = time.monotonic(), 0.0, None
        if place.own_port or (self._proof.is_needed(place) and self._proof.is_here(place)):
            if self._is_made():
                return self._on_handshake()
            return self._answer() if self._is_for_kernel(place) else LATER
        if self._proof.is_needed(place):
            self._asked = self._proof.ask(self._fd, place)
            if self._asked is not None and self._connecting.needs_proof:
                return self._answer() if self._asked.is_answered_at_once() else LATER
        if self._next_place is None or self._is_made():
            return self._answer()
        return LATER

    def _is_for_kernel(self, place: Place) -> bool:
        """Return whether to leave the connect to the kernel.

        To a port of the pod itself the kernel waits: who is to accept may be the caller.
        """
        if not place.own_port or self._next_place is not None:
            return False
        return self._proof.is_held_here(place)

    def _is_made(self) -> bool:
        return socket_calls.tcp_state(self._fd) == TCP_ESTABLISHED

    def _answer(self) -> Optional[int]:
        if not self._is_blocking:
            return -EINPROGRESS
        if not self._connecting.is_held:
            return None
        # Asked again, the kernel takes it for connected itself.
        return 0 if self._is_made() and not self._failed() else LATER

    @property
    def wait(self) -> Wait:
        if self._asked is not None:  # an error is told all the same
            return 0, self._asked.pause
        return int(select.EPOLLOUT), max(self._patience_ends() - time.monotonic(), 0.001)

    def _patience_ends(self) -> float:
        """Return when the kernel's handshake has taken too long."""
        if self._left:
            return self._left + PATIENCE_AT_ONCE
        if self._next_place is not None:
            return self._began + PATIENCE
        return self._began + (PATIENCE_AT_LEISURE if self._is_blocking else PATIENCE_AT_ONCE)

    def _proof_ends(self) -> float:
        self._made = self._made or time.monotonic()
        return self._made + (PROOF_TIME if self._next_place is None else PROOF_TIME_OF_MANY)

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
            if result == 0:
                self._connecting.not_heard(self._call, result)
        elif self._asked is not None and self._asked.is_heard:
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
        if is_ready or state not in (TCP_SYN_SENT, TCP_ESTABLISHED):
            failed = self._failed()
            if failed:
                return self._on_failure(failed)
        if state == TCP_SYN_SENT:
            is_over = time.monotonic() >= self._patience_ends()
            return self._leave_place(ETIMEDOUT) if is_over else self._wait_on()
        return self._on_handshake()

    def _failed(self) -> int:
        """Return the errno of a failed connection, by one more connect: then the socket
        is fresh.
        """
        assert self._place is not None, "it was set going to some place"
        packed = self._place.real.pack()
        code = self._connecting.lent.connect(self._call, self._fd, packed, self._is_blocking)
        return 0 if code in (0, EINPROGRESS, EALREADY, EISCONN) else code

    def _on_failure(self, code: int) -> Optional[int]:
        assert self._place is not None, "it was set going to some place"
        if code in CLOSED and self._again < MAX_AGAIN:
            # The server's netd had it in its hands before our notice: nothing was sent yet.
            self._again += 1
            return self._start(self._place)
        self._error = ECONNREFUSED if code in CLOSED else code
        return self.next() if self._error in UNREACHED else -code

    def _wait_on(self) -> int:
        if self._asked is not None:
            self._asked.say_again(self._patience_ends())
        return LATER

    def _on_handshake(self) -> Optional[int]:
        """Check whom a connection has reached, now that the kernel has made it."""
        assert self._place is not None, "it was connected to some place"
        if self._asked is None or not self._connecting.needs_proof:
            is_proven = not self._proof.is_here(self._place) or self._proof.here(
                self._fd, self._to, self._place
            )
            return self._answer() if is_proven else self._leave_place(ECONNREFUSED)
        until = self._proof_ends()
        if time.monotonic() >= until:
            return self._leave_place(ECONNREFUSED)
        self._asked.say_again(until)
        return LATER

    def _leave_place(self, error: int) -> Optional[int]:
        """Leave a place where nobody of ours has answered."""
        socket_calls.disconnect(self._fd)
        self._error = error
        return self.next()
