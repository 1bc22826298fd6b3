"""Leads from a service to a connection: to one of its ready endpoints, evenly, the next on refusal.

Used by node ports and by ingress, for each connection. Reads informers' caches; the dialling itself
is the kubelet's. Services that are only a name elsewhere are reached by that name.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from .. import errors
from ..api.kinds import ENDPOINT_SLICE, SERVICE
from ..api.objects import Key, Obj, key_of, meta
from ..client.informer import Informers
from ..destinations import Destinations, Refused
from ..network.services import service_of, service_value

TRIES = 5
BY_SERVICE = "of-service"

T = TypeVar("T")

Place = tuple[str, int]
Dial = Callable[[str, int, "Place | None"], Awaitable[socket.socket]]
DialDatagrams = Callable[[str, int, Place], Awaitable["Datagrams"]]


class Datagrams(Protocol):
    """A way for UDP to one endpoint."""

    socket: socket.socket

    def send(self, data: bytes) -> None: ...
    async def receive(self, most: int) -> bytes: ...
    def close(self) -> None: ...


class NoEndpoints(errors.Error):
    """Nobody serves the service just now."""


class Backends:
    def __init__(
        self,
        informers: Informers,
        dial: Dial,
        rng: random.Random | None = None,
        dial_datagrams: DialDatagrams | None = None,
        destinations: Destinations | None = None,
    ) -> None:
        self.services = informers.informer(SERVICE)
        self._slices = informers.informer(ENDPOINT_SLICE)
        self._slices.add_index(BY_SERVICE, lambda one: (str(_owner(one)),))
        self._dial, self._dial_datagrams = dial, dial_datagrams
        self._destinations = destinations or Destinations()
        self._rng = rng or random.SystemRandom()
        self._sticky: dict[tuple[Key, str, int, str], tuple[Place, float]] = {}

    async def connect(
        self, key: Key, port: int | str, client: Place | None = None
    ) -> socket.socket:
        """Connect to an endpoint of a service's port; raise NoEndpoints or OSError."""
        service = self.services.get(key)
        if service is None:
            raise NoEndpoints(f"there is no service {key}")
        if service["spec"].get("type") == "ExternalName":
            return await self._elsewhere(service["spec"]["externalName"], int(port))
        found = self._endpoints(service, port, client)
        return await self._first(key, found, lambda ip, number: self._dial(ip, number, client))

    async def datagrams(self, key: Key, port: int, client: Place) -> Datagrams:
        """Return a way for UDP to an endpoint of a service's port; raise NoEndpoints or OSError."""
        service = self.services.get(key)
        dial = self._dial_datagrams
        if service is None or dial is None:
            raise NoEndpoints(f"there is no service {key}")
        found = self._endpoints(service, port, client, "udp")
        return await self._first(key, found, lambda ip, number: dial(ip, number, client))

    async def _first(
        self, key: Key, found: list[Place], dial: Callable[[str, int], Awaitable[T]]
    ) -> T:
        """Dial one endpoint after the other until one answers."""
        failure: Exception = NoEndpoints(f"service {key} has no endpoint that is ready")
        for ip, number in found[:TRIES]:
            try:
                self._check(ip, number)
                return await dial(ip, number)
            except OSError as error:
                failure = error
        raise failure

    def _endpoints(
        self, service: Obj, port: int | str, client: Place | None, protocol: str = "tcp"
    ) -> list[Place]:
        slices = self._slices.by_index(BY_SERVICE, str(key_of(service)))
        value = service_value(service, slices)
        chosen = [
            one
            for one in value["ports"]
            if one["protocol"] == protocol and port in (one["port"], one["name"])
        ]
        if not chosen:
            raise NoEndpoints(f"service {key_of(service)} has no {protocol} port {port}")
        found = [(ip, number) for ip, number, _ in chosen[0]["endpoints"]]
        self._rng.shuffle(found)
        if value["affinity"] and client is not None and found:
            which = (key_of(service), protocol, chosen[0]["port"], client[0])
            self._stick(which, found, value["affinity"])
        return found

    def _stick(self, which: tuple[Key, str, int, str], found: list[Place], seconds: float) -> None:
        """Put the client's endpoint of last time first."""
        now = time.monotonic()
        last, until = self._sticky.get(which, (found[0], 0.0))
        if until > now and last in found:
            found.remove(last)
            found.insert(0, last)
        self._sticky[which] = (found[0], now + seconds)
        if len(self._sticky) > 10_000:
            self._sticky = {k: v for k, v in self._sticky.items() if v[1] > now}

    async def _elsewhere(self, name: str, port: int) -> socket.socket:
        """Connect to a name elsewhere: the address that it has now is checked, and dialled."""
        found = await self._destinations.resolve(name, port)
        return await self._dial(str(found[4][0]), port, None)

    def _check(self, ip: str, port: int) -> None:
        """Check an address: endpoints may come from anybody who may write them."""
        problem = self._destinations.problem(ip)
        if problem:
            raise Refused(f"{ip}:{port}: address not allowed: {problem}")


def place_of(address: tuple[Any, ...]) -> Place:
    """Return where a client is, as a socket of either family has it."""
    return str(address[0]).removeprefix("::ffff:"), int(address[1])


def _owner(one: Obj) -> Key:
    return Key(meta(one).get("namespace") or "", service_of(one))
