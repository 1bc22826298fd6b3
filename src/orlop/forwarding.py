"""What every proxy of HTTP needs: whose headers are whose, and bytes between two connections.

Used by the API server and the gateway for all that they pass on to somebody else. It reads nothing
of what goes through and decides nothing.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

_CHUNK = 256 << 10
# Of one connection, not of the request; RFC 9110, 7.6.1.
HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    )
)
# Headers that aiohttp would add to a request on its own.
AUTO_HEADERS = ("User-Agent", "Content-Type", "Accept-Encoding", "Accept")

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def hop_by_hop(headers: Mapping[str, str]) -> frozenset[str]:
    """Return which headers of a message, in lower case, are for its next receiver alone."""
    named = headers.get("Connection", "").lower().split(",")
    return HOP_BY_HOP.union(word.strip() for word in named)


class SocketConnector(aiohttp.BaseConnector):
    """Lets aiohttp speak over sockets of ours; `name` is what the certificate must say."""

    def __init__(
        self,
        dial: Callable[[], Awaitable[socket.socket]],
        tls: ssl.SSLContext | None = None,
        name: str = "",
        *,
        force_close: bool = False,
    ) -> None:
        super().__init__(limit=0, force_close=force_close)
        self._dial = dial
        self._tls = tls
        self._name = name

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        sock = await self._dial()
        try:
            _, protocol = await self._loop.create_connection(
                self._factory,
                sock=sock,
                ssl=self._tls,
                server_hostname=self._name if self._tls is not None else None,
            )
        except BaseException:
            sock.close()
            raise
        return protocol


async def join(client: Ends, other: Ends) -> None:
    """Copy both ways until either side closes; then close the other too."""
    async with asyncio.TaskGroup() as tasks:
        ways = (
            tasks.create_task(_copy(client[0], other[1]), name="from the client"),
            tasks.create_task(_copy(other[0], client[1]), name="to the client"),
        )
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            client[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # one of them has gone
