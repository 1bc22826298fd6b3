"""Tells pods which of this pod's UDP sockets write to them, and whether their ports are theirs.

Used by `destinations` before a datagram is sent, and by `recvfrom` when an answer comes. On this
node the kernel is asked whose a port is; the netd of a pod elsewhere has said so lately, or is
asked.
"""

from __future__ import annotations

import time

from ..identity.names import Identities
from ..identity.notices import ASK_TIME, Notice, Notices
from ..identity.sock_diag import UDP, Owners
from ..pod_addressing import PodAddressing
from ..routes import Place
from ..sockets import sockaddr, socket_calls
from ..sockets.sockaddr import ANY4, Address
from .flows import Flow
from .port_leases import Leases

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Optional

    from .connected import Origin
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

EVERY = 0.7  # seconds; what others believe of us, or we of them, ends after one


class Announcements:
    def __init__(
        self,
        addressing: PodAddressing,
        identities: Identities,
        notices: Notices,
        owners: Owners,
        leases: Leases,
        step_aside: Callable[[], None],
    ) -> None:
        """Take `step_aside`, which is called before a call takes long."""
        self._addressing, self._identities, self._notices = addressing, identities, notices
        self._owners, self._leases, self._step_aside = owners, leases, step_aside
        self._sources: dict[bytes, bytes] = {}

    def announce(self, fd: int, flow: Flow, to: Address, place: Place, origin: Origin) -> bool:
        """Tell whom is written to who writes, now and then; return whether it is there to hear."""
        own = socket_calls.own_address(fd)
        if own is not None and not own.port:
            socket_calls.bind(fd, Address(own.family, ANY4, 0).pack())
            own = socket_calls.own_address(fd)
        if own is None or len(place.real.ip) == 16:
            return True
        if flow.is_due(place.real, time.monotonic(), EVERY):
            self.repeat(fd, own, to, place, origin)
        return self._is_there(place)

    def repeat(
        self, fd: int, own: Address, to: Address, place: Place, origin: Optional[Origin]
    ) -> None:
        """Tell a place who writes there from a socket; `origin`: as `Leases.take`."""
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

    def is_current(self, fd: int, back: Address) -> bool:
        """Return whether the one who wrote from a real address has it still, and no one else."""
        own = socket_calls.own_address(fd)
        assert own is not None, "it was written to"
        port = self._identities.shown("udp", own).port
        return self._notices.speaker(back, own, port, time.time()) is not None

    def _is_there(self, place: Place) -> bool:
        """Return whether the port of a pod that is written to is one of ours, here and now."""
        is_there = self.is_ours_now(place, time.time())
        if is_there is None:
            self._step_aside()
            return self._notices.await_held(_far(place))
        return is_there

    def is_ours_now(self, place: Place, then: float) -> Optional[bool]:
        """Return whether a place is a pod's as it should be; None: its netd has not said lately."""
        is_local = place.real.ip in (self._addressing.node, self._addressing.loopback)
        if is_local and self._owners.can_tell_udp and (place.own_port or place.pod is not None):
            return self._owners.holds(UDP, place.real)
        if place.pod is None or place.notice is None or self._addressing.is_reached_from_outside:
            return True
        return self._notices.was_held(_far(place), then) or None

    def has_answered(
        self, fd: int, own: Address, to: Address, place: Place, arrived: float
    ) -> bool:
        """Return whether a datagram is from the one that the program meant when it wrote there."""
        is_ours = self.is_ours_now(place, arrived or time.time())
        if is_ours is not None or self._notices.is_silent(place.real):
            return bool(is_ours)
        self.repeat(fd, own, to, place, None)
        if self._notices.await_held(_far(place), ASK_TIME):
            return True
        self._notices.fell_silent(place.real)
        return False

    def _source(self, to: bytes) -> bytes:
        """Return the address of this node that a datagram to a place leaves from."""
        found = self._sources.get(to)
        if found is None:
            probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            probe.connect((sockaddr.text(to), 9))
            found = self._sources[to] = sockaddr.number(probe.getsockname()[0])
            probe.close()
        return found


def _far(place: Place) -> tuple[bytes, int, int]:
    """Return a port of a pod, as its netd speaks of it."""
    assert place.pod is not None, "nobody speaks for what is no pod's"
    return (*place.pod, place.real.port)
