"""Keeps abstract unix sockets private to the pod: their names carry the pod's address.

Such names belong to the network namespace, which all pods of a node share; so they get the pod's
address before them on the way to the kernel and lose it on the way back. Sockets with a path are
left to the kernel. The kernel itself gives names of five digits, each only once: what looks like
one is the pod's own first, and else that of whoever wrote to it and shall be answered.
"""

from __future__ import annotations

import os
import struct
from errno import EBADF, ECONNREFUSED, EINVAL

from ..pod_addressing import PodAddressing
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from ..tcp.nonblocking_journal import NonblockingJournal
from ..tcp.pending_calls import Pending
from . import socket_calls
from .msghdr import MAX_DATA, Message, unpack_control
from .socket_calls import LATER, MSG_DONTWAIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Optional

    from ..tcp.pending_calls import Step, Wait
    from .msghdr import Control
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

_SCM_RIGHTS, _SCM_CREDENTIALS = 1, 2
_TRY_AGAIN: Wait = (0, 0.002)  # a receiver whose queue is full: no descriptor of ours tells
_HEAD = b"\1\0\0"  # family, and the byte that says: no path
_DIGITS = b"0123456789abcdef"
MAX_NAME = 107


class AbstractUnixSockets:
    def __init__(
        self, addressing: PodAddressing, pending: Pending, journal: NonblockingJournal
    ) -> None:
        self._addressing, self._pending, self._journal = addressing, pending, journal
        self._tag = b"@" + addressing.pod.hex().encode() + b"/"

    def real(self, raw: bytes) -> Optional[bytes]:
        """Return the name to use instead; None where it is no abstract one, or the node's own."""
        if self._addressing.is_node or len(raw) <= len(_HEAD) or not raw.startswith(_HEAD):
            return None
        name = raw[len(_HEAD) :]
        if name.startswith(self._tag):
            return None  # as the kernel told it, of one who wrote to the caller
        if len(name) > MAX_NAME - len(self._tag):
            import hashlib  # such names are rare, and it is slow to import

            name = hashlib.sha256(name).hexdigest().encode()
        return _HEAD + self._tag + name

    def shown(self, raw: bytes) -> Optional[bytes]:
        head = _HEAD + self._tag
        return _HEAD + raw[len(head) :] if raw.startswith(head) else None

    def _may_be_the_kernels(self, real: bytes) -> bool:
        name = real[len(_HEAD) + len(self._tag) :]
        return len(name) == 5 and not name.strip(_DIGITS)

    def bind(self, call: Call, target: Target, raw: bytes) -> Optional[int]:
        real = self.real(raw)
        if real is None:
            return None
        fd = target.grab(call, call.args[0])
        try:
            socket_calls.bind(fd, real)
            return 0
        finally:
            os.close(fd)

    def connect(self, call: Call, target: Target, raw: bytes) -> Optional[int]:
        real = self.real(raw)
        if real is None:
            return None
        fd = target.grab(call, call.args[0])
        try:
            code = self._journal.connect(call, fd, real, socket_calls.is_blocking(fd))
            if code == ECONNREFUSED and self._may_be_the_kernels(real):
                return None
            return -code
        finally:
            os.close(fd)

    def send(self, call: Call, target: Target, fd: int, raw: bytes) -> Optional[int]:
        """Answer sendto on a socket of the caller's; None: the kernel may."""
        real = self.real(raw)
        if real is None or call.args[2] > MAX_DATA:
            return None
        data = target.read(call, call.args[1], call.args[2])
        return self._send(call, fd, real, data, [], call.args[3])

    def send_message(
        self, call: Call, target: Target, fd: int, raw: bytes, message: Message, flags: int
    ) -> Optional[int]:
        """Answer sendmsg; descriptors go with it, but credentials are the kernel's to say."""
        real = self.real(raw)
        if real is None:
            return None
        control: list[Control] = []
        copies: list[int] = []
        try:
            for level, kind, data in unpack_control(message.control(), self._addressing):
                if (level, kind) == (socket_calls.SOL_SOCKET, _SCM_RIGHTS):
                    first = len(copies)
                    for number in _numbers(data):
                        copies.append(target.grab(call, number))  # noqa: PERF401 (it may raise)
                    data = struct.pack(f"<{len(copies) - first}i", *copies[first:])
                if (level, kind) != (socket_calls.SOL_SOCKET, _SCM_CREDENTIALS):
                    control.append((level, kind, data))
            return self._send(call, fd, real, message.data(), control, flags)
        finally:
            for copy in copies:
                os.close(copy)

    def _send(
        self, call: Call, fd: int, real: bytes, data: bytes, control: list[Control], flags: int
    ) -> Optional[int]:
        flags &= 0xFFFFFFFF
        own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM, 0, fileno=os.dup(fd))
        try:
            return own.sendmsg([data], control, flags | MSG_DONTWAIT, real[2:])
        except ConnectionRefusedError:
            if self._may_be_the_kernels(real):
                return None
            raise
        except BlockingIOError:
            if flags & MSG_DONTWAIT or control or not socket_calls.is_blocking(fd):
                raise
            copy = own.detach()
            self._pending.add(call, copy, _TRY_AGAIN, _sending(call, copy, real, data, flags))
            return LATER
        finally:
            own.close()


def _numbers(data: bytes) -> tuple[int, ...]:
    """Return the descriptors that a control message passes on."""
    if len(data) % 4:
        raise OSError(EINVAL, "no whole number of descriptors")
    return struct.unpack(f"<{len(data) // 4}i", data)


def _sending(call: Call, fd: int, real: bytes, data: bytes, flags: int) -> Step:
    """Return one send as a step, whose caller waits for room at the receiver."""

    def step(target: Target, is_ready: bool) -> Optional[Wait]:
        try:
            call.answer(socket_calls.send(fd, data, flags | MSG_DONTWAIT, real))
        except BlockingIOError:
            return _TRY_AGAIN
        except OSError as error:
            call.answer(-(error.errno or EBADF))
        return None

    return step
