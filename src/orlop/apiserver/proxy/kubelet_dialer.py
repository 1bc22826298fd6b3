"""The way to the kubelet of a node: where it listens, and a connection with our certificate.

Used by the subresources of pods that only their node can answer. It streams and does not buffer a
whole answer; when our client goes, the kubelet's answer is dropped.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
from yarl import URL

from ... import wellknown
from ...api.objects import Key, Obj
from ...errors import InternalError
from ...upgrade import request_head

_CONNECT_TIMEOUT = 5.0
_ANSWER_TIMEOUT = 30.0  # for an upgrade: it may have to wait for an agent
_MAX_HEAD = 64 << 10


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A connection to a kubelet after the head of its answer to an upgrade."""

    code: int
    head: bytes  # as it came, with the empty line
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class KubeletClient:
    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.tls = self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def get(
        self, node: Obj, path: str, query: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a GET to the node's kubelet, by the first of its addresses that answers."""
        failures: list[str] = []
        for url in urls_of(node):
            try:
                response = await self._open().get(
                    url + path, params=query, server_hostname=wellknown.AGENT_SERVER_NAME
                )
            except (aiohttp.ClientConnectionError, TimeoutError) as error:
                failures.append(f"{url}: {error or type(error).__name__}")
                continue
            async with response:
                yield response
            return
        raise _unreachable(node, failures)

    @asynccontextmanager
    async def upgrade(
        self, node: Obj, method: str, path: URL, headers: Mapping[str, str]
    ) -> AsyncIterator[Upgraded]:
        """Ask the node's kubelet for another protocol; what follows its answer is not looked at."""
        failures: list[str] = []
        for url in urls_of(node):
            try:
                upgraded = await self._dial(URL(url), method, path, headers)
            except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
                failures.append(f"{url}: {error or type(error).__name__}")
                continue
            try:
                yield upgraded
            finally:
                upgraded.writer.close()
            return
        raise _unreachable(node, failures)

    async def forward(self, node: Obj, pod: Key, port: int) -> aiohttp.ClientWebSocketResponse:
        """Open channels to one port of a pod of the node, as clients without SPDY have them."""
        failures: list[str] = []
        for url in urls_of(node):
            try:
                return await self._open().ws_connect(
                    f"{url}/portForward/{pod.namespace}/{pod.name}",
                    params={"ports": str(port)},
                    protocols=("v4.channel.k8s.io",),
                    server_hostname=wellknown.AGENT_SERVER_NAME,
                    max_msg_size=0,
                    compress=0,
                )
            except aiohttp.WSServerHandshakeError as error:
                raise InternalError(
                    f"the kubelet of pod {pod.name} refused port {port}: {error.status}"
                ) from error
            except (aiohttp.ClientConnectionError, TimeoutError) as error:
                failures.append(f"{url}: {error or type(error).__name__}")
        raise _unreachable(node, failures)

    async def _dial(self, url: URL, method: str, path: URL, headers: Mapping[str, str]) -> Upgraded:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(
                url.host,
                url.port,
                ssl=self._tls or True,
                server_hostname=wellknown.AGENT_SERVER_NAME,
                limit=_MAX_HEAD,
            )
        try:
            sent = [("Host", f"{url.host}:{url.port}"), *headers.items()]
            writer.write(request_head(method, path.raw_path_qs, sent))
            async with asyncio.timeout(_ANSWER_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
            return Upgraded(HTTPStatus(int(head.split(b" ", 2)[1])), head, reader, writer)
        except BaseException:
            writer.close()
            raise

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT)
            connector = aiohttp.TCPConnector(ssl=self._tls or True, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _unreachable(node: Obj, failures: list[str]) -> InternalError:
    name = node["metadata"]["name"]
    tried = "; ".join(failures) or "the node has no InternalIP or no kubelet port"
    return InternalError(f"the kubelet of node {name} cannot be reached: {tried}")


def urls_of(node: Obj) -> list[str]:
    status = node.get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    addresses = [
        address["address"]
        for address in status.get("addresses") or []
        if address.get("type") == "InternalIP"
    ]
    hosts = [f"[{address}]" if ":" in address else address for address in addresses]
    return [f"https://{host}:{port}" for host in hosts] if port else []
