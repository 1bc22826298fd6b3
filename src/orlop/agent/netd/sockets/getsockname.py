"""Answers getsockname and getpeername with the names that the pod's programs know.

Sockets that are none of ours, and names that need no change, are left to the kernel.
"""

from __future__ import annotations

import os

from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from . import socket_calls
from .sockaddr import AF_UNIX, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from ..pod_network import PodNetwork


def getsockname(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    fd = target.grab(call, call.args[0])
    try:
        raw = socket_calls.own_name(fd)
        real = parse(raw)
        if real is None:
            return _unix(network, call, target, raw)
        if not real.port and not any(real.ip):
            return None
        protocol = socket_calls.protocol(fd)
        if not protocol:
            return None
        shown = network.identities.own(protocol, fd, real)
        target.write_address(call, call.args[1], call.args[2], shown.pack())
        return 0
    finally:
        os.close(fd)


def getpeername(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    fd = target.grab(call, call.args[0])
    try:
        raw = socket_calls.peer_name(fd)
        real = parse(raw)
        if real is None:
            return _unix(network, call, target, raw)
        peer = network.identities.peer(socket_calls.cookie(fd), real)
        if peer is None:
            return None
        target.write_address(call, call.args[1], call.args[2], peer.pack())
        return 0
    finally:
        os.close(fd)


def _unix(network: PodNetwork, call: Call, target: Target, raw: bytes) -> Optional[int]:
    name = network.unix_sockets.shown(raw) if raw[:2] == AF_UNIX.to_bytes(2, "little") else None
    if name is None:
        return None
    target.write_address(call, call.args[1], call.args[2], name)
    return 0
