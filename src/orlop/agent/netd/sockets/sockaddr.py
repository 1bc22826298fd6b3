"""Socket addresses as the kernel writes them, and as we speak of them: family, address, port.

Used by everything that answers a call. An IPv4 address is its 4 bytes, also when an IPv6 socket
has it mapped; an IPv6 address is its 16. Pure.
"""

from __future__ import annotations

import struct

from ...linux.fast_imports import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Optional
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

AF_UNIX, AF_INET, AF_INET6 = int(socket.AF_UNIX), int(socket.AF_INET), int(socket.AF_INET6)
MAX = 128  # of struct sockaddr_storage

ANY4, ANY6 = bytes(4), bytes(16)
LOOPBACK4, LOOPBACK6 = b"\x7f\0\0\1", bytes(15) + b"\1"
_MAPPED = bytes(10) + b"\xff\xff"
_V4 = struct.Struct("<HBB4s8x")
_V6 = struct.Struct("<HBBI16sI")


class Address:
    """Where a socket is, or wants to be: family, address and port."""

    __slots__ = ("family", "ip", "port", "scope")

    def __init__(self, family: int, ip: bytes, port: int, scope: int = 0) -> None:
        self.family, self.ip, self.port = family, ip, port
        self.scope = scope  # the interface that an address of IPv6 holds on, where it is link-local

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.pack() == other.pack()

    def __hash__(self) -> int:
        return hash((self.ip, self.port))

    def __repr__(self) -> str:
        return f"{text(self.ip)}:{self.port}"

    @property
    def is_any(self) -> bool:
        return self.ip in (ANY4, ANY6)

    @property
    def is_loopback(self) -> bool:
        return self.ip == LOOPBACK6 or (len(self.ip) == 4 and self.ip[0] == 127)

    @property
    def is_for_many(self) -> bool:
        """Return whether it is a group's address, or everybody's."""
        return self.ip[0] >= 224 if len(self.ip) == 4 else self.ip[0] == 0xFF

    def pack(self) -> bytes:
        """Encode it as a system call takes it."""
        high, low, ip = self.port >> 8, self.port & 255, self.ip
        if self.family == AF_INET:
            return _V4.pack(AF_INET, high, low, ip)
        if len(ip) == 4:
            ip = ANY6 if ip == ANY4 else _MAPPED + ip
        return _V6.pack(AF_INET6, high, low, 0, ip, self.scope)


def parse(raw: bytes) -> Optional[Address]:
    """Read an address; None for families that are none of ours, and for what is too short."""
    if len(raw) < 16:
        return None
    family, port = raw[0] | raw[1] << 8, raw[2] << 8 | raw[3]
    if family == AF_INET:
        return Address(family, raw[4:8], port)
    if family == AF_INET6 and len(raw) >= 24:
        ip, scope = raw[8:24], int.from_bytes(raw[24:28], "little")
        return Address(family, ip[12:] if ip.startswith(_MAPPED) else ip, port, scope)
    return None


def text(ip: bytes) -> str:
    return socket.inet_ntop(AF_INET if len(ip) == 4 else AF_INET6, ip)


def number(words: str) -> bytes:
    """Return the bytes of an address in words; raise OSError."""
    return socket.inet_pton(AF_INET6 if ":" in words else AF_INET, words)


@value
class Range:
    """Addresses by a prefix: 10.244.0.0/16."""

    first: int
    mask: int

    def __contains__(self, ip: bytes) -> bool:
        return len(ip) == 4 and int.from_bytes(ip, "big") & self.mask == self.first


def parse_range(words: str) -> Range:
    base, _, bits = words.partition("/")
    mask = 0xFFFFFFFF << 32 - int(bits) & 0xFFFFFFFF
    return Range(int.from_bytes(number(base), "big") & mask, mask)
