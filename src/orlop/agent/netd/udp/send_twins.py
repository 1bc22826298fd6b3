"""Sends for UDP sockets that cannot: each has a twin of ours, at the same port.

In a pod that an egress policy restricts, a program's UDP socket receives as any does and never
sends by itself: whatever descriptor it is moved to, and by whatever call, the kernel refuses with
EPIPE (`socket_calls.silence`). What may be sent goes out here. A twin hears nothing, as it is
connected to where nobody speaks, and is closed when it has not been used for a moment.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections import OrderedDict

from ..sockets import sockaddr, socket_calls
from ..sockets.sockaddr import AF_INET, AF_INET6, ANY4, LOOPBACK4, LOOPBACK6, Address
from ..sockets.socket_calls import (
    IPPROTO_IP,
    IPPROTO_IPV6,
    IPV6_V6ONLY,
    MSG_DONTWAIT,
    SO_REUSEPORT,
    SOL_SOCKET,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ..sockets.msghdr import Control
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

KEPT = 2.0  # seconds after it was used
MAX_TWINS = 256  # each costs a descriptor, and holds a port that its program may have closed
DISCARD = 9  # the port where nobody speaks: one for the privileged
IP_TOS, IP_TTL, IP_PKTINFO, IPV6_PKTINFO, SO_BROADCAST = 1, 2, 8, 50, 6
# What a program may have set that counts for what is sent.
_OPTIONS = ((SOL_SOCKET, SO_BROADCAST), (IPPROTO_IP, IP_TOS), (IPPROTO_IP, IP_TTL))
_PKTINFO, _PKTINFO6 = struct.Struct("<i4s4x"), struct.Struct("<16si")


class _Twin:
    __slots__ = ("name", "socket", "until")

    def __init__(self, made: socket.socket, name: bytes) -> None:
        self.socket, self.name = made, name
        self.until = time.monotonic() + KEPT


class Twins:
    def __init__(
        self,
        holder_of: Callable[[Address], int] = lambda own: -1,
        on_first: Callable[[], None] = lambda: None,
    ) -> None:
        """Take `holder_of`: what keeps a port for the pod, a socket that is connected to nobody.

        -1 where nothing does; and `on_first`, called when somebody has to sweep from now on.
        """
        self._holder_of, self._on_first = holder_of, on_first
        self._lock = threading.Lock()
        self._twins: OrderedDict[int, _Twin] = OrderedDict()  # by the socket's cookie
        self._sources: dict[tuple[bytes, int], bytes] = {}

    def send(self, fd: int, data: bytes, control: list[Control], flags: int, to: Address) -> int:
        """Send in place of a program's socket; the caller has judged what the datagram is."""
        own = socket_calls.own_address(fd)
        if own is not None and not own.port:
            socket_calls.bind(fd, Address(own.family, ANY4, 0).pack())
            own = socket_calls.own_address(fd)
        assert own is not None, "an internet socket has such a name"
        if own.is_any and not any(_is_source(one) for one in control):
            control = [*control, self._come_from(to)]
        with self._lock:
            twin = self._twin(fd, socket_calls.own_name(fd))
            return twin.socket.sendmsg([data], control, flags | MSG_DONTWAIT, words(own.family, to))

    def _twin(self, fd: int, name: bytes) -> _Twin:
        self._drop(time.monotonic())
        cookie = socket_calls.cookie(fd)
        found = self._twins.pop(cookie, None)
        if found is not None and found.name != name:  # connected, or not any more
            found.socket.close()
            found = None
        if found is None:
            found = _Twin(self._made(fd, name), name)
        found.until = time.monotonic() + KEPT
        self._twins[cookie] = found
        if len(self._twins) == 1:
            self._on_first()
        if len(self._twins) > MAX_TWINS:
            self._twins.popitem(last=False)[1].socket.close()
        return found

    def _made(self, fd: int, name: bytes) -> socket.socket:
        own = sockaddr.parse(name)
        assert own is not None, "an internet socket has such a name"
        holder = self._holder_of(own)
        if holder < 0:
            return _made(fd, own, name)
        return socket.socket(own.family, socket.SOCK_DGRAM, 0, os.dup(holder))

    def _come_from(self, to: Address) -> Control:
        """Name the source address as the kernel would choose it.

        The twin's own end is of no use, as nobody hears there.
        """
        key = to.ip, to.scope
        source = self._sources.get(key)
        if source is None:
            if len(self._sources) > MAX_TWINS:
                self._sources.clear()
            source = self._sources[key] = _source(to)
        if len(source) == 4:
            return IPPROTO_IP, IP_PKTINFO, _PKTINFO.pack(0, source)
        return IPPROTO_IPV6, IPV6_PKTINFO, _PKTINFO6.pack(source, to.scope)

    def _drop(self, now: float) -> None:
        """Close twins whose time is over; the first to be used is the first to go."""
        while self._twins:
            cookie, twin = next(iter(self._twins.items()))
            if twin.until > now:
                return
            del self._twins[cookie]
            twin.socket.close()

    def sweep(self) -> float:
        """Close what is not used any more; return seconds until there is more to do, 0: none."""
        with self._lock:
            now = time.monotonic()
            self._drop(now)
            return next(iter(self._twins.values())).until - now if self._twins else 0.0

    def give_up(self) -> None:
        """Close all: a program wants one of their ports again."""
        with self._lock:
            self._drop(float("inf"))


