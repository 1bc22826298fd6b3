"""Takes the connection under an HTTP request out of HTTP's hands, for protocols of another kind.

Used by the API server and the kubelet for what clients upgrade to; aiohttp upgrades to WebSocket
alone. The client must be silent between its request and our answer, as all of ours are, so that
the transport can change its protocol in between and not a byte is lost.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

_LIMIT = 1 << 20


def take_over(request: web.BaseRequest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The connection under the request, as streams; answer the request with `Taken`."""
    transport = request.transport
    assert transport is not None, "a request that is being handled has a transport"
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LIMIT, loop=loop)
    protocol = _Streams(reader, request.protocol, loop)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def is_upgrade(request: web.BaseRequest) -> bool:
    """Whether the client asks for another protocol."""
    wanted = request.headers.get("Connection", "").lower().split(",")
    return "upgrade" in [word.strip() for word in wanted]


class _Streams(asyncio.StreamReaderProtocol):
    """Streams that tell aiohttp, too, when the connection is lost."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        http: asyncio.BaseProtocol,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(reader, loop=loop)
        self._http = http

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._http.connection_lost(exc)


class Taken(web.Response):
    """The answer to a request whose connection was taken over: nothing is sent."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None
