"""Makes what lists the interfaces of the node show the pod's: lo, and one with the pod's address.

Answers the requests of ioctl for that, and rewrites what the kernel says of addresses over netlink.
The interface is the node's own, under its own name, so that all else that is asked about it holds.
What a program reads in /proc or /sys is the node's.
"""

from __future__ import annotations

import ctypes
import fcntl
import struct
from errno import EADDRNOTAVAIL

from .pod_addressing import PodAddressing
from .seccomp.caller_process import Target
from .seccomp.notify import Call
from .sockets.sockaddr import AF_INET, LOOPBACK4

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Optional
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

CONF, ADDRESS, BROADCAST, MASK = 0x8912, 0x8915, 0x8919, 0x891B
ENTRY = 40  # struct ifreq
RTM_NEWADDR, HOST_SCOPE = 20, 254
_HEADER = struct.Struct("<IHHII")


class Interfaces:
    def __init__(self, addressing: PodAddressing) -> None:
        self._addressing = addressing
        self._mask = addressing.pods.mask
        self._bits = bin(self._mask).count("1")
        self._name: Optional[bytes] = None

    @property
    def name(self) -> bytes:
        """Return the name of the interface that has the node's address."""
        if self._name is None:
            self._name = interface_of(self._addressing.node)
        return self._name

    def ioctl(self, call: Call, target: Target) -> Optional[int]:
        request, at = call.args[1] & 0xFFFFFFFF, call.args[2]
        if request == CONF:
            return self._list(call, target, at)
        name = target.read(call, at, 16).split(b"\0")[0]
        if name == b"lo":
            return None
        if name != self.name:
            return -EADDRNOTAVAIL
        pod = int.from_bytes(self._addressing.pod, "big")
        found = {ADDRESS: pod, BROADCAST: pod | ~self._mask & 0xFFFFFFFF, MASK: self._mask}
        target.write(call, at + 16, _sockaddr(found[request].to_bytes(4, "big")))
        return 0

    def _list(self, call: Call, target: Target, at: int) -> int:
        room, _, buffer = struct.unpack("<iiQ", target.read(call, at, 16))
        pairs = ((b"lo", LOOPBACK4), (self.name, self._addressing.pod))
        entries = [struct.pack("16s16s8x", name, _sockaddr(ip)) for name, ip in pairs]
        if buffer:
            entries = entries[: max(0, room) // ENTRY]
            if entries:
                target.write(call, buffer, b"".join(entries))
        target.write(call, at, struct.pack("<i", ENTRY * len(entries)))
        return 0

    def rewritten(self, data: bytes) -> bytes:
        """Rewrite a dump of netlink, with the pod's address in place of the node's."""
        found, at = [], 0
        while at + _HEADER.size <= len(data):
            length, kind, _, _, _ = _HEADER.unpack_from(data, at)
            size = max(_HEADER.size, length + 3 & ~3)
            message = data[at : at + size]
            at += size
            if kind == RTM_NEWADDR and len(message) >= _HEADER.size + 8:
                message = self._address(message)
            found.append(message)
        return b"".join(found)

    def _address(self, message: bytes) -> bytes:
        """Rewrite one address; empty for one that is not the pod's business."""
        family, _, _, scope = message[16:20]
        if scope == HOST_SCOPE:
            return message
        if family != AF_INET or self._addressing.node not in message:
            return b""
        changed = bytearray(message.replace(self._addressing.node, self._addressing.pod))
        changed[17] = self._bits
        return bytes(changed)


def _sockaddr(ip: bytes) -> bytes:
    return struct.pack("<HH4s8x", AF_INET, 0, ip)


def interface_of(ip: bytes) -> bytes:
    buffer = ctypes.create_string_buffer(64 * ENTRY)
    request = struct.pack("<iiQ", len(buffer), 0, ctypes.addressof(buffer))
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    length = struct.unpack("<i", fcntl.ioctl(asking, CONF, request)[:4])[0]
    asking.close()
    for at in range(0, length, ENTRY):
        entry = buffer.raw[at : at + ENTRY]
        if entry[20:24] == ip:
            return entry[:16].split(b"\0")[0]
    return b"eth0"