def _made(fd: int, own: Address, name: bytes) -> socket.socket:
    """Make a socket at the same port; nobody else gets one there that way."""
    made = socket.socket(own.family, socket.SOCK_DGRAM)
    try:
        ours = made.fileno()
        if own.family == AF_INET6 and not socket_calls.option(fd, IPPROTO_IPV6, IPV6_V6ONLY):
            socket_calls.switch_off(ours, IPPROTO_IPV6, IPV6_V6ONLY)
        shares = socket_calls.option(fd, SOL_SOCKET, SO_REUSEPORT)
        for one in (fd, ours):
            socket_calls.switch_on(one, SOL_SOCKET, SO_REUSEPORT)
        try:
            socket_calls.bind(ours, name)
        finally:
            if not shares:
                for one in (fd, ours):
                    socket_calls.switch_off(one, SOL_SOCKET, SO_REUSEPORT)
        socket_calls.connect(ours, _nobody(own).pack())
        for level, option in _OPTIONS:
            made.setsockopt(level, option, socket_calls.option(fd, level, option))
    except OSError:
        made.close()
        raise
    return made


def _nobody(own: Address) -> Address:
    """Return a place where nobody speaks, at the same address, so that there is a way."""
    nowhere = LOOPBACK4 if own.family == AF_INET else LOOPBACK6
    return Address(own.family, nowhere if own.is_any else own.ip, DISCARD, own.scope)


def _is_source(one: Control) -> bool:
    return one[:2] in ((IPPROTO_IP, IP_PKTINFO), (IPPROTO_IPV6, IPV6_PKTINFO))


def _source(to: Address) -> bytes:
    """Return the address of this node that a datagram leaves from."""
    family = AF_INET if len(to.ip) == 4 else AF_INET6
    probe = socket.socket(family, socket.SOCK_DGRAM)
    try:
        socket_calls.switch_on(probe.fileno(), SOL_SOCKET, SO_BROADCAST)
        code = socket_calls.connect(probe.fileno(), Address(family, to.ip, 1, to.scope).pack())
        if code:
            raise OSError(code, os.strerror(code))
        own = socket_calls.own_address(probe.fileno())
    finally:
        probe.close()
    assert own is not None, "an internet socket has such a name"
    return own.ip


def words(family: int, to: Address) -> tuple[object, ...]:
    """Name a destination as a socket of a family is told it."""
    ip = sockaddr.text(to.ip)
    if family == AF_INET:
        return ip, to.port
    return ("::ffff:" + ip if len(to.ip) == 4 else ip), to.port, 0, to.scope
