"""Who a connection from elsewhere comes from: short signed datagrams between the netds.

Whoever connects tells the netd of the pod it connects to, "what comes from this real address is
that pod's"; whoever accepts looks it up, and turns away what nobody has spoken for. Signed with
the cluster's key, so that no other user can speak for a pod; a notice is good for one source
address and one port of one pod only, and not for long.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import OrderedDict

from .sockaddr import Address, text
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Optional

    from .heard import Heard
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

MAGIC = b"orlop\1"
PROTOCOLS = {"tcp": 6, "udp": 17}
TOLERANCE = 120.0  # seconds that the clocks of two nodes may differ
LIFETIME = 30.0  # seconds in which a connection must be accepted that was announced
MAX_KNOWN = 8192
BUFFER = 1 << 20
_SIGNATURE = 16
# Protocol, time, real source, the pod and port it is, the pod and port it speaks to.
_BODY = struct.Struct("!6sBd4sH4sH4sH")
LENGTH = _BODY.size + _SIGNATURE


class Notice:
    """What is known of one source."""

    __slots__ = ("own", "peer", "port", "until")

    def __init__(self, peer: Address, port: int, until: float, own: Optional[Address]) -> None:
        self.peer, self.port = peer, port  # who it is, and the port of ours it speaks to
        self.until = until
        self.own = own  # one of this very pod: the name of ours that it asked for


class Notices:
    """`heard`: where those who speak UDP are kept for the next netd, if there will be one."""

    def __init__(self, world: World, heard: Optional[Heard] = None) -> None:
        self._world, self._heard = world, heard
        self._lock = threading.Lock()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.socket.bind((text(world.node), 0))
        self.port: int = self.socket.getsockname()[1]
        self._known: OrderedDict[tuple[int, bytes, int], Notice] = OrderedDict()

    def sign(self, protocol: str, real: Address, own_port: int, to: tuple[bytes, int]) -> bytes:
        """The notice that what comes from `real` to a pod's port is ours."""
        world = self._world
        ends = (real.ip, real.port, world.pod, own_port, *to)
        body = _BODY.pack(MAGIC, PROTOCOLS[protocol], time.time(), *ends)
        return body + _signature(world.key, body)

    def send(self, notice: bytes, to: tuple[str, int]) -> None:
        try:
            self.socket.sendto(notice, to)
        except OSError:
            pass  # the other side will ask the kernel, or turn us away

    def expect(self, protocol: str, real: Address, peer: Address, own: Address) -> None:
        """One of this pod's own connections, which no other netd tells us of."""
        until = time.monotonic() + LIFETIME
        self._put((PROTOCOLS[protocol], real.ip, real.port), Notice(peer, own.port, until, own))

    def find(self, protocol: str, real: Address, port: int) -> Optional[Notice]:
        """Who speaks to our port from a real address, as far as we were told."""
        self.read()
        return self.known(protocol, real, port)

    def known(self, protocol: str, real: Address, port: int) -> Optional[Notice]:
        """As `find`, of what we have read before."""
        key = (PROTOCOLS[protocol], real.ip, real.port)
        found = self._known.get(key)
        if found is None or found.port != port:
            return self._heard_before(real, port) if protocol == "udp" else None
        if protocol == "tcp":  # one connection each; the next from there will be announced anew
            self._known.pop(key, None)
            if time.monotonic() > found.until:
                return None
        return found

    def _heard_before(self, real: Address, port: int) -> Optional[Notice]:
        peer = self._heard.find(real, port) if self._heard is not None else None
        return Notice(peer, port, 0.0, None) if peer is not None else None

    def read(self) -> None:
        """All that has arrived."""
        with self._lock:
            while True:
                try:
                    raw = self.socket.recv(LENGTH + 1)
                except OSError:
                    return
                self._take(raw)

    def _take(self, raw: bytes) -> None:
        if len(raw) != LENGTH:
            return
        body, signature = raw[:-_SIGNATURE], raw[-_SIGNATURE:]
        if not _is_same(signature, _signature(self._world.key, body)):
            return
        magic, protocol, when, real, real_port, pod, port, to, to_port = _BODY.unpack(body)
        if magic != MAGIC or abs(time.time() - when) > TOLERANCE or to != self._world.pod:
            return
        peer = Address(socket.AF_INET, pod, port)
        until = time.monotonic() + LIFETIME
        self._put((protocol, real, real_port), Notice(peer, to_port, until, None))
        if protocol == PROTOCOLS["udp"] and self._heard is not None:
            self._heard.put(Address(socket.AF_INET, real, real_port), to_port, peer)

    def _put(self, key: tuple[int, bytes, int], notice: Notice) -> None:
        self._known[key] = notice
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


def _signature(key: bytes, body: bytes) -> bytes:
    import hmac  # slow to import, and not needed before somebody connects

    return hmac.digest(key, body, "sha256")[:_SIGNATURE]


def _is_same(one: bytes, other: bytes) -> bool:
    import hmac

    return hmac.compare_digest(one, other)
