"""Passes a whole HTTP request on to another server, and its answer back, byte by byte.

Used by the proxy subresources and by the aggregation of extension servers. Nothing is buffered: a
body of any size goes through at the speed of the slower side, and an upgrade joins the two
connections. Credentials of the client stay here. As apimachinery/pkg/util/proxy.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from aiohttp import HttpVersion11, web
from multidict import CIMultiDict
from yarl import URL

from ...errors import ApiError, BadRequest, Unavailable
from ...forwarding import AUTO_HEADERS, HOP_BY_HOP, hop_by_hop, join
from ...upgrade import Taken, request_head, take_over
from ..auth.bearer_tokens import without_token
from .cluster_dialer import Connector, Dial
from .webhook_client import reason

_CHUNK = 256 << 10
_MAX_HEAD = 64 << 10
_ANSWER_TIMEOUT = 30.0  # for an upgrade
_OURS = {"host", "authorization", "impersonate-user", "impersonate-group", "impersonate-uid",
         "content-length", "x-remote-user", "x-remote-group", "x-remote-uid"}  # fmt: skip
_OURS_BEGIN = ("impersonate-extra-", "x-remote-extra-")


@dataclass(frozen=True, slots=True)
class Backend:
    """The far side of a request: a way to connect, and what to call it."""

    host: str  # as its Host header has it
    dial: Dial
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    untold: frozenset[str] = frozenset()  # headers that stay here

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"

    def session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=Connector(self.dial, self.tls, self.server_name),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )


def unreachable(error: BaseException, words: list[str] | None = None) -> Unavailable:
    why = "; ".join(words or ()) or (
        error.message if isinstance(error, ApiError) else reason(error)
    )
    return Unavailable(f"error trying to reach service: {why}", details={})


Headers = Mapping[str, str] | CIMultiDict[str]


def passed_on(
    request: web.BaseRequest, more: Headers, untold: frozenset[str] = frozenset()
) -> CIMultiDict[str]:
    """Return the headers of a request that are the far side's business."""
    dropped = hop_by_hop(request.headers) | _OURS | untold
    headers = CIMultiDict(
        (name, text)
        for name, text in request.headers.items()
        if (read := _as_read(name)) not in dropped and not read.startswith(_OURS_BEGIN)
    )
    if "Sec-WebSocket-Protocol" in headers:
        headers["Sec-WebSocket-Protocol"] = without_token(headers["Sec-WebSocket-Protocol"])
    former = headers.get("X-Forwarded-For")
    client = request.remote or ""
    headers["X-Forwarded-For"] = f"{former}, {client}" if former else client
    for name in set(more):
        headers.popall(name, None)
    headers.extend(more)
    return headers


def _as_read(name: str) -> str:
    """Return a header's name as servers read it that make variables of headers (CGI, WSGI)."""
    return name.lower().replace("_", "-")


async def pass_on(
    request: web.BaseRequest,
    backend: Backend,
    session: aiohttp.ClientSession,
    target: str,
    *,
    headers: Headers,
    prefix: str = "",
) -> web.StreamResponse:
    """Pass the request on and give back the far side's answer.

    `target` is its path and query, still quoted. What it redirects to is put below `prefix`, so
    that a browser stays within the proxy.
    """
    url = URL(f"{backend.scheme}://{backend.host}{target}", encoded=True)
    sent = passed_on(request, headers, backend.untold)
    _head(request.method, target, sent)
    if request.content_length is not None:
        sent["Content-Length"] = str(request.content_length)
    try:
        reply = await session.request(
            request.method,
            url,
            headers=sent,
            data=request.content if request.body_exists else None,
            allow_redirects=False,
            skip_auto_headers=AUTO_HEADERS,
        )
    except (aiohttp.ClientError, OSError, TimeoutError, ApiError) as error:
        connector = session.connector
        words = connector.words if isinstance(connector, Connector) else None
        raise unreachable(error, words) from error
    async with reply:
        return await _answer(request, reply, backend.host, prefix)


