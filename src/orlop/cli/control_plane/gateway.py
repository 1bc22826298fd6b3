"""Makes what is reached from outside: by kubectl, and as far as the settings open it.

Called after the kubelet is made, over whose part of the network pods are reached. Nothing listens
yet.
"""

from __future__ import annotations

from ...client.informer import Informers
from ...gateway.backends import Backends
from ...gateway.ingress import HostPorts, IngressRouter
from ...gateway.ingress_pod import IngressPod
from ...gateway.service_ports import ServicePorts
from ...kubelet.network.wiring import NetworkParts
from ...kubelet.planning.network import network_key
from .base import Base, Server, client_of
from .own_address import host_of, ipv4_of


def make_gateway(
    base: Base, server: Server, informers: Informers, pods: NetworkParts
) -> list[ServicePorts | IngressRouter | IngressPod]:
    """Return the parts; `pods` is how pods are reached from here."""
    settings, network, address = base.settings, base.settings.network, host_of(base.settings)
    backends = Backends(
        informers,
        pods.dialer.connect,
        dial_datagrams=pods.dialer.datagrams,
        destinations=base.destinations,
    )
    ports = ServicePorts(
        client_of(server, "system:service-ports"),
        informers,
        backends,
        is_offered=network.node_ports,
        listen=settings.listen,
        address=address,
    )
    router = IngressRouter(
        client_of(server, "system:ingress"),
        informers,
        backends,
        at=HostPorts(settings.listen, (network.ingress_port, network.ingress_tls_port), address),
        tls=base.pki.server_context(base.pki.apiserver),
        key=network_key(base.pki.token_key),
    )
    pod = IngressPod(
        client_of(server, "system:ingress"),
        informers,
        router,
        pods.mirrors,
        address=ipv4_of(settings),
    )
    return [ports, router, pod]
