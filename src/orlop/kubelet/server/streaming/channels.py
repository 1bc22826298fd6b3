"""Carries streams over one WebSocket, each message beginning with the number of its channel.

Used for remote commands and port-forwarding of clients that do not speak SPDY. Channels are bytes,
or with base64 a digit and text. From v5 on a client can close a channel; before, only everything.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping

from aiohttp import WSMsgType, web

from ....api.objects import Obj
from .client import ERROR, RESIZE, STDERR, STDIN, STDOUT, Wanted, size_in
from .pipe import Pipe
from .status import encode

V5, V4, BASE64_V4 = "v5.channel.k8s.io", "v4.channel.k8s.io", "base64.v4.channel.k8s.io"
V1, BASE64_V1 = "channel.k8s.io", "base64.channel.k8s.io"
COMMAND_PROTOCOLS = (V5, V4, BASE64_V4, V1, BASE64_V1)
FORWARD_PROTOCOLS = (V4, BASE64_V4)
NUMBERS = {STDIN: 0, STDOUT: 1, STDERR: 2, ERROR: 3, RESIZE: 4}
CLOSE = 255
PING_INTERVAL = 15.0
MAX_MESSAGE = 16 << 20


class Channels:
    """The channels of one WebSocket; those that the client may write to have a pipe."""

    def __init__(self, socket: web.WebSocketResponse, pipes: Mapping[int, Pipe]) -> None:
        self._socket, self._pipes = socket, pipes
        protocol = socket.ws_protocol or ""
        self._is_base64 = protocol.startswith("base64.")
        self._can_close = protocol == V5

    async def listen(self) -> None:
        """Listen until the client goes."""
        async with asyncio.TaskGroup() as tasks:
            pings = tasks.create_task(self._keep_alive(), name="pings of a client")
            try:
                await self._take_all()
            finally:
                pings.cancel()
                for pipe in self._pipes.values():
                    pipe.end()

    async def _take_all(self) -> None:
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                await self._take(bytes(message.data))
            elif message.type is WSMsgType.TEXT:
                await self._take(message.data.encode())
            else:
                return

    async def _take(self, message: bytes) -> None:
        if not message:
            return
        if self._can_close and message[0] == CLOSE:
            if len(message) > 1 and message[1] in self._pipes:
                self._pipes[message[1]].end()
            return
        number, data = message[0], message[1:]
        if self._is_base64:
            number -= ord("0")
            try:
                data = base64.b64decode(data)
            except binascii.Error:
                return
        pipe = self._pipes.get(number)
        if pipe is not None:
            pipe.feed(data)
            await pipe.room()

    async def _keep_alive(self) -> None:
        """Keep the connection alive; not by aiohttp's heartbeat: an answer is not heard while a
        channel's reader is slow.
        """
        while True:
            await asyncio.sleep(PING_INTERVAL)
            await self._socket.ping()

    async def write(self, number: int, data: bytes) -> None:
        if self._is_base64:
            await self._socket.send_str(str(number) + base64.b64encode(data).decode())
        else:
            await self._socket.send_bytes(bytes([number]) + data)

    def discard(self) -> None:
        for pipe in self._pipes.values():
            pipe.discard()

    async def close(self) -> None:
        await self._socket.close()


class ChannelClient:
    """See client.Client."""

    def __init__(self, socket: web.WebSocketResponse, wanted: Wanted) -> None:
        self._wanted = wanted
        self._input, self._sizes = Pipe(), Pipe()
        if not wanted.stdin:
            self._input.end()
        self._channels = Channels(socket, {0: self._input, 4: self._sizes})
        self._is_json = "v4" in (socket.ws_protocol or "") or socket.ws_protocol == V5

    async def listen(self) -> None:
        await self._channels.listen()

    async def ready(self) -> None:
        """Send an empty message: it tells the client that all is set up, as upstream's server
        does.
        """
        first = STDOUT if self._wanted.stdout else STDERR if self._wanted.stderr else ERROR
        await self._channels.write(NUMBERS[first], b"")

    async def read_input(self) -> bytes:
        return await self._input.read()

    async def read_size(self) -> tuple[int, int] | None:
        while data := await self._sizes.read():
            size = size_in(data)
            if size is not None:
                return size
        return None

    async def write(self, name: str, data: bytes) -> None:
        if name in self._wanted.streams():
            await self._channels.write(NUMBERS[name], data)

    async def finish(self, status: Obj) -> None:
        self._channels.discard()
        words = encode(status, is_json=self._is_json)
        if words:
            await self._channels.write(NUMBERS[ERROR], words)
        await self._channels.close()
