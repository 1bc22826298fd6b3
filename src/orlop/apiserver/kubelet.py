"""The way to the kubelet of a node: where it listens, and a connection with our certificate.

Used by the subresources of pods that only their node can answer. It streams and never buffers a
whole answer; when our client goes, the kubelet's answer is dropped.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp

from .. import wellknown
from ..api.objects import Obj
from ..errors import InternalError

_CONNECT_TIMEOUT = 5.0


class KubeletClient:
    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def get(
        self, node: Obj, path: str, query: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """GET from the node's kubelet, by the first of its addresses that answers."""
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
        name = node["metadata"]["name"]
        tried = "; ".join(failures) or "the node has no InternalIP or no kubelet port"
        raise InternalError(f"the kubelet of node {name} cannot be reached: {tried}")

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