async def _answer(
    request: web.BaseRequest, reply: aiohttp.ClientResponse, host: str, prefix: str
) -> web.StreamResponse:
    headers = CIMultiDict(
        (name, text) for name, text in reply.headers.items() if name.lower() not in HOP_BY_HOP
    )
    if "Location" in headers and prefix:
        headers["Location"] = rewritten(headers["Location"], host, prefix)
    response = web.StreamResponse(status=reply.status, reason=reply.reason, headers=headers)
    if "Content-Length" not in headers and request.method != "HEAD":
        if request.version >= HttpVersion11:
            response.enable_chunked_encoding()
        else:
            response.force_close()  # the end of the connection is that of the answer
    await response.prepare(request)
    try:
        async for chunk in reply.content.iter_chunked(_CHUNK):
            await response.write(chunk)
        await response.write_eof()
    except (aiohttp.ClientError, OSError):
        if request.transport is not None:
            request.transport.abort()  # half an answer must not look like a whole one
    return response


def rewritten(location: str, host: str, prefix: str) -> str:
    """Return where a redirect leads, seen from the client. As proxy/transport.go: rewriteURL."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return location
    if parts.netloc not in ("", host) or not (parts.path.startswith("/") or parts.netloc):
        return location
    query = f"?{parts.query}" if parts.query else ""
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    return f"{prefix}{parts.path or '/'}{query}{fragment}"


async def pass_upgrade(
    request: web.BaseRequest, backend: Backend, target: str, headers: Headers
) -> web.StreamResponse:
    """Ask the far side for another protocol and join both connections if it agrees."""
    sent = passed_on(request, headers, backend.untold)
    sent["Host"] = backend.host
    sent["Connection"] = "Upgrade"
    sent["Upgrade"] = request.headers.get("Upgrade", "")
    asked = _head(request.method, target, sent)
    try:
        reached = await backend.dial()
        reader, writer = await asyncio.open_connection(
            sock=reached.socket,
            ssl=backend.tls,
            server_hostname=backend.server_name if backend.tls is not None else None,
            limit=_MAX_HEAD,
        )
    except (OSError, ApiError) as error:
        raise unreachable(error) from error
    try:
        writer.write(asked)
        async with asyncio.timeout(_ANSWER_TIMEOUT):
            head = await reader.readuntil(b"\r\n\r\n")
        if _status_of(head) != 101:
            return await _refused(reader, head)
        mine = take_over(request)
        mine[1].write(head)
        await join(mine, (reader, writer))
        return Taken()
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        raise unreachable(error, reached.words) from error
    finally:
        writer.close()


def _head(method: str, target: str, headers: CIMultiDict[str]) -> bytes:
    try:
        return request_head(method, target, headers.items())
    except ValueError as error:
        raise BadRequest(f"the request cannot be passed on: {error}") from error


def _status_of(head: bytes) -> int:
    """Return the status of an answer by its head; ValueError where that has none."""
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) < 2 or not words[1].isdigit() or not 100 <= int(words[1][:4]) < 600:
        raise ValueError("it does not answer as HTTP has it")
    return int(words[1])


async def _refused(reader: asyncio.StreamReader, head: bytes) -> web.Response:
    """Return the far side's own answer to an upgrade that it does not want."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    headers = dict(line.split(":", 1) for line in lines if ":" in line)
    named = {name.strip().lower(): text.strip() for name, text in headers.items()}
    length = named.get("content-length", "0")
    if not length.isdecimal():
        raise ValueError("it does not say how long its answer is")
    body = await reader.readexactly(min(int(length[:9]), _MAX_HEAD))
    media_type = named.get("content-type", "")
    headers = {"Content-Type": media_type if media_type.isprintable() else ""}
    headers["Content-Type"] = headers["Content-Type"] or "text/plain"
    return web.Response(status=_status_of(head), body=body, headers=headers)
