"""Answers that go on: watches over chunked HTTP or WebSocket, and logs.

Called by the dispatcher. A stream ends when its time is over, when the server stops or when the
client goes; a watch that fails after it began says so in an ERROR event, as there is no other way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from aiohttp import StreamReader, WSMsgType, web

from ..errors import ApiError
from .render import Renderer, encode
from .verbs.watch import Seen

Batches = AsyncGenerator[list[Seen], None]
_FRAMES = 128  # events written at once: a large initial list must not hold the event loop
_CHUNK = 64 << 10
_MAX_SAID = 4 << 10


async def watch_over_http(
    request: web.BaseRequest, batches: Batches, renderer: Renderer
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.headers["Cache-Control"] = "no-cache, private"
    response.enable_chunked_encoding()
    await response.prepare(request)
    await _send(batches, renderer, response.write)
    await response.write_eof()
    return response


async def watch_over_websocket(
    request: web.BaseRequest, batches: Batches, renderer: Renderer
) -> web.StreamResponse:
    """One text message an event; the Java client watches so."""
    # Who watches has nothing to say but that it goes.
    socket = web.WebSocketResponse(max_msg_size=_MAX_SAID, compress=False)
    await socket.prepare(request)

    async def write(frames: bytes) -> None:
        for frame in frames.splitlines():
            await socket.send_str(frame.decode())

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
    write: Callable[[bytes], Awaitable[None]],
    socket: web.WebSocketResponse,
) -> None:
    await _send(batches, renderer, write)
    await socket.close()


async def _send(
    batches: Batches, renderer: Renderer, write: Callable[[bytes], Awaitable[None]]
) -> None:
    is_first = True
    try:
        async with aclosing(batches):
            async for batch in batches:
                for start in range(0, len(batch), _FRAMES):
                    frames = []
                    for seen in batch[start : start + _FRAMES]:
                        frames.append(renderer.event(seen, is_first=is_first))
                        is_first = False
                    await write(b"".join(frames))
    except ApiError as error:
        await write(b'{"type":"ERROR","object":%b}\n' % encode(error.status()))
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the client went


async def copy_log(request: web.BaseRequest, source: StreamReader | None) -> web.StreamResponse:
    """Chunk by chunk as they come, so that `logs -f` shows a line when it is written."""
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
