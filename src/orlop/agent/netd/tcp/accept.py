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
from errno import EAGAIN

from ..layout import TCP
from ..seccomp.caller_process import Target
from ..seccomp.notify import CLOSE_ON_EXEC, Call
from ..sockets import sockaddr, socket_calls
from ..sockets.sockaddr import LOOPBACK4, Address
from ..sockets.socket_calls import LATER
from . import decisions
from .decisions import AGENT, NEIGHBOUR, NOBODY, NOT_YET, SIBLING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from ..pod_network import PodNetwork
    from .accept_handoff import Room
    from .pending_calls import Wait

OWNERS = {None: decisions.UNTOLD, False: decisions.NOT_OURS, True: decisions.OURS}


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
            port = self._identities.shown("tcp", own).port
            taking = _Taking(self, call, fd, flags, _Listener(own, port))
            wait = taking.step(target, True)
            if wait is not None:
                self._pending.add(call, fd, wait, taking.step, taking.leave)
                fd = -1
            return LATER
        finally:
            if fd >= 0:
                os.close(fd)

    # For one accept

    def judge(
        self, connection: int, peer: Address, listener: _Listener, doubt: tuple[float, bool]
    ) -> tuple[int, Address]:
        """Return the verdict on a connection, and who it is, where that is known.

        `doubt`: how many seconds of it are left, and whether the caller would wait in any case.
        """
        world, own = self._world, listener.own_end(connection)
        is_here = peer.ip == world.node or peer.is_loopback
        is_from_loopback = peer.ip == world.loopback
        is_amiss = decisions.comes_amiss(is_here, own.ip == world.loopback, is_from_loopback)
        found = self._vouched(connection)
        if found is not None:
            verdict = decisions.judge_vouched(is_amiss, found[1] is not None)
            who = Address(peer.family, found[0].ip, found[0].port)
            return (verdict if found[1] is not None else self._allowed(verdict, who, listener)), who
        owner, verdict, sibling = decisions.UNTOLD, NOT_YET, None
        pod = self._identities.neighbour(peer)
        if is_here:
            told = self._owners.look(TCP, peer, own)
            # One of the pod's own that is not expected yet, or was by the netd before us.
            sibling = self._identities.sibling(told.cookie, peer, listener.port)
            owner, is_sure = OWNERS[told.is_ours], not self._directory.is_in_doubt
            verdict = decisions.judge_here(
                owner, sibling is not None, is_amiss, is_from_loopback, pod is not None and is_sure
            )
        is_open = world.is_open("tcp", own)
        if verdict == NOT_YET:
            verdict = decisions.judge_other(owner, pod is not None, is_open, world.allows_outside)
        if verdict == NOT_YET:
            verdict = decisions.judge_late(owner, pod is not None, is_open, *doubt)
            if self._allowed(verdict, peer, listener) != verdict:
                verdict = decisions.judge_late(owner, True, is_open, *doubt)
            return verdict, peer
        return self._settle(connection, verdict, peer, listener, sibling or (pod, None))

    def _settle(
        self,
        connection: int,
        verdict: int,
        peer: Address,
        listener: _Listener,
        names: tuple[Optional[Address], Optional[Address]],
    ) -> tuple[int, Address]:
        """Write down who a connection is; return what a NetworkPolicy makes of it."""
        who, cookie = peer, socket_calls.cookie(connection)
        if verdict == AGENT:
            who = Address(peer.family, LOOPBACK4, peer.port)
        elif names[0] is not None and verdict in (SIBLING, NEIGHBOUR):
            who = Address(peer.family, names[0].ip, names[0].port)
        if verdict == SIBLING and names[1] is not None:
            self._identities.accepted(cookie, who, names[1])
            return verdict, who
        if decisions.is_known(verdict):
            self._identities.connected(cookie, who)
        return self._allowed(verdict, who, listener), who

    def _vouched(self, connection: int) -> Optional[tuple[Address, Optional[Address]]]:
        found = self._identities.vouched(connection)
        if found is None:
            self._notices.read()
            found = self._identities.vouched(connection)
        return found

    def _allowed(self, verdict: int, who: Address, listener: _Listener) -> int:
        """Return the verdict, or NOBODY where a NetworkPolicy keeps out whom it lets in."""
        if not decisions.is_known(verdict) or who.is_loopback:
            return verdict
        text, allows = sockaddr.text(who.ip), self._directory.allows
        return verdict if allows("ingress", "tcp", text, listener.port) else NOBODY

    def keep(self, listening: int, connection: int, peer: Address, number: int) -> None:
        """Keep a connection for the next who accepts, who may be waiting already."""
        self.arrivals.keep(listening, connection, peer, number)
        self._pending.nudge(listening)


class _Listener:
    """A listening socket: its real address, and its port as the pod knows it."""

    __slots__ = ("_own", "port")

    def __init__(self, own: Address, port: int) -> None:
        self._own, self.port = own, port

    def own_end(self, connection: int) -> Address:
        """Return to which of its addresses a connection has come."""
        found = socket_calls.own_address(connection) if self._own.is_any else self._own
        assert found is not None, "an accepted connection has such a name"
        return found


class _Taking:
    """One accept of one caller."""

    def __init__(
        self, accepting: Accepting, call: Call, fd: int, flags: int, listener: _Listener
    ) -> None:
        self._accepting, self._call, self._fd = accepting, call, fd
        self._flags, self._listener = flags, listener
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
            verdict, peer = self._verdict()
            if verdict == NOT_YET:
                return 0, decisions.until_next_look(self._doubt_until - time.monotonic())
            if peer is not None and decisions.is_known(verdict):
                self._deliver(target, peer)
                return None
            # Those behind a stranger have been in the queue as long, and their notices, too.
            self._was_in_vain |= time.monotonic() > self._doubt_until
            os.close(self._let_go())

    def _begin(self, real: Optional[Address]) -> None:
        """Start to find out who a connection is, which is in our hands now."""
        listening = socket_calls.cookie(self._fd)
        self._room = self._accepting.handover.deposit(self._call, listening, self._connection)
        self._real, self._doubt_until = real, time.monotonic() + decisions.DOUBT

    def _let_go(self) -> int:
        """Hand over the connection, which another closes from now on; return it."""
        self._accepting.handover.collect(self._room)
        self._room = None
        connection, self._connection, self._number = self._connection, -1, -1
        return connection

    def leave(self) -> Optional[Wait]:
        """Keep the connection for the caller's next accept: it hears nothing more of this one."""
        is_wanted = self._connection >= 0 and self._call.has_caller
        verdict, peer = self._verdict() if is_wanted else (NOBODY, None)
        if verdict == NOT_YET:
            return 0, decisions.LOOK_AGAIN
        number, connection = self._number, self._let_go()
        if peer is not None and decisions.is_known(verdict):
            self._accepting.keep(socket_calls.cookie(self._fd), connection, peer, number)
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

    def _verdict(self) -> tuple[int, Optional[Address]]:
        if self._real is None:
            return NOBODY, None
        now = time.monotonic()
        left = self._doubt_until - now
        is_over = self._give_up_at is not None and now > self._give_up_at
        is_idle = decisions.is_at_leisure(self._is_blocking, self._was_in_vain, left, is_over)
        return self._accepting.judge(self._connection, self._real, self._listener, (left, is_idle))

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
        if decisions.is_kept(code, is_heard):
            self._accepting.keep(socket_calls.cookie(self._fd), connection, peer, number)
        else:
            os.close(connection)
