"""Connects the control plane to what is in the cluster: to a port of a pod, or of a service.

Used by webhooks, extension servers and the proxy subresources. None of it needs the pods' network:
a pod is reached by its kubelet's port-forward, over the connection that its agent has opened; only
an endpoint that is no pod is dialled by its address. What is given back is an ordinary connected
socket, so that TLS and HTTP run over it as over any other.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import aiohttp

from ...api import kinds
from ...api.objects import Key, Obj, labels_of
from ...destinations import ANYWHERE, Destinations
from ...errors import ApiError, Unavailable
from ...forwarding import SocketConnector
from ...log import logger
from ...store import Store
from ..request.failures import bad_request, not_found
from .kubelet_dialer import KubeletClient

log = logger(__name__)
_CHUNK = 64 << 10
_DATA, _ERROR = 0, 1  # channels of a forwarded port
_SERVICE_NAME = "kubernetes.io/service-name"


class Endpoint(NamedTuple):
    """One way to a service: a pod of its namespace, or an address."""

    port: int
    pod: str = ""
    host: str = ""


@dataclass
class Reached:
    """A connection; `words` says later why it failed, where the far side told us."""

    socket: socket.socket
    words: list[str] = field(default_factory=list)


Dial = Callable[[], Awaitable[Reached]]


class ClusterDialer:
    def __init__(
        self,
        store: Store,
        kubelet: KubeletClient,
        rng: random.Random | None = None,
        destinations: Destinations | None = None,
    ) -> None:
        self._store = store
        self._kubelet = kubelet
        self._destinations = destinations or Destinations()
        self._rng = rng or random.SystemRandom()
        self._bridges: set[asyncio.Task[None]] = set()

    async def service(self, key: Key, port: int | str) -> Reached:
        """Connect to a ready endpoint of a service, by a number or name of its ports."""
        found = self.endpoints(key, port)
        failures = []
        for endpoint in found:
            try:
                if endpoint.pod:
                    return await self.pod(Key(key.namespace, endpoint.pod), endpoint.port)
                return await self.address(endpoint.host, endpoint.port)
            except (OSError, ApiError) as error:
                failures.append(str(error) or type(error).__name__)
        raise Unavailable("; ".join(dict.fromkeys(failures)), details={})

    def endpoints(self, key: Key, port: int | str) -> list[Endpoint]:
        """Return a port's ready endpoints, in random order; Unavailable where there are none."""
        record = self._store.newest(kinds.SERVICE.resource, key)
        if record is None:
            raise not_found(kinds.SERVICE, key.name)
        spec = record.decode()["spec"]
        if spec.get("type") == "ExternalName":
            return [Endpoint(_number(port, key), host=spec["externalName"])]
        name = _port_name(spec, port, key)
        found = list(self._ready(key, name))
        if not found:
            raise Unavailable(f'no endpoints available for service "{key.name}"', details={})
        self._rng.shuffle(found)
        return found

    def _ready(self, key: Key, port: str) -> Iterator[Endpoint]:
        slices = self._store.list(kinds.ENDPOINT_SLICE.resource, key.namespace).records
        ours = [one.decode() for one in slices]
        ours = [one for one in ours if labels_of(one).get(_SERVICE_NAME) == key.name]
        for one in ours:
            numbers = [
                p.get("port") for p in one.get("ports") or () if (p.get("name") or "") == port
            ]
            for endpoint in one.get("endpoints") or ():
                is_ready = (endpoint.get("conditions") or {}).get("ready") is not False
                if is_ready and numbers and numbers[0]:
                    target = endpoint.get("targetRef") or {}
                    yield _endpoint(numbers[0], target, (endpoint.get("addresses") or [""])[0])
        if not ours:
            yield from self._of_endpoints(key, port)

    def _of_endpoints(self, key: Key, port: str) -> Iterator[Endpoint]:
        """Yield the endpoints of a service without slices, from Endpoints written by hand."""
        record = self._store.newest(kinds.ENDPOINTS.resource, key)
        for subset in (record.decode().get("subsets") or ()) if record is not None else ():
            numbers = [
                p["port"] for p in subset.get("ports") or () if (p.get("name") or "") == port
            ]
            for address in subset.get("addresses") or () if numbers else ():
                yield _endpoint(numbers[0], address.get("targetRef") or {}, address.get("ip", ""))

    async def pod(self, key: Key, port: int) -> Reached:
        """Connect to a port of a pod, by its kubelet."""
        record = self._store.newest(kinds.POD.resource, key)
        if record is None:
            raise not_found(kinds.POD, key.name)
        name = record.decode()["spec"].get("nodeName")
        node = self._store.get(kinds.NODE.resource, Key("", name)) if name else None
        if node is None:
            raise bad_request(f"pod {key.name} does not have a host assigned")
        tunnel = await self._kubelet.forward(node.decode(), key, port)
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        reached = Reached(ours)
        work = _bridge(tunnel, theirs, reached.words)
        task = asyncio.create_task(work, name=f"port {port} of pod {key}")
        self._bridges.add(task)
        task.add_done_callback(self._bridges.discard)
        return reached

    async def address(self, host: str, port: int, *, is_ours: bool = False) -> Reached:
        """Connect to what is no pod.

        Who writes endpoints must not reach what listens on this very host, or on its link, for
        itself. `is_ours` is for a node's kubelet, whose address is believed.
        """
        destinations = ANYWHERE if is_ours else self._destinations
        return Reached(await destinations.dial(host, port))

    async def close(self) -> None:
        for task in self._bridges:
            task.cancel()
        if self._bridges:
            await asyncio.wait(self._bridges)


