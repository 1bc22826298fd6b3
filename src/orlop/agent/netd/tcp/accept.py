"""Answers accept: takes a connection, makes sure of who it is, and hands it to the caller.

A real port is open to every user of the machine and the network; so each connection is looked at.
A notice of the netd at the other end has said of this very connection which pod it is; else, from
this node, the kernel says whose socket is there. What nobody vouches for is closed, and the caller
never sees it.
"""

from __future__ import annotations

import os
import select
import time
from errno import EAGAIN, EMFILE, ENFILE

from ..seccomp.caller_process import Target
from ..seccomp.notify import CLOSE_ON_EXEC, Call
from ..sockets import sockaddr, socket_calls
from ..sockets.sockaddr import LOOPBACK4, Address
from ..sockets.socket_calls import LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from ..pod_network import PodNetwork
    from .accept_handoff import Room
    from .pending_calls import Wait

PATIENCE, PATIENCE_HERE = 0.05, 0.003  # seconds for a notice that is late; on this very node
# A netd that was put off its core between its connection and its notice needs longer on a busy
# node. Where the caller would wait in any case it is given that, and others in the queue wait, too:
# to let them in first would leave a program that asked `select` with one it is never shown again.
PATIENCE_AT_LEISURE = 1.5
LOOK_AGAIN: Wait = (0, 0.001)
LOOK_SELDOM: Wait = (0, 0.01)
TCP = 6
_NOBODY, _NOT_YET = object(), object()


class Accepting:
    def __init__(self, network: PodNetwork) -> None:
        self._world, self._directory = network.addressing, network.endpoints
        self._notices, self._owners = network.notices, network.owners
        self._identities, self._pending = network.identities, network.pending
        self.arrivals, self.handover = network.accept_queue, network.accept_handoff

    def accept(self, call: Call, target: Target, flags: int) -> Optional[int]:
        """Accept; return the answer, None to let the kernel go on, or LATER."""
        fd = target.grab(call, call.args[0])
        try:
            own = socket_calls.own_address(fd)
            if own is None or socket_calls.protocol(fd) != "tcp":
                return None
            taking = _Taking(self, call, fd, flags, self._identities.shown("tcp", own).port)
            wait = taking.step(target, True)
            if wait is not None:
                self._pending.add(call, fd, wait, taking.step, taking.leave)
                fd = -1
            return LATER
        finally:
            if fd >= 0:
                os.close(fd)

    # For one accept

    def judge(self, connection: int, peer: Address, port: int) -> object:
        """Return the peer as its pod, _NOBODY, or _NOT_YET while a notice may be on its way."""
        found = self._identities.vouched(connection)
        if found is None:
            self._notices.read()
            found = self._identities.vouched(connection)
        if found is None:
            identified = self._identify(connection, peer, port)
            if not isinstance(identified, Address):
                return identified
            found = self._identities.vouched(connection)  # one of this very pod
            if found is None:
                self._identities.connected(socket_calls.cookie(connection), identified)
                found = identified, None
        pod, own = found
        pod = Address(peer.family, pod.ip, pod.port)
        return pod if own is not None or self._is_allowed(pod, port) else _NOBODY

    def _is_allowed(self, peer: Address, port: int) -> bool:
        if peer.is_loopback:
            return True
        return self._directory.allows("ingress", "tcp", sockaddr.text(peer.ip), port)

    def _identify(self, connection: int, peer: Address, port: int) -> object:
        world, neighbour = self._world, None
        if peer.ip == world.node or peer.is_loopback:
            own = socket_calls.own_address(connection)
            assert own is not None, "an accepted connection has such a name"
            owner = self._owners.look(TCP, peer, own)
            # One of the pod's own that is not expected yet, or was by the netd before us.
            sibling = self._identities.sibling(owner.cookie, peer, port)
            if sibling is not None:
                self._identities.accepted(socket_calls.cookie(connection), *sibling)
                return Address(peer.family, sibling[0].ip, sibling[0].port)
            if own.ip == world.loopback and peer.ip != world.loopback:
                return _NOBODY  # another pod has no business at our localhost
            if owner.is_ours and peer.ip == world.loopback:  # the agent: a probe, a forwarded port
                return Address(peer.family, LOOPBACK4, peer.port)
            neighbour = self._identities.neighbour(peer) if owner.is_ours else None
            if neighbour is not None and not self._directory.is_in_doubt:
                return neighbour
            if owner.is_ours is False:
                return peer if world.is_open("tcp", own) else _NOBODY
        return peer if world.allows_outside and neighbour is None else _NOT_YET

    def keep(self, listening: int, connection: int, peer: Address, number: int) -> None:
        """Keep a connection for the next who accepts, who may be waiting already."""
        self.arrivals.keep(listening, connection, peer, number)
        self._pending.nudge(listening)

    def is_neighbour(self, connection: int, peer: Address, port: int) -> bool:
        """Return whether it is a program of this user's here, in no pod with its own network.

        Another pod is none: where it may know the port here as somebody else's, it comes with a
        notice for this pod or not at all. Where it has found the real port, it is to us as such a
        program; so NetworkPolicies hold for both, by the node's address.
        """
        own = socket_calls.own_address(connection)
        is_here = peer.ip == self._world.node or peer.is_loopback
        if not is_here or own is None or self._identities.neighbour(peer) is not None:
            return False
        is_ours = self._owners.look(TCP, peer, own).is_ours
        return bool(is_ours) and self._is_allowed(peer, port)

    def is_guest(self, connection: int, peer: Address, port: int) -> bool:
        """Return whether it is of no pod and comes by a hostPort as NetworkPolicies allow."""
        own = socket_calls.own_address(connection)
        if own is None or self._identities.neighbour(peer) is not None:
            return False
        return self._world.is_open("tcp", own) and self._is_allowed(peer, port)


