"""Asks a backend for another protocol, and joins both connections once it has agreed.

Used by `proxy` for requests that would upgrade, to a WebSocket mostly. Until the backend has said
101, what the client sends is not for it: it might be a second request, to a path that no rule of
the Ingress leads to.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from aiohttp import web

from ..forwarding import HOP_BY_HOP, join
from ..upgrade import Taken, request_head, take_over

_MAX_HEAD = 64 << 10
_CHUNK = 64 << 10
_ANSWER_TIMEOUT = 3600.0  # seconds, as for any answer of a backend
_BODILESS = (b"204", b"304")


async def pass_upgrade(
    request: web.BaseRequest, backend: socket.socket, headers: Iterable[tuple[str, str]]
) -> web.StreamResponse:
    """Pass the request on; its answer, and all that follows where it is 101; raise OSError."""
    wanted = request.headers.get("Upgrade", "")
    asked = [*headers, ("Connection", "Upgrade"), ("Upgrade", wanted)]
    reader, writer = await asyncio.open_connection(sock=backend, limit=_MAX_HEAD)
    try:
        writer.write(request_head(request.method, request.raw_path, asked))
        head = await _head(reader)
        mine = take_over(request)
        if head.split(b" ", 2)[1:2] == [b"101"]:
            mine[1].write(head)
            await join(mine, (reader, writer))
        else:
            await _pass_answer(request.method, head, reader, mine[1])
    finally:
        writer.close()
    return Taken()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT):
            return await reader.readuntil(b"\r\n\r\n")
    except (EOFError, asyncio.LimitOverrunError) as error:
        raise ConnectionResetError("the backend does not answer as HTTP has it") from error


async def _pass_answer(
    method: str, head: bytes, reader: asyncio.StreamReader, client: asyncio.StreamWriter
) -> None:
    """Pass on the answer of a backend that does not upgrade, and end the client's connection."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    fields = [(line.partition(b":")[0].strip().lower(), line) for line in lines]
    kept = [line for name, line in fields if name.decode("latin-1") not in HOP_BY_HOP]
    named = {name: line.partition(b":")[2].strip().lower() for name, line in fields}
    is_chunked = named.get(b"transfer-encoding", b"") == b"chunked"
    kept += [b"Transfer-Encoding: chunked"] if is_chunked else []
    try:
        client.write(b"\r\n".join([first, *kept, b"Connection: close", b"", b""]))
        if method != "HEAD" and first.split(b" ", 2)[1:2] not in ([one] for one in _BODILESS):
            await _pass_body(named, reader, client, is_chunked=is_chunked)
        await client.drain()
    except (OSError, EOFError, ValueError):
        pass  # one of them has gone, and the client learns of it by the end
    finally:
        client.close()


async def _pass_body(
    named: dict[bytes, bytes],
    reader: asyncio.StreamReader,
    client: asyncio.StreamWriter,
    *,
    is_chunked: bool,
) -> None:
    if is_chunked:
        while size := await _chunk_size(reader, client):
            await _copy(reader, client, size + 2)
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            client.write(line)
        client.write(b"\r\n")
    else:
        length = named.get(b"content-length")
        await _copy(reader, client, int(length[:19]) if length is not None else None)


async def _chunk_size(reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> int:
    line = await reader.readuntil(b"\r\n")
    client.write(line)
    return int(line.partition(b";")[0].strip()[:16], 16)


async def _copy(
    reader: asyncio.StreamReader, client: asyncio.StreamWriter, left: int | None
) -> None:
    """Copy so many bytes, or all that come."""
    while left is None or left > 0:
        data = await reader.read(_CHUNK if left is None else min(left, _CHUNK))
        if not data:
            return
        client.write(data)
        await client.drain()
        left = left if left is None else left - len(data)
