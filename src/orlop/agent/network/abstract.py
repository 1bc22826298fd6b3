"""Abstract unix sockets, private to the pod: their names carry its own.

Such names belong to the network namespace, which all pods of a node share; so they get the pod's
address before them on the way to the kernel and lose it on the way back. Sockets with a path are
left alone.
"""

from __future__ import annotations

import os

from . import sockets
from .notify import Call
from .target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

_HEAD = b"\1\0\0"  # family, and the byte that says: no path
MAX_NAME = 107


class Abstract:
    def __init__(self, pod: bytes) -> None:
        self._tag = b"@" + pod.hex().encode() + b"/"

    def real(self, raw: bytes) -> Optional[bytes]:
        """The name to use instead; None where it is no abstract one."""
        if len(raw) <= len(_HEAD) or not raw.startswith(_HEAD):
            return None
        name = raw[len(_HEAD) :]
        if len(name) > MAX_NAME - len(self._tag):
            import hashlib  # such names are rare, and it is slow to import

            name = hashlib.sha256(name).hexdigest().encode()
        return _HEAD + self._tag + name

    def shown(self, raw: bytes) -> Optional[bytes]:
        head = _HEAD + self._tag
        return _HEAD + raw[len(head) :] if raw.startswith(head) else None

    def bind(self, call: Call, target: Target, raw: bytes) -> Optional[int]:
        real = self.real(raw)
        if real is None:
            return None
        fd = target.grab(call, call.args[0])
        try:
            sockets.bind(fd, real)
            return 0
        finally:
            os.close(fd)

    def connect(self, call: Call, target: Target, raw: bytes) -> Optional[int]:
        real = self.real(raw)
        if real is None:
            return None
        fd = target.grab(call, call.args[0])
        try:
            return -sockets.connect_without_waiting(fd, real, sockets.is_blocking(fd))
        finally:
            os.close(fd)
