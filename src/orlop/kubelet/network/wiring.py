"""Puts together the parts of a kubelet that concern the network of pods.

Called by the kubelet's wiring before anything that starts pods is made: their plans name addresses
and services. Nothing is answered yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...network.ranges import Ranges
from ..configuration import KubeletDependencies
from ..planning.network import network_key
from ..shared import Shared
from .dialer import Dialer
from .endpoint_updates import Network
from .mirror_ports import MirrorPorts


@dataclass(frozen=True, slots=True)
class NetworkParts:
    ranges: Ranges
    network: Network
    dialer: Dialer
    mirrors: MirrorPorts


def wire_network(
    given: KubeletDependencies, shared: Shared, ranges: Ranges, token_key: bytes
) -> NetworkParts:
    pods = shared.cache.pods
    network = Network(given.informers, pods, ranges)
    dialer = Dialer(pods, network.view, ranges, network_key(token_key))
    return NetworkParts(ranges, network, dialer, MirrorPorts(pods.addresses, network.view))
