"""Remembers with whom each of a pod's UDP sockets speaks, and under which names.

Kept by cookie; filled when a datagram is sent and read when one arrives. The oldest are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict

from ..sockets.sockaddr import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from ..routes import Place

MAX_FLOWS, MAX_PEERS = 4096, 4096


class Flow:
    """What is known of one socket."""

    __slots__ = ("announced", "back", "outside", "places", "virtual")

    def __init__(self) -> None:
        self.virtual: OrderedDict[tuple[bytes, int], Address] = OrderedDict()
        self.places: OrderedDict[tuple[bytes, int], Place] = OrderedDict()
        self.outside: OrderedDict[tuple[bytes, int], bool] = OrderedDict()
        self.back: OrderedDict[tuple[bytes, int], Address] = OrderedDict()
        self.announced: OrderedDict[tuple[bytes, int], float] = OrderedDict()

    def answers(self, virtual: Address, real: Address) -> None:
        """Remember one who wrote to us: it is written back to where it wrote from."""
        _put(self.back, (virtual.ip, virtual.port), real)

    def names(self, real: Address, virtual: Address, place: Optional[Place] = None) -> None:
        """Remember by which name the program wrote to a real address, while that is a pod's.

        What comes from there is, to the program, from that name.
        """
        _put(self.virtual, (real.ip, real.port), virtual)
        if place is not None and (place.pod is not None or place.own_port):
            _put(self.places, (real.ip, real.port), place)

    def goes_outside(self, to: Address) -> None:
        _put(self.outside, (to.ip, to.port), True)

    def awaits(self, real: Address) -> bool:
        """Return whether the program wrote there, or to so many that anybody may answer."""
        if (real.ip, real.port) in self.outside:
            return True
        return any(ip[0] >= 224 or ip[0] == 255 for ip, _ in self.outside if len(ip) == 4)

    def is_due(self, real: Address, now: float, every: float) -> bool:
        """Return whether it is time to announce ourselves there again."""
        key = (real.ip, real.port)
        if now - self.announced.get(key, -every) < every:
            return False
        _put(self.announced, key, now)
        return True


def _put(table: OrderedDict, key: object, found: object) -> None:  # type: ignore[type-arg]
    table[key] = found
    if len(table) > MAX_PEERS:
        table.popitem(last=False)


class Flows:
    def __init__(self) -> None:
        self._flows: OrderedDict[int, Flow] = OrderedDict()

    def find(self, cookie: int) -> Optional[Flow]:
        return self._flows.get(cookie)

    def of(self, cookie: int) -> Flow:
        found = self._flows.get(cookie)
        if found is None:
            found = self._flows[cookie] = Flow()
            if len(self._flows) > MAX_FLOWS:
                self._flows.popitem(last=False)
        return found
