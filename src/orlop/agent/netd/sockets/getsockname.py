"""Answers getsockname and getpeername with the names that the pod's programs know.

Sockets that are none of ours, and names that need no change, are left to the kernel.
"""

from __future__ import annotations

import os

from ..identity.names import Identities
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from . import socket_calls
from .abstract_unix import Abstract
from .sockaddr import AF_UNIX, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional


class Naming:
    def __init__(self, identities: Identities, abstract: Abstract) -> None:
        self._identities, self._abstract = identities, abstract

    def own(self, call: Call, target: Target) -> Optional[int]:
        """Answer getsockname."""
        fd = target.grab(call, call.args[0])
        try:
            raw = socket_calls.own_name(fd)
            real = parse(raw)
            if real is None:
                return self._unix(call, target, raw)
            if not real.port and not any(real.ip):
                return None
            protocol = socket_calls.protocol(fd)
            if not protocol:
                return None
            shown = self._identities.own(protocol, fd, real)
            target.write_address(call, call.args[1], call.args[2], shown.pack())
            return 0
        finally:
            os.close(fd)

    def peer(self, call: Call, target: Target) -> Optional[int]:
        """Answer getpeername."""
        fd = target.grab(call, call.args[0])
        try:
            raw = socket_calls.peer_name(fd)
            real = parse(raw)
            if real is None:
                return self._unix(call, target, raw)
            peer = self._identities.peer(socket_calls.cookie(fd), real)
            if peer is None:
                return None
            target.write_address(call, call.args[1], call.args[2], peer.pack())
            return 0
        finally:
            os.close(fd)

    def _unix(self, call: Call, target: Target, raw: bytes) -> Optional[int]:
        name = self._abstract.shown(raw) if raw[:2] == AF_UNIX.to_bytes(2, "little") else None
        if name is None:
            return None
        target.write_address(call, call.args[1], call.args[2], name)
        return 0
