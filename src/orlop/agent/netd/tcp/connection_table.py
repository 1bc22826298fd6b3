"""Keeps the names of connections in memory that outlives the netd that wrote it.

Made by the agent and inherited by every netd it forks; written at connect and accept, read for
getsockname and getpeername. A socket is known by its cookie, which the kernel gives once, so
nothing must be undone when it is closed; of two with the same place in the table the later one
stays.
"""

from __future__ import annotations

import struct

from .. import layout
from ..sockets.sockaddr import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from typing import Optional, Union

_ENTRY = layout.ENTRY.struct
_COOKIE = struct.Struct("<Q")
ENTRIES = layout.NAMES
SIZE = ENTRIES * _ENTRY.size
# Of `nonblocking_journal`, which the agent itself does not load.
JOURNAL_SIZE = layout.LENT * layout.LENT_ENTRY.size


class ConnectionTable:
    def __init__(self, memory: Union[mmap.mmap, bytearray]) -> None:
        self._memory = memory

    def put(self, cookie: int, peer: Address, own: Optional[Address] = None) -> None:
        """Remember whom a socket speaks with, and under which name of its own if that matters."""
        ends = [len(peer.ip), peer.port, peer.ip]
        ends += [len(own.ip), own.port, own.ip] if own is not None else [0, 0, b""]
        place = cookie % ENTRIES * _ENTRY.size
        # The compiled part reads beside us, and must not take one socket's names for another's.
        _ENTRY.pack_into(self._memory, place, 0, *ends)
        _COOKIE.pack_into(self._memory, place, cookie)

    def remove(self, cookie: int) -> None:
        place = cookie % ENTRIES * _ENTRY.size
        if _COOKIE.unpack_from(self._memory, place)[0] == cookie:
            _COOKIE.pack_into(self._memory, place, 0)

    def find(self, cookie: int, family: int) -> Optional[tuple[Address, Optional[Address]]]:
        """Return the peer and, maybe, the own name."""
        place = cookie % ENTRIES * _ENTRY.size
        found = _ENTRY.unpack_from(self._memory, place)
        if found[0] != cookie or _COOKIE.unpack_from(self._memory, place)[0] != cookie:
            return None
        peer = Address(family, found[3][: found[1]], found[2])
        own = Address(family, found[6][: found[4]], found[5]) if found[4] else None
        return peer, own