class _Taking:
    """One accept of one caller."""

    def __init__(self, accepting: Accepting, call: Call, fd: int, flags: int, port: int) -> None:
        self._accepting, self._call, self._fd = accepting, call, fd
        self._flags, self._port = flags, port
        self._is_blocking = socket_calls.is_blocking(fd)
        timeout = socket_calls.receive_timeout(fd) if self._is_blocking else 0.0
        self._give_up_at = time.monotonic() + timeout if timeout else None
        self._connection = self._number = -1  # the number: what the caller may have it by already
        self._room: Optional[Room] = None
        self._real: Optional[Address] = None
        self._doubt_until = 0.0
        self._was_in_vain = False

    def step(self, target: Target, is_ready: bool) -> Optional[Wait]:
        """Go as far as can be gone now; return what to wait for, or None when it is answered."""
        kept = self._accepting.arrivals.kept(self._fd) if self._connection < 0 else None
        if kept is not None:
            self._connection, peer, self._number = kept
            if peer is not None:
                self._deliver(target, peer)
                return None
            self._begin(socket_calls.peer_address(self._connection))
        while True:
            if self._connection < 0:
                try:
                    self._connection, real = self._accepting.arrivals.take(
                        self._fd, self._flags, self._is_blocking
                    )
                except BlockingIOError:
                    return self._nothing_there()
                except OSError as error:
                    self._call.answer(-(error.errno or EAGAIN))
                    return None
                self._begin(real)
            found = self._verdict()
            if found is _NOT_YET:
                return LOOK_AGAIN if time.monotonic() < self._doubt_until else LOOK_SELDOM
            if isinstance(found, Address):
                self._deliver(target, found)
                return None
            # Those behind a stranger have been in the queue as long, and their notices, too.
            self._was_in_vain |= time.monotonic() > self._doubt_until
            os.close(self._let_go())

    def _begin(self, real: Optional[Address]) -> None:
        """Start to find out who a connection is, which is in our hands now."""
        listening = socket_calls.cookie(self._fd)
        self._room = self._accepting.handover.deposit(self._call, listening, self._connection)
        self._real, self._doubt_until = real, time.monotonic() + PATIENCE

    def _let_go(self) -> int:
        """Hand over the connection, which another closes from now on; return it."""
        self._accepting.handover.collect(self._room)
        self._room = None
        connection, self._connection, self._number = self._connection, -1, -1
        return connection

    def leave(self) -> Optional[Wait]:
        """Keep the connection for the caller's next accept: it hears nothing more of this one."""
        found = self._verdict() if self._connection >= 0 and self._call.has_caller else _NOBODY
        if found is _NOT_YET:
            return LOOK_AGAIN
        number, connection = self._number, self._let_go()
        if isinstance(found, Address):
            self._accepting.keep(socket_calls.cookie(self._fd), connection, found, number)
        elif connection >= 0:
            os.close(connection)
        return None

    def _nothing_there(self) -> Optional[Wait]:
        left = 0.0
        if self._give_up_at is not None:
            left = self._give_up_at - time.monotonic()
        if not self._is_blocking or left < 0:
            self._call.answer(-EAGAIN)
            return None
        return int(select.EPOLLIN), left

    def _verdict(self) -> object:
        peer = self._real
        if peer is None:
            return _NOBODY
        found = self._accepting.judge(self._connection, peer, self._port)
        if found is not _NOT_YET:
            return found
        left = self._doubt_until - time.monotonic()
        if left >= PATIENCE - PATIENCE_HERE:
            return found
        if self._accepting.is_neighbour(self._connection, peer, self._port):
            return peer
        if self._accepting.is_guest(self._connection, peer, self._port):
            return peer
        return found if left >= 0 or self._is_at_leisure(left) else _NOBODY

    def _is_at_leisure(self, left: float) -> bool:
        """Return whether the caller would wait anyway, and has not yet waited for a stranger."""
        if not self._is_blocking or self._was_in_vain or left < PATIENCE - PATIENCE_AT_LEISURE:
            return False
        return self._give_up_at is None or time.monotonic() <= self._give_up_at

    def _deliver(self, target: Target, peer: Address) -> None:
        args, number, code = self._call.args, self._number, 0
        try:
            target.write_address(self._call, args[1], args[2], peer.pack())
            if number < 0 or not target.has(self._call, number, self._connection):
                number = -1
                number = self._call.give_any(self._connection, self._flags & CLOSE_ON_EXEC)
        except OSError as error:
            code = error.errno or EAGAIN
        connection = self._let_go()  # the caller has it, and is told at once
        if code:
            is_heard = self._call.answer(-code)
        else:
            flags = self._flags & CLOSE_ON_EXEC
            is_heard = self._call.answer_given(number, connection, flags)
        if is_heard and code not in (EMFILE, ENFILE):
            os.close(connection)
        else:
            self._accepting.keep(socket_calls.cookie(self._fd), connection, peer, number)
