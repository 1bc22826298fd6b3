"""Finds where a destination that a program names really is.

Asked by `tcp/connect.py` and `udp/destinations.py`. The pod's own ports are known here, others' by
the endpoint cache; a service is a list of places to try in turn. What is none of the cluster's is
left to the kernel.
"""

from __future__ import annotations

from errno import ECONNREFUSED, EHOSTUNREACH

from .endpoint_cache import EndpointCache, Refused, Unknown
from .pod_addressing import PodAddressing
from .sockets import sockaddr
from .sockets.bindings import Bindings
from .sockets.sockaddr import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Optional

    from .native import Quick

    # By protocol, address and port of the cluster: where netd itself answers.
    OwnServices = dict[tuple[str, bytes, int], Callable[[], Address]]

MAX_TAUGHT = 1024


class Place:
    """One real place of a destination."""

    __slots__ = ("notice", "own_port", "pod", "real")

    def __init__(
        self,
        real: Address,
        pod: Optional[tuple[bytes, int]] = None,
        notice: Optional[tuple[str, int]] = None,
        own_port: int = 0,
    ) -> None:
        self.real = real
        self.own_port = own_port  # of this very pod: its port there
        self.pod = pod  # whose it is, and its port there
        self.notice = notice  # where its netd hears who comes


class Routes:
    def __init__(
        self,
        addressing: PodAddressing,
        bindings: Bindings,
        endpoints: EndpointCache,
        own_services: OwnServices,
        quick: Optional[Quick] = None,
    ) -> None:
        """Take `quick`, which learns of TCP what is found here."""
        self._addressing, self._bindings, self._endpoints = addressing, bindings, endpoints
        self._own_services, self._quick = own_services, quick
        self._taught: dict[tuple[bytes, int], object] = {}  # services, by what it was taught

    def find(self, protocol: str, to: Address) -> Optional[Iterator[Place]]:
        """Return the places to try, in turn; None: an address that is none of the cluster's.

        Raise OSError where there is nobody.
        """
        addressing = self._addressing
        if addressing.is_own(to):
            return iter([self._own(protocol, to)])
        if to.ip in addressing.services:
            return self._service(protocol, to)
        if addressing.is_node and to.ip not in addressing.pods:
            return None  # no policy holds on the node's network, and nobody need be asked
        self.check(protocol, to)
        return iter([self._pod(protocol, to)]) if to.ip in addressing.pods else None

    @property
    def are_held(self) -> bool:
        """Return whether an egress policy restricts this pod."""
        return not self._addressing.is_node and self._endpoints.restricts("egress")

    @property
    def may_be_held(self) -> bool:
        """Return whether one does, or nobody can say yet: then nothing is left to the kernel."""
        return not self._addressing.is_node and self._endpoints.may_restrict("egress")

    def check(self, protocol: str, to: Address) -> None:
        """Raise OSError where an egress policy does not allow it."""
        allows = self._endpoints.allows
        if not allows("egress", protocol, sockaddr.text(to.ip), to.port):
            raise OSError(EHOSTUNREACH, "a NetworkPolicy forbids it")

    def _own(self, protocol: str, to: Address) -> Place:
        generation = self._generation(protocol)
        found = self._bindings.find(protocol, to.ip, to.port)
        if found is None:
            raise OSError(ECONNREFUSED, "nobody of this pod listens there")
        if self._quick is not None and generation is not None:
            self._quick.learn_own(generation, to, found)
        return Place(Address(to.family, found.ip, found.port), own_port=to.port)

    def _generation(self, protocol: str) -> Optional[int]:
        """Return the generation in which a route may be taught to the compiled part, if any."""
        return self._quick.generation() if self._quick is not None and protocol == "tcp" else None

    def _pod(self, protocol: str, to: Address) -> Place:
        generation = self._generation(protocol)
        try:
            found = self._endpoints.location(protocol, sockaddr.text(to.ip), to.port)
        except Refused:
            raise OSError(ECONNREFUSED, "nobody of that pod listens there") from None
        except Unknown:
            raise OSError(EHOSTUNREACH, "nothing is known of that pod") from None
        node, port, notice = found
        real = Address(to.family, sockaddr.number(node), port)
        if self._quick is not None and generation is not None:
            at = (sockaddr.number(node), notice) if notice else None
            self._quick.learn_pod(generation, to, real, at)
        return Place(real, (to.ip, to.port), (node, notice) if notice else None)

    def _service(self, protocol: str, to: Address) -> Iterator[Place]:
        serve = self._own_services.get((protocol, to.ip, to.port))
        if serve is not None:
            own = serve()
            return iter([Place(Address(to.family, own.ip, own.port))])
        generation = self._generation(protocol)
        try:
            words = sockaddr.text(to.ip), to.port, sockaddr.text(self._addressing.pod)
            found = self._endpoints.backend(protocol, *words)
        except Unknown:
            raise OSError(EHOSTUNREACH, "nothing is known of that service") from None
        if not found:
            raise OSError(ECONNREFUSED, "the service has no endpoint that is ready")
        if self._quick is not None and generation is not None:
            self._teach_service(self._quick, generation, to)
        return self._places(protocol, to.family, found)

    def _teach_service(self, quick: Quick, generation: int, to: Address) -> None:
        """Teach all of a service, once; with its endpoints whose place is known already."""
        ends = self._endpoints.endpoints("tcp", sockaddr.text(to.ip), to.port)
        if not ends or self._taught.get((to.ip, to.port)) is ends:
            return
        if any(":" in ip for ip, _ in ends):
            return
        numbers = [(sockaddr.number(ip), port) for ip, port in ends]
        if not quick.learn_service(generation, to, numbers):
            return
        if len(self._taught) > MAX_TAUGHT:
            self._taught.clear()
        self._taught[(to.ip, to.port)] = ends
        for ip, port in numbers:
            place = self._endpoints.peek_place("tcp", sockaddr.text(ip), port)
            if place is not None:
                node = sockaddr.number(place[0])
                real = Address(to.family, node, place[1])
                at = (node, place[2]) if place[2] else None
                quick.learn_pod(generation, Address(to.family, ip, port), real, at)

    def _places(self, protocol: str, family: int, found: list[tuple[str, int]]) -> Iterator[Place]:
        for ip, port in found:
            endpoint = Address(family, sockaddr.number(ip), port)
            try:
                self.check(protocol, endpoint)
                if self._addressing.is_own(endpoint):
                    yield self._own(protocol, endpoint)
                elif endpoint.ip in self._addressing.pods:
                    yield self._pod(protocol, endpoint)
                else:
                    yield Place(endpoint)
            except OSError:
                continue  # the next may be there
