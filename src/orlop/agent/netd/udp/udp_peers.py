"""Keeps who speaks UDP to the pod, in memory that outlives the netd that heard of it.

Written and read by `identity/notices.py`. An entry says which socket of which pod a real address
is, for which time that is certain, and which netd can be asked about the time after. Times are
those of the kernel's clock by which datagrams are stamped. In a full set the entry that ends first
is replaced.
"""

from __future__ import annotations

import struct

from ..sockets.sockaddr import AF_INET, Address, number, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from typing import Optional, Union

# The real address and port, the pod's port, the peer that it is, its netd, its cookie, the times.
_ENTRY = struct.Struct("<4sHH4sHH4s4xQdd")
_EMPTY = bytes(_ENTRY.size)
SETS, WAYS = 1 << 10, 4
SIZE = SETS * WAYS * _ENTRY.size


class Speaker:
    """One socket that sends datagrams to a port of the pod."""

    __slots__ = ("cookie", "netd", "peer", "port", "since", "until")

    def __init__(
        self,
        peer: Address,
        port: int,
        netd: tuple[str, int],
        cookie: int,
        times: tuple[float, float],
    ) -> None:
        self.peer, self.port, self.netd, self.cookie = peer, port, netd, cookie
        # What arrives from `since` to `until` is its own; what comes later may be another's.
        self.since, self.until = times


class UdpPeers:
    def __init__(self, memory: Union[mmap.mmap, bytearray], start: int) -> None:
        self._memory, self._start = memory, start

    def _places(self, real: Address) -> list[int]:
        numbered = int.from_bytes(real.ip, "little") * 31 + real.port
        first = self._start + numbered % SETS * WAYS * _ENTRY.size
        return [first + way * _ENTRY.size for way in range(WAYS)]

    def _find(self, real: Address) -> Optional[int]:
        for place in self._places(real):
            if _ENTRY.unpack_from(self._memory, place)[:2] == (real.ip, real.port):
                return place
        return None

    def put(self, real: Address, speaker: Speaker) -> None:
        """Write a speaker down; of the same socket the first time is kept."""
        place = self._find(real)
        since = speaker.since
        if place is None:
            place = min(self._places(real), key=self._until)
        else:
            known = _ENTRY.unpack_from(self._memory, place)
            if (known[2], known[7]) == (speaker.port, speaker.cookie):
                since = known[8]
        peer, netd = speaker.peer, speaker.netd
        words = (real.ip, real.port, speaker.port, peer.ip, peer.port, netd[1], number(netd[0]))
        _ENTRY.pack_into(self._memory, place, *words, speaker.cookie, since, speaker.until)

    def _until(self, place: int) -> float:
        return float(_ENTRY.unpack_from(self._memory, place)[-1])

    def remove(self, real: Address) -> None:
        place = self._find(real)
        if place is not None:
            self._memory[place : place + _ENTRY.size] = _EMPTY

    def find(self, real: Address, port: int) -> Optional[Speaker]:
        """Tell who speaks to the port from a real address, as far as a netd has told us."""
        place = self._find(real) if len(real.ip) == 4 else None
        if place is None:
            return None
        _, _, to, ip, peer_port, netd_port, netd, cookie, since, until = _ENTRY.unpack_from(
            self._memory, place
        )
        if to != port:
            return None
        peer = Address(AF_INET, ip, peer_port)
        return Speaker(peer, port, (text(netd), netd_port), cookie, (since, until))
