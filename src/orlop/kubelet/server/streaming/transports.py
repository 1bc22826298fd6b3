"""Carries a byte stream: over a connection that was taken over, or a WebSocket used as a tunnel.

Used by SPDY sessions. Writing waits for the other end; reading answers empty when it has gone.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from aiohttp import WSMsgType, web

_CHUNK = 64 << 10


class Transport(Protocol):
    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


class RawTransport:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the client has gone")
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()


class WebSocketTransport:
    """Carries bytes in binary messages whose bounds mean nothing."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                if message.data:
                    return bytes(message.data)
            elif message.type is not WSMsgType.TEXT:
                return b""

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(data)

    async def close(self) -> None:
        await self._socket.close()
