"""Reads and writes the signed datagrams by which it is known who speaks to a pod, and to whom.

Used by the kubelet's announcer, when the control plane connects to pods, and by the gateway, when
pods connect to it. The same bytes as agents send each other (agent/netd/identity/notices.py), which
turn away what nobody has spoken for. Sending and receiving is the caller's part.
"""

from __future__ import annotations

import hmac
import socket
import struct
from enum import IntEnum
from ipaddress import IPv4Address
from typing import NamedTuple

MAGIC = b"orlop\2"
TCP, UDP = 6, 17
TOLERANCE = 120.0  # seconds that the clocks of two hosts may differ
# Seconds that a notice may lie unread: its sender holds the connection for longer.
MAX_UNREAD = 0.25
# Seconds after the last notice of a socket for which its port must not become another's.
HEARD, KEPT = MAX_UNREAD + 0.05, 1.6
_SIGNATURE = 16
_SO_COOKIE = 57
# Kind, protocol, time, real source, whom it is said to be, the pod and port it speaks to, the real
# port of that, the cookie of the source's socket, and what is more to say.
_BODY = struct.Struct("!6sBBd4sH4sH4sHHQQ")
LENGTH = _BODY.size + _SIGNATURE

Place = tuple[str, int]


class Kind(IntEnum):
    NOTICE, ACK, ASK, CONFIRM, DENY = range(1, 6)


class Said(NamedTuple):
    """What comes from the socket at `real` to the port `to`, really `port`, is `peer`."""

    real: Place
    peer: Place
    to: Place
    port: int
    cookie: int
    protocol: int = TCP
    kind: Kind = Kind.NOTICE
    more: int = 0  # of UDP: the source is kept open; of TCP: the other end's cookie, where known
    when: float = 0.0

    def is_about(self, other: Said) -> bool:
        """Return whether one datagram answers the other."""
        return self._replace(kind=other.kind, more=other.more) == other


def write(key: bytes, said: Said, port: int) -> bytes:
    """Make the datagram that says it to whoever hears at a port, and is good just there."""
    places = (said.real, said.peer, said.to)
    ends = [part for ip, port in places for part in (IPv4Address(ip).packed, port)]
    more = (said.port, said.cookie, said.more)
    body = _BODY.pack(MAGIC, said.kind, said.protocol, said.when, *ends, *more)
    return body + _signature(key, body, port)


def _signature(key: bytes, body: bytes, port: int) -> bytes:
    return hmac.digest(key, body + port.to_bytes(2, "big"), "sha256")[:_SIGNATURE]


def read(key: bytes, raw: bytes, now: float, port: int) -> Said | None:
    """Read what somebody of the cluster says just now to our port; None for all others."""
    body, signature = raw[:-_SIGNATURE], raw[-_SIGNATURE:]
    if len(raw) != LENGTH or not raw.startswith(MAGIC):
        return None
    if not hmac.compare_digest(signature, _signature(key, body, port)):
        return None
    _, kind, protocol, when, *ends, port, cookie, more = _BODY.unpack(body)
    if not abs(now - when) <= TOLERANCE or kind not in set(Kind):
        return None
    real, peer, to = ((str(IPv4Address(ends[i])), int(ends[i + 1])) for i in (0, 2, 4))
    return Said(real, peer, to, port, cookie, protocol, Kind(kind), more, when)


def cookie_of(sock: socket.socket) -> int:
    """Return the number that the kernel gave to this socket, and gives once."""
    return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8), "little")
