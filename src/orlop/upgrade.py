"""Takes the connection under an HTTP request out of HTTP's hands, for protocols of another kind.

Used by the API server and the kubelet for what clients upgrade to; aiohttp itself upgrades to
WebSocket. The client must be silent between its request and our answer, as all of ours are, so that
the transport can change its protocol in between and not a byte is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiohttp import web

_LIMIT = 1 << 20
_BREAKS = ("\r", "\n", "\0")


def take_over(request: web.BaseRequest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the connection under the request, as streams; answer the request with `Taken`."""
    transport = request.transport
    assert transport is not None, "a request that is being handled has a transport"
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LIMIT, loop=loop)
    protocol = _Streams(reader, request.protocol, loop)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def request_head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the head of a request for another server, with the bytes that it came with.

    Raises ValueError where a header would become two, or the end of the head: names of users come
    from certificates and tokens, and may have anything in them.
    """
    lines = [f"{method} {target} HTTP/1.1"]
    for name, text in headers:
        if any(mark in part for mark in _BREAKS for part in (name, text)):
            raise ValueError(f"header {name!r} has a line break in it")
        lines.append(f"{name}: {text}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def is_upgrade(request: web.BaseRequest) -> bool:
    """Return whether the client asks for another protocol."""
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
    """The answer to a request whose connection was taken over: nothing is sent, 101 is counted."""

    def __init__(self) -> None:
        super().__init__(status=101)

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None
