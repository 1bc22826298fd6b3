"""Passes one HTTP request on to a backend, and its answer back.

Used by ingress for each request. Bodies are streamed; a connection that becomes a WebSocket, or
anything else, is joined to the backend's. Each request has a connection of its own, so that none
reaches a pod that has just ceased to be ready.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator

import aiohttp
from aiohttp import web
from yarl import URL

from ..forwarding import AUTO_HEADERS, HOP_BY_HOP, SocketConnector, hop_by_hop
from ..upgrade import is_upgrade
from .upgrade import pass_upgrade

_OURS = frozenset(("host", "content-length"))  # to say
_FORWARDED = frozenset(("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-real-ip"))
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=3600)
_CHUNK = 64 << 10

Connect = Callable[[], Awaitable[socket.socket]]


async def pass_on(request: web.BaseRequest, connect: Connect, client: str) -> web.StreamResponse:
    """Return the backend's answer; raise OSError where there is none to be had.

    `client` is the address of who asks, as backends are told.
    """
    headers = [*_end_to_end(request), *_forwarded(request, client)]
    if is_upgrade(request) and request.headers.get("Upgrade") and not request.body_exists:
        return await pass_upgrade(request, await connect(), headers)
    url = URL(f"http://{request.host or 'localhost'}{request.raw_path}", encoded=True)
    has_body = request.body_exists
    length = request.headers.get("Content-Length")
    if has_body and length is not None:
        headers.append(("Content-Length", length))
    async with aiohttp.ClientSession(
        connector=SocketConnector(connect, force_close=True),
        timeout=_TIMEOUT,
        auto_decompress=False,
        skip_auto_headers=AUTO_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        body = request.content.iter_chunked(_CHUNK) if has_body else None
        async with session.request(
            request.method, url, headers=headers, data=body, allow_redirects=False
        ) as answer:
            return await _answer(request, answer)


async def _answer(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    response.headers.clear()
    dropped = HOP_BY_HOP | _OURS
    for name, value in answer.headers.items():
        if name.lower() not in dropped:
            response.headers.add(name, value)
    length = answer.headers.get("Content-Length")
    if length is not None:
        response.headers["Content-Length"] = length
    await response.prepare(request)
    async for data in answer.content.iter_chunked(_CHUNK):
        await response.write(data)
    await response.write_eof()
    return response


def _end_to_end(request: web.BaseRequest) -> Iterator[tuple[str, str]]:
    """Yield the headers that are meant for the backend."""
    dropped = hop_by_hop(request.headers) | _OURS | _FORWARDED
    for name, value in request.headers.items():
        if name.lower() not in dropped:
            yield name, value


def _forwarded(request: web.BaseRequest, client: str) -> Iterator[tuple[str, str]]:
    """Yield who asks, and how; what the client itself said of it is not believed."""
    yield "Host", request.headers.get("Host", "")
    yield "X-Forwarded-For", client
    yield "X-Real-IP", client
    yield "X-Forwarded-Host", request.host
    yield "X-Forwarded-Proto", "https" if request.secure else "http"