def _port_name(spec: Obj, port: int | str, key: Key) -> str:
    """Return the name under which a port of a service is in its endpoints."""
    for one in spec.get("ports") or ():
        if str(port) in (str(one["port"]), one.get("name")):
            return str(one.get("name") or "")
    if port == "" and len(spec.get("ports") or ()) == 1:
        return str(spec["ports"][0].get("name") or "")
    raise Unavailable(f'no service port {port} found for service "{key.name}"', details={})


def _number(port: int | str, key: Key) -> int:
    if not str(port).isdecimal():
        raise Unavailable(f'no service port {port} found for service "{key.name}"', details={})
    return int(port)


def _endpoint(port: int, target: Obj, address: str) -> Endpoint:
    if target.get("kind") == "Pod":
        return Endpoint(port, pod=target["name"])
    return Endpoint(port, host=address)


async def _bridge(
    tunnel: aiohttp.ClientWebSocketResponse, far: socket.socket, words: list[str]
) -> None:
    """Copy bytes both ways between a kubelet's channel and our socket, until either ends."""
    reader, writer = await asyncio.open_connection(sock=far)
    try:
        async with asyncio.TaskGroup() as tasks:
            up = tasks.create_task(_up(reader, tunnel), name="to the pod")
            down = tasks.create_task(_down(tunnel, writer, words), name="from the pod")
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            up.cancel()
            down.cancel()
    except* (OSError, aiohttp.ClientError) as gone:
        log.debug("a connection into the cluster ended", error=gone.exceptions[0])
    finally:
        writer.close()
        await tunnel.close()


async def _up(reader: asyncio.StreamReader, tunnel: aiohttp.ClientWebSocketResponse) -> None:
    while data := await reader.read(_CHUNK):
        await tunnel.send_bytes(bytes([_DATA]) + data)


async def _down(
    tunnel: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter, words: list[str]
) -> None:
    begun: set[int] = set()
    async for message in tunnel:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel not in begun:
            begun.add(channel)  # its first message repeats the port
        elif channel == _ERROR:
            words.append(data.decode(errors="replace"))
        else:
            writer.write(data)
            await writer.drain()


class Connector(SocketConnector):
    """Lets aiohttp speak over connections into the cluster, and keeps why the newest failed."""

    def __init__(self, dial: Dial, tls: ssl.SSLContext | None = None, name: str = "") -> None:
        super().__init__(self._reach, tls, name)
        self._reached_by = dial
        self.words: list[str] = []  # of the newest connection

    async def _reach(self) -> socket.socket:
        reached = await self._reached_by()
        self.words = reached.words
        return reached.socket
