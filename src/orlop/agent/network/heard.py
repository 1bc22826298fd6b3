"""Who speaks UDP to the pod, in memory that outlives the netd that heard of it.

Written and read by notices (and by quick/notices.c, in the same layout). A program that has
connected a UDP socket announces itself no more, since its sends are not asked about; so what one
netd was told the next must know. Of two with the same place in the table the later one stays.
"""

from __future__ import annotations

import struct

from .sockaddr import AF_INET, Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from typing import Optional, Union

# The real address and port, the pod's port, the peer that it is.
_ENTRY = struct.Struct("<4sHH4sH2x")
ENTRIES = 1 << 12
SIZE = ENTRIES * _ENTRY.size


class Heard:
    def __init__(self, memory: Union[mmap.mmap, bytearray], start: int) -> None:
        self._memory, self._start = memory, start

    def _place(self, real: Address) -> int:
        number = int.from_bytes(real.ip, "little") * 31 + real.port
        return self._start + number % ENTRIES * _ENTRY.size

    def put(self, real: Address, port: int, peer: Address) -> None:
        words = (real.ip, real.port, port, peer.ip, peer.port)
        _ENTRY.pack_into(self._memory, self._place(real), *words)

    def find(self, real: Address, port: int) -> Optional[Address]:
        """Who speaks to our port from a real address."""
        if len(real.ip) != 4:
            return None
        found = _ENTRY.unpack_from(self._memory, self._place(real))
        if found[:3] != (real.ip, real.port, port):
            return None
        return Address(AF_INET, found[3], found[4])
