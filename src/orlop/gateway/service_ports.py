"""Offers NodePort and LoadBalancer services at this host, where the settings allow it.

A control loop over services: each port is a listener here, whose connections go to an endpoint of
the service. Where the settings do not allow it, or a port cannot be had, an Event on the service
says so, and what to do. A load balancer's address is written once all of its ports are open.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from typing import NamedTuple

from .. import errors
from ..api.kinds import SERVICE
from ..api.objects import Key, Obj, is_deleting, key_of
from ..client.api import Api
from ..client.informer import Informers
from ..client.recorder import EventType
from ..controllers.framework.controller import Controller, Result
from ..listener import open_port
from .backends import Backends
from .connection_port import ConnectionPort
from .datagram_port import DatagramPort
from .service_port import ServicePort

OFFERED = ("NodePort", "LoadBalancer")
KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}
BACKLOG = 512


class Opening(NamedTuple):
    """A port of this host, and the port of the service that it leads to."""

    number: int
    port: int
    is_node_port: bool
    protocol: str = "TCP"


class ServicePorts(Controller):
    """The loop; `is_offered`: whether the settings allow it; `address`: this host for others."""

    name = "service-ports"
    kind = SERVICE
    workers = 1

    def __init__(
        self,
        api: Api,
        informers: Informers,
        backends: Backends,
        *,
        is_offered: bool,
        listen: str,
        address: str,
    ) -> None:
        super().__init__(api, informers)
        self._backends = backends
        self._is_offered, self._listen, self._address = is_offered, listen, address
        self._open: dict[Key, dict[tuple[str, int], ServicePort]] = {}
        self._told: dict[Key, tuple[str, str]] = {}  # the service's uid, and the words
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._group:
                await super().run()
        finally:
            for key in list(self._open):
                self._close(key, set())

    async def reconcile(self, key: Key) -> Result:
        service = self.objects.get(key)
        wanted = list(openings(service)) if service is not None else []
        if service is None or is_deleting(service) or not wanted:
            self._close(key, set())
            self._told.pop(key, None)
            if service is not None:
                await self._write_address(service, "")
            return Result.done()
        if not self._is_offered:
            await self._tell(service, "Warning", "NotOffered", _not_offered(service))
            return Result.done()
        self._close(key, {(one.protocol, one.number) for one in wanted})
        failures = [words for one in wanted if (words := self._ensure(key, one))]
        failures += [
            f"port {port['port']} is {port['protocol']}, and only TCP and UDP are offered"
            for port in service["spec"]["ports"]
            if port.get("protocol", "TCP") not in KINDS
        ]
        await self._say(service, wanted, failures)
        return Result.done()

    async def _say(self, service: Obj, wanted: list[Opening], failures: list[str]) -> None:
        is_balanced = service["spec"]["type"] == "LoadBalancer"
        await self._write_address(service, self._address if is_balanced and not failures else "")
        numbers = dict.fromkeys(one.number for one in wanted if one.is_node_port)
        places = ", ".join(f"{self._address}:{number}" for number in numbers)
        if failures:
            words = f"{'; '.join(failures)}. Reachable at {places}"
            await self._tell(service, "Warning", "PortNotOpened", words)
        else:
            await self._tell(service, "Normal", "PortOpened", f"Reachable at {places}")

    async def _tell(self, service: Obj, kind: EventType, reason: str, words: str) -> None:
        """Tell it once, until there is something else to say."""
        said = (service["metadata"]["uid"], words)
        if self._told.get(key_of(service)) != said:
            self._told[key_of(service)] = said
            named = {"apiVersion": SERVICE.api_version, "kind": SERVICE.kind, **service}
            await self.recorder.event(named, kind, reason, words)

    async def _write_address(self, service: Obj, address: str) -> None:
        wanted: Obj = {"ingress": [{"ip": address, "ipMode": "Proxy"}]} if address else {}
        if service["spec"].get("type") != "LoadBalancer" and not address:
            found = (service.get("status") or {}).get("loadBalancer") or {}
            if not found.get("ingress"):
                return
        status = {**(service.get("status") or {}), "loadBalancer": wanted}
        try:
            await self.write_status(service, status)
        except errors.NotFound:
            pass

    # Listeners

    def _ensure(self, key: Key, wanted: Opening) -> str:
        """Have a port open; return what kept it from being, in words."""
        listeners = self._open.setdefault(key, {})
        which = (wanted.protocol, wanted.number)
        found = listeners.get(which)
        if found is not None:
            found.port = wanted.port
            return ""
        try:
            sock = open_port(self._listen, wanted.number, KINDS[wanted.protocol], backlog=BACKLOG)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            return f"cannot listen at {self._listen}:{wanted.number}: {why}"
        assert self._group is not None, "it runs"
        kind = DatagramPort if wanted.protocol == "UDP" else ConnectionPort
        listener = kind(sock, key, wanted.port, self._backends)
        listener.task = self._group.create_task(listener.serve(), name=f"port {wanted.number}")
        listeners[which] = listener
        return ""

    def _close(self, key: Key, kept: set[tuple[str, int]]) -> None:
        listeners = self._open.get(key, {})
        for which in list(listeners):
            if which not in kept:
                listeners.pop(which).close()
        if not listeners:
            self._open.pop(key, None)


def openings(service: Obj) -> Iterator[Opening]:
    """Yield the ports of this host that a service should have."""
    spec = service["spec"]
    if spec.get("type") not in OFFERED:
        return
    for port in spec.get("ports") or []:
        protocol = port.get("protocol", "TCP")
        if protocol not in KINDS:
            continue
        if port.get("nodePort"):
            yield Opening(port["nodePort"], port["port"], True, protocol)
        if spec["type"] == "LoadBalancer":
            yield Opening(port["port"], port["port"], False, protocol)


def _not_offered(service: Obj) -> str:
    name = service["metadata"]["name"]
    return (
        f"{service['spec']['type']} services are not offered at this host: set `network.node_ports:"
        f" true` in config.yaml, or use kubectl port-forward service/{name}"
    )
