"""Gives each pod its address: one each, unique among all pods that may still be running.

Owned by the kubelet, which reserves what plans and statuses say after a restart, before it gives
out any other. There is no file of its own: an address is in its pod's plan. An address given back
is the last to be given out again, so that nobody who still knows it reaches a stranger.
"""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv4Network, ip_address

from ..errors import Error

# The host's own loopback block, 127.0.0.x, where the pod's private loopback must not lie.
_LOOPBACK_BLOCK = 256


class NoAddress(Error):
    """Every address of the pod range is in use."""


class PodAddresses:
    """Addresses by pod uid; `start` is where to begin, somewhere by default."""

    def __init__(self, pods: IPv4Network, start: int | None = None) -> None:
        self._range = pods
        self._by_uid: dict[str, str] = {}
        self._owner: dict[str, str] = {}
        self._next = random.randrange(pods.num_addresses) if start is None else start

    def __len__(self) -> int:
        return len(self._by_uid)

    def of(self, uid: str) -> str:
        """Return the address of a pod; empty where it has none."""
        return self._by_uid.get(uid, "")

    def owner(self, address: str) -> str:
        """Return the uid of the pod that has it; empty where none does."""
        return self._owner.get(address, "")

    def reserve(self, uid: str, address: str) -> None:
        """Remember what an earlier control plane gave; an address of another range is let be."""
        if address and ip_address(address) in self._range and uid not in self._by_uid:
            self._by_uid[uid] = address
            self._owner.setdefault(address, uid)

    def allocate(self, uid: str) -> str:
        """Return the pod's address: the one it has, else the next that is free."""
        known = self._by_uid.get(uid)
        if known is not None:
            return known
        size = self._range.num_addresses
        for step in range(size):
            number = (self._next + step) % size
            candidate = self._range[number]
            if str(candidate) not in self._owner and self._is_usable(candidate):
                self._next = number + 1
                self._by_uid[uid], self._owner[str(candidate)] = str(candidate), uid
                return str(candidate)
        words = f"all {len(self._owner)} addresses of {self._range} are in use"
        raise NoAddress(f"{words}; set network.pod_range to a larger one in config.yaml")

    def release(self, uid: str) -> None:
        address = self._by_uid.pop(uid, None)
        if address is not None and self._owner.get(address) == uid:
            del self._owner[address]

    def _is_usable(self, address: IPv4Address) -> bool:
        edges = (self._range.network_address, self._range.broadcast_address)
        return address not in edges and int(address) % (1 << 24) >= _LOOPBACK_BLOCK
