"""Knows the addresses of the pod that netd serves, and which others are whose.

Made once from the plan, and read by everything that answers a call. The pod's private loopback is
127.x.y.z for the pod 10.x.y.z: every user may bind it, and who connects from there is told by it
without any table.
"""

from __future__ import annotations

from .sockets import sockaddr
from .sockets.sockaddr import AF_INET, ANY4, Address, Range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class PodAddressing:
    is_node = False  # whether the pod is on its node's network
    has_address = True  # whether the cluster knows it by an address of its own

    def __init__(self, network: dict[str, Any], node: str) -> None:
        """Take `network` as the plan has it; `node` is the node's address."""
        self.pod = sockaddr.number(network["podIP"])
        self.node = sockaddr.number(node)
        self.loopback = loopback_of(self.pod)
        self.pods: Range = sockaddr.parse_range(network["podCIDR"])
        self.services: Range = sockaddr.parse_range(network["serviceCIDR"])
        self.key = bytes.fromhex(network["key"])
        self.allows_outside = bool((network.get("host") or {}).get("allowOutside"))
        # Where anybody may connect, notices need not get through, and are not waited for.
        self.is_reached_from_outside = self.allows_outside
        # Ports of the pod that are at ports of the node, and where these are open to everybody.
        self.host_ports: dict[tuple[str, int], Address] = {}
        self._open: dict[tuple[str, int], bytes] = {}
        for one in network.get("hostPorts") or ():
            ip = ANY4 if one["hostIP"] in ("", "::") else sockaddr.number(one["hostIP"])
            # A connection tells which address it came to, and is closed where that is not open; a
            # datagram's socket has to be there alone.
            is_there = one["protocol"] == "udp" and ip == self.node
            place = Address(AF_INET, ip if is_there else ANY4, one["hostPort"])
            self.host_ports[(one["protocol"], one["port"])] = place
            self._open[(one["protocol"], one["hostPort"])] = ip

    def is_open(self, protocol: str, own: Address) -> bool:
        """Return whether anybody may come to our real address: a hostPort, where it is
        asked for.
        """
        if self.allows_outside:
            return True
        ip = self._open.get((protocol, own.port))
        return ip is not None and ip in (ANY4, own.ip)

    def pod_of(self, loopback: bytes) -> bytes:
        """Return the pod whose private loopback it is; empty if it is none's."""
        found = self.pod[:1] + loopback[1:]
        return found if len(loopback) == 4 and loopback[0] == 127 and found in self.pods else b""

    def is_virtual(self, ip: bytes) -> bool:
        """Return whether an address has a meaning in the cluster and none outside."""
        return ip in self.pods or ip in self.services

    def is_own(self, address: Address) -> bool:
        """Return whether it means the pod itself: its loopback, its address, or any."""
        return address.is_loopback or address.is_any or address.ip == self.pod

    def shown(self, address: Address) -> Address:
        """Return a real address of our own as the pod's programs should see it."""
        if address.ip in (self.node, self.loopback):
            return Address(address.family, self.pod, address.port)
        return address


class NodeAddressing(PodAddressing):
    """The addressing of a pod on its node's network that knows the cluster's names and services.

    What it binds, and all it is known by, is the node's; nothing means the pod alone. Ranks of a
    pod with an address of its own are known to the cluster by that.
    """

    is_node = True

    def __init__(self, network: dict[str, Any], node: str) -> None:
        super().__init__({**network, "podIP": network["podIP"] or node}, node)
        self.allows_outside = True
        self.has_address = bool(network["podIP"])

    def pod_of(self, loopback: bytes) -> bytes:
        return b""

    def is_own(self, address: Address) -> bool:
        return False

    def shown(self, address: Address) -> Address:
        return address


def loopback_of(pod: bytes) -> bytes:
    return b"\x7f" + pod[1:] if len(pod) == 4 else ANY4
