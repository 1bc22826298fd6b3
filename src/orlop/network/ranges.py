"""The addresses of a cluster: where its pods and its services live, and the two that are fixed.

Made once from the settings and handed to the API server, which gives services their addresses, and
to the kubelet, which gives pods theirs. Pure; that the ranges are of use was checked when the
settings were read.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address

from ..settings import NetworkSettings


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges: `pods` and `services` do not overlap; `domain` is the root of all names."""

    pods: IPv4Network
    services: IPv4Network
    domain: str = "cluster.local"

    @classmethod
    def of(cls, settings: NetworkSettings) -> Ranges:
        pods, services = IPv4Network(settings.pod_range), IPv4Network(settings.service_range)
        return cls(pods, services, settings.domain)

    @property
    def api(self) -> str:
        """Return the address of `kubernetes.default`: the first, as upstream has it."""
        return str(self.services[1])

    @property
    def dns(self) -> str:
        """Return the address of `kube-dns`: the tenth, as kubeadm and all others have it."""
        return str(self.services[10])

    def is_pod(self, address: str) -> bool:
        return ip_address(address) in self.pods

    def is_service(self, address: str) -> bool:
        return ip_address(address) in self.services
