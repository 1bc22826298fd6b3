"""Starts the pod's name server when the cluster's is first spoken to, and admits none but the pod.

Asked by `routes`, as a service that netd itself answers.
"""

from __future__ import annotations

import threading

from ..endpoint_cache import EndpointCache
from ..identity.names import Identities
from ..identity.notices import PROTOCOLS
from ..identity.sock_diag import Owners
from ..pod_addressing import PodAddressing
from ..sockets import sockaddr
from ..sockets.sockaddr import AF_INET, Address
from ..udp.flows import Flows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from ..routes import OwnServices

PORT = 53


class PodDns:
    def __init__(
        self,
        network: dict[str, Any],
        addressing: PodAddressing,
        endpoints: EndpointCache,
        owners: Owners,
        flows: Flows,
        identities: Identities,
    ) -> None:
        """Take `network` as the plan has it."""
        self._network, self._addressing, self._endpoints = network, addressing, endpoints
        self._owners, self._flows, self._identities = owners, flows, identities
        self._lock = threading.Lock()
        self._served: Optional[Address] = None
        nameserver = (network.get("dns") or {}).get("nameserver")
        self._nameserver = sockaddr.number(nameserver or "0.0.0.0")
        protocols = ("tcp", "udp") if nameserver else ()
        self.services: OwnServices = {
            (protocol, self._nameserver, PORT): self._serve for protocol in protocols
        }

    def _serve(self) -> Address:
        """Return where the cluster's name server is for this pod; start it when first asked."""
        with self._lock:
            if self._served is None:
                from .server import DnsServer

                server = DnsServer(self._endpoints, self._network, self._admits)
                loopback = self._addressing.loopback
                port = server.serve(sockaddr.text(loopback))
                self._served = Address(AF_INET, loopback, port)
        return self._served

    def _admits(self, protocol: str, client: tuple[str, int], own: tuple[str, int]) -> bool:
        """Return whether this pod has sent the socket here, and not another program of the node."""
        peer, here = (Address(AF_INET, sockaddr.number(end[0]), end[1]) for end in (client, own))
        owners = self._owners
        if not (owners.can_tell_udp if protocol == "udp" else owners.can_tell):
            return True  # where the kernel cannot be asked, nobody can be told from our own
        cookie = owners.look(PROTOCOLS[protocol], peer, here).cookie
        return bool(cookie) and self._was_asked_for(cookie, here)

    def _was_asked_for(self, cookie: int, real: Address) -> bool:
        """Return whether a socket of this pod's asked for the name server, which is really here."""
        flow = self._flows.find(cookie)
        if flow is not None:
            found = flow.virtual.get((real.ip, real.port))
            if found is not None and found.ip == self._nameserver:
                return True
        peer = self._identities.peer(cookie, real)
        return peer is not None and peer.ip == self._nameserver
