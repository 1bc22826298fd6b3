"""Ranges of addresses, quick to ask and light to import.

Used by the directory and by policies for every connection. `ipaddress` would take longer to import
than the network process takes to start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket


def number(ip: str) -> int:
    """An IPv4 address as a number; -1 for anything else."""
    try:
        return int.from_bytes(socket.inet_aton(ip), "big") if ip.count(".") == 3 else -1
    except OSError:
        return -1


class Range:
    """`a.b.c.d/n`; an address of another family is in none."""

    __slots__ = ("_base", "_mask", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        base, _, length = text.partition("/")
        self._mask = (0xFFFFFFFF << (32 - int(length or 32))) & 0xFFFFFFFF if "." in base else -1
        self._base = number(base) & self._mask if "." in base else -2

    def __contains__(self, ip: object) -> bool:
        value = number(str(ip))
        return value >= 0 and (value & self._mask) == self._base
