"""How the control plane says who connects to a pod: one signed datagram to the pod's agent.

Used by the kubelet's dialer, and the other way round by what pods reach in the control plane. The
same bytes as agents send each other (agent/network/notices), which turn away what nobody has
spoken for. Pure.
"""

from __future__ import annotations

import hmac
import struct
from ipaddress import IPv4Address
from typing import NamedTuple

MAGIC = b"orlop\1"
TCP, UDP = 6, 17
TOLERANCE = 120.0  # seconds that the clocks of two hosts may differ
_SIGNATURE = 16
# Protocol, time, real source, whom it is said to be, the pod and port it speaks to.
_BODY = struct.Struct("!6sBd4sH4sH4sH")
LENGTH = _BODY.size + _SIGNATURE

Place = tuple[str, int]


class Said(NamedTuple):
    """A notice: what comes from `real` to the port `to` is `peer`."""

    protocol: int
    real: Place
    peer: Place
    to: Place


def notice(
    key: bytes, now: float, real: Place, peer: Place, to: Place, protocol: int = TCP
) -> bytes:
    """What comes from `real` to the pod's port `to` is `peer`."""
    ends = [part for ip, port in (real, peer, to) for part in (IPv4Address(ip).packed, port)]
    body = _BODY.pack(MAGIC, protocol, now, *ends)
    return body + hmac.digest(key, body, "sha256")[:_SIGNATURE]


def read_notice(key: bytes, raw: bytes, now: float) -> Said | None:
    """What somebody of the cluster says, just now; None for all others."""
    body, signature = raw[:-_SIGNATURE], raw[-_SIGNATURE:]
    expected = hmac.digest(key, body, "sha256")[:_SIGNATURE]
    if len(raw) != LENGTH or not hmac.compare_digest(signature, expected):
        return None
    magic, protocol, when, *ends = _BODY.unpack(body)
    if magic != MAGIC or abs(now - when) > TOLERANCE:
        return None
    real, peer, to = ((str(IPv4Address(ends[i])), int(ends[i + 1])) for i in (0, 2, 4))
    return Said(protocol, real, peer, to)
