"""Answers that go on: watches over chunked HTTP or WebSocket, and logs.

Called by the dispatcher. A stream ends when its time is over, when the server stops or when the
client goes; a watch that fails after it began says so in an ERROR event, as its status has been
sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import chain

from aiohttp import StreamReader, WSMsgType, web

from ...errors import ApiError
from ..verbs.watch import Seen
from .render import Renderer, encode, pieces_of

Batches = AsyncGenerator[list[Seen], None]
Parts = tuple[bytes, ...]  # of an event
Write = Callable[[Iterable[Parts]], Awaitable[None]]
_MAX_SAID = 4 << 10


async def watch_over_http(
    request: web.BaseRequest, batches: Batches, renderer: Renderer
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.headers["Cache-Control"] = "no-cache, private"
    response.enable_chunked_encoding()
    await response.prepare(request)

    async def write(events: Iterable[Parts]) -> None:
        for piece in pieces_of(chain.from_iterable(events)):
            await response.write(piece)

    await _send(batches, renderer, write)
    await response.write_eof()
    return response


async def watch_over_websocket(
    request: web.BaseRequest, batches: Batches, renderer: Renderer
) -> web.StreamResponse:
    """Send one text message for each event; the Java client watches so."""
    # Who watches has nothing to say but that it goes.
    socket = web.WebSocketResponse(max_msg_size=_MAX_SAID, compress=False)
    await socket.prepare(request)

    async def write(events: Iterable[Parts]) -> None:
        for event in events:
            await socket.send_frame(b"".join(event).rstrip(), WSMsgType.TEXT)

    async with asyncio.TaskGroup() as tasks:
        sender = tasks.create_task(_send_and_close(batches, renderer, write, socket))
        async for message in socket:
            if message.type is WSMsgType.ERROR:
                break
        sender.cancel()
    return socket


async def _send_and_close(
    batches: Batches,
    renderer: Renderer,
    write: Write,
    socket: web.WebSocketResponse,
) -> None:
    await _send(batches, renderer, write)
    await socket.close()


async def _send(batches: Batches, renderer: Renderer, write: Write) -> None:
    is_first = True
    try:
        async with aclosing(batches):
            async for batch in batches:
                await write(_events(batch, renderer, is_first=is_first))
                is_first = False
    except ApiError as error:
        await write([(b'{"type":"ERROR","object":', encode(error.status()), b"}\n")])
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the client went


def _events(batch: list[Seen], renderer: Renderer, *, is_first: bool) -> Iterator[Parts]:
    """Yield events one by one, as they are written: a large initial list would be much at once."""
    for number, seen in enumerate(batch):
        yield renderer.event(seen, is_first=is_first and number == 0)


async def copy_log(request: web.BaseRequest, source: StreamReader | None) -> web.StreamResponse:
    """Copy a log chunk by chunk, so that `logs -f` shows a line when it is written."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    if source is not None:
        try:
            while chunk := await source.readany():
                await response.write(chunk)
        except ConnectionError:
            return response
    await response.write_eof()
    return response
