"""Reads, sends and fills in the struct msghdr of a caller.

Used by `udp/sendmsg.py`, `udp/recvmsg.py` and their likes. Lengths are the caller's word and
bounded here; control messages pass both ways, with addresses of this node's in them told as the
pod's.
"""

from __future__ import annotations

import struct
from errno import EMSGSIZE, EPERM

from ..pod_addressing import PodAddressing
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    Control = tuple[int, int, bytes]  # level, type, data

SIZE, SIZE_OF_MANY = 56, 64  # of msghdr, and of mmsghdr
MAX_MANY = 1024  # of these
MAX_PIECES, MAX_DATA, MAX_CONTROL = 1024, 1 << 17, 8192
MSG_TRUNC, MSG_CTRUNC = 0x20, 0x8
_HEAD = struct.Struct("<QIIQQQQiI")
_CONTROL = struct.Struct("<Qii")
_PKTINFO, _PKTINFO6 = (0, 8), (41, 50)  # level and type
# What may not go with what netd sends: routes of a datagram's own (IP_RETOPTS, IPV6_RTHDR).
_ROUTES = ((0, 7), (41, 5), (41, 6), (41, 57))


class Message:
    """One msghdr, by its address in the caller."""

    def __init__(self, call: Call, target: Target, at: int) -> None:
        self._call, self._target, self._at = call, target, at
        fields = _HEAD.unpack(target.read(call, at, _HEAD.size))
        self.name, self.name_length, _, pieces, count, self._control, self._room, _, _ = fields
        self.pieces = read_pieces(call, target, pieces, count)

    @property
    def room(self) -> int:
        return min(sum(length for _, length in self.pieces), MAX_DATA)

    def data(self) -> bytes:
        return join_pieces(self._call, self._target, self.pieces)

    def control(self) -> bytes:
        length = min(self._room, MAX_CONTROL)
        return self._target.read(self._call, self._control, length) if self._control else b""

    def fill(self, data: bytes, control: bytes, flags: int, name: bytes) -> int:
        """Put a received message where the caller wants it; return how much had room there."""
        write, call = self._target.write, self._call
        put = write_pieces(call, self._target, self.pieces, data)
        if put < len(data):
            flags |= MSG_TRUNC
        if len(control) > self._room:
            flags, control = flags | MSG_CTRUNC, b""
        if control:
            write(call, self._control, control)
        if self.name:
            write(call, self.name, name[: self.name_length])
            write(call, self._at + 8, struct.pack("<I", len(name)))
        write(call, self._at + 40, struct.pack("<Qi", len(control), flags))
        return put


def read_pieces(call: Call, target: Target, at: int, count: int) -> list[tuple[int, int]]:
    """Read where data is, from a caller's array of struct iovec: addresses and lengths."""
    if count > MAX_PIECES:
        raise OSError(EMSGSIZE, "too many pieces")
    raw = target.read(call, at, 16 * count) if count else b""
    words = struct.unpack(f"<{2 * count}Q", raw)
    return list(zip(words[::2], words[1::2]))  # noqa: B905 (Python 3.10)


def join_pieces(call: Call, target: Target, pieces: list[tuple[int, int]]) -> bytes:
    """Read the pieces as one datagram."""
    if sum(length for _, length in pieces) > MAX_DATA:
        raise OSError(EMSGSIZE, "longer than any datagram")
    return b"".join(target.read(call, at, length) for at, length in pieces if length)


def write_pieces(call: Call, target: Target, pieces: list[tuple[int, int]], data: bytes) -> int:
    """Put data where a caller wants it; return how much of it there was room for."""
    put = 0
    for at, length in pieces:
        part = data[put : put + length]
        if part:
            target.write(call, at, part)
        put += len(part)
    return put


def unpack_control(raw: bytes, addressing: PodAddressing) -> list[Control]:
    """Read a caller's control messages, with the pod's address in them made the node's."""
    found: list[Control] = []
    at = 0
    while at + _CONTROL.size <= len(raw):
        length, level, kind = _CONTROL.unpack_from(raw, at)
        if length < _CONTROL.size or at + length > len(raw):
            break
        if (level, kind) in _ROUTES:
            raise OSError(EPERM, "a route of its own")
        data = raw[at + _CONTROL.size : at + length]
        found.append((level, kind, _with(data, level, kind, addressing.pod, addressing.node)))
        at += length + (-length % 8)
    return found


def pack_control(found: list[Control], addressing: PodAddressing) -> bytes:
    """Write control messages as the kernel does, with the node's addresses made the pod's."""
    packed = b""
    for level, kind, data in found:
        for real in (addressing.node, addressing.loopback):
            data = _with(data, level, kind, real, addressing.pod)
        length = _CONTROL.size + len(data)
        packed += _CONTROL.pack(length, level, kind) + data + bytes(-length % 8)
    return packed


def _with(data: bytes, level: int, kind: int, old: bytes, new: bytes) -> bytes:
    """Exchange the address that a datagram came to, or shall leave from."""
    if (level, kind) == _PKTINFO and len(data) >= 12:
        ends = [new if end == old else end for end in (data[4:8], data[8:12])]
        return data[:4] + b"".join(ends)
    if (level, kind) == _PKTINFO6 and len(data) >= 16 and data[12:16] == old:
        return data[:12] + new + data[16:]
    return data
