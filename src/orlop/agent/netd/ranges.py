"""Ranges of addresses, fast to ask and light to import.

Used by the endpoint cache and by policies for every connection. `ipaddress` would take longer to
import than the network process takes to start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket


def packed(ip: str) -> bytes:
    """Return the 4 or 16 bytes of an address; none for anything else."""
    try:
        if ":" in ip:
            return socket.inet_pton(socket.AF_INET6, ip)
        return socket.inet_pton(socket.AF_INET, ip)
    except (OSError, ValueError):  # a zero byte is no OSError
        return b""


class Range:
    """A range `address/length`; an address of another family is in none."""

    __slots__ = ("_base", "_mask", "_size", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        base, _, length = text.partition("/")
        found = packed(base)
        self._size, bits = len(found), 8 * len(found)
        self._mask = ((1 << bits) - 1) ^ ((1 << max(0, bits - int(length or bits))) - 1)
        self._base = int.from_bytes(found, "big") & self._mask

    def __contains__(self, ip: object) -> bool:
        found = packed(str(ip))
        is_alike = bool(found) and len(found) == self._size
        return is_alike and int.from_bytes(found, "big") & self._mask == self._base
