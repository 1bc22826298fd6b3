"""How the control plane says who connects to a pod: one signed datagram to the pod's agent.

Used by the kubelet's dialer. The same bytes as agents send each other (agent/network/notices),
which turn away what nobody has spoken for. Pure.
"""

from __future__ import annotations

import hmac
import struct
from ipaddress import IPv4Address

MAGIC = b"orlop\1"
TCP, UDP = 6, 17
_SIGNATURE = 16
# Protocol, time, real source, whom it is said to be, the pod and port it speaks to.
_BODY = struct.Struct("!6sBd4sH4sH4sH")

Place = tuple[str, int]


def notice(
    key: bytes, now: float, real: Place, peer: Place, to: Place, protocol: int = TCP
) -> bytes:
    """What comes from `real` to the pod's port `to` is `peer`."""
    ends = [part for ip, port in (real, peer, to) for part in (IPv4Address(ip).packed, port)]
    body = _BODY.pack(MAGIC, protocol, now, *ends)
    return body + hmac.digest(key, body, "sha256")[:_SIGNATURE]
