"""Makes sure that a connection ends at the pod it was meant for, and says who it comes from.

Used by `tcp/connect.py` between the kernel's handshake and the answer to the program, so that no
byte reaches another user who has the port of a pod that is gone. On this node the kernel is asked
whose the other end is; on another, that pod's netd has to acknowledge a signed notice of the
connection.
"""

from __future__ import annotations

import time

from ..pod_addressing import PodAddressing
from ..routes import Place
from ..sockets import socket_calls
from ..sockets.sockaddr import AF_INET, Address
from ..tcp import decisions
from .names import Identities
from .notices import Notices
from .sock_diag import OTHERS, TCP, Owners

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

AT_ONCE = 0.0005  # seconds in which most acknowledgements come


class Asked:
    """A notice that was sent, which may have to be acknowledged."""

    def __init__(self, notices: Notices, notice: bytes, to: tuple[str, int]) -> None:
        self._notices, self._notice, self._to = notices, notice, to
        self._pause = decisions.FIRST_PAUSE
        self._say()

    def _say(self) -> None:
        self.said = time.monotonic()
        self._notices.send(self._notice, self._to)

    @property
    def pause(self) -> float:
        """Return the seconds until it is said again."""
        return decisions.seconds_until(time.monotonic(), self.said + self._pause)

    @property
    def may_be_heard(self) -> bool:
        return decisions.may_be_heard(time.monotonic(), self.said)

    def is_answered(self) -> bool:
        return self._notices.is_acknowledged(self._notice)

    def is_answered_at_once(self) -> bool:
        """Wait as long as an answer takes where all goes well; return whether it came.

        This costs less than to leave the wait to another.
        """
        return self._notices.await_acknowledgement(self._notice, AT_ONCE)

    def say_again(self, until: float) -> None:
        """Say it again if it is time, but not so late that it is heard after `until`."""
        if decisions.is_notice_due(time.monotonic(), self.said, self._pause, until):
            self._say()
            self._pause = decisions.next_pause(self._pause)


class Proof:
    def __init__(
        self, world: PodAddressing, notices: Notices, identities: Identities, owners: Owners
    ) -> None:
        self._world, self._notices = world, notices
        self._identities, self._owners = identities, owners

    def wanted(self, place: Place) -> int:
        """Return which proof a place wants."""
        has_pod, has_notice = place.pod is not None, place.notice is not None
        return decisions.proof_of(bool(place.own_port), has_pod, has_notice, self.is_here(place))

    def is_here(self, place: Place) -> bool:
        """Return whether the kernel can be asked about a place."""
        is_local = place.real.ip in (self._world.node, self._world.loopback)
        return is_local and self._owners.can_tell

    def is_held_here(self, place: Place) -> bool:
        """Return whether one of ours listens at a place on this node, as far as can be told."""
        server = Address(AF_INET, place.real.ip, place.real.port)
        return not self._owners.can_tell or self._owners.holds(TCP, server)

    def here(self, fd: int, to: Address, place: Place, was_held: bool) -> bool:
        """Return whether a connection on this node ends at one of ours, and tell it who comes.

        An end that the server has closed already has no owner, and it may have closed its listener,
        too: so `was_held` is whether one of ours listened there just before the connect.
        """
        real, server = _real(fd), Address(AF_INET, place.real.ip, place.real.port)
        if real is None:
            return self._owners.holds(TCP, server)
        child = self._owners.child(server, real)
        if child == OTHERS:
            return False
        if child and place.own_port:
            own = self._identities.named(to, place.own_port)
            peer = self._identities.towards(to, self._identities.shown("tcp", real))
            self._identities.accepted(child, peer, own)
        elif child and place.notice is not None:
            self._notices.send(self._notice(fd, real, place, child), place.notice)
        return bool(child) or was_held or self._owners.holds(TCP, server)

    def ask(self, fd: int, place: Place) -> Optional[Asked]:
        """Tell the netd of a place that this connection comes; return what waits for its word."""
        real = _real(fd)
        if real is None or place.notice is None:
            return None
        return Asked(self._notices, self._notice(fd, real, place), place.notice)

    def _notice(self, fd: int, real: Address, place: Place, child: int = 0) -> bytes:
        assert place.pod is not None, "none of ours is told of others"
        port = self._identities.shown("tcp", real).port
        to = (*place.pod, place.real.port)
        return self._notices.notice("tcp", (real, port), to, socket_calls.cookie(fd), child)


def _real(fd: int) -> Optional[Address]:
    """Return the real address of a socket, if it is one of IPv4."""
    found = socket_calls.own_address(fd)
    return found if found is not None and len(found.ip) == 4 else None
