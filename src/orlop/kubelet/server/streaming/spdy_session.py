"""Runs a SPDY/3.1 connection of one client: its streams, each to be read and written apart.

Made by remote commands and port-forwarding over a taken-over connection, or over a WebSocket that
tunnels one. `run` is the only reader and must run for streams to be filled. A stream whose reader
is slow holds up the whole connection, after a while: SPDY as Go speaks it has no way around that.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping

from . import spdy
from .pipe import Pipe
from .transports import Transport

MAX_STREAMS = 4096
MAX_UNREAD = 64 << 10  # bytes of one stream: there may be many, and nobody need read any of them
PING_INTERVAL = 15.0  # what is written to a client that is gone shows that it is


class SpdyStream:
    """One stream that the client has opened."""

    def __init__(self, session: SpdySession, number: int, headers: Mapping[str, str]) -> None:
        self._session, self.number, self.headers = session, number, headers
        self.received = Pipe(MAX_UNREAD)
        self._has_ended = False

    @property
    def kind(self) -> str:
        return self.headers.get("streamtype", "")

    async def read(self) -> bytes:
        return await self.received.read()

    async def write(self, payload: bytes) -> None:
        if not self._has_ended:
            await self._session.send(spdy.data(self.number, payload))

    async def end(self) -> None:
        """Say that no more comes from us."""
        if not self._has_ended:
            self._has_ended = True
            await self._session.send(spdy.data(self.number, b"", is_last=True))

    async def reset(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            await self._session.send(spdy.reset(self.number))
        self.forget()

    def forget(self) -> None:
        self._session.forget(self)

    def on_reset(self) -> None:
        self._has_ended = True
        self.received.end()


class SpdySession:
    def __init__(
        self,
        transport: Transport,
        on_stream: Callable[[SpdyStream], None],
        most: int = MAX_STREAMS,
    ) -> None:
        self._transport, self._on_stream, self._most = transport, on_stream, most
        self._codec = spdy.Codec()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0

    async def send(self, frame: bytes) -> None:
        await self._transport.write(frame)

    async def run(self) -> None:
        """Run until the client goes; raise SpdyError where it speaks something else."""
        try:
            while received := await self._transport.read():
                for event in self._codec.feed(received):
                    await self._on_event(event)
        finally:
            for stream in self._streams.values():
                stream.received.end()

    async def keep_alive(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(PING_INTERVAL)
            number += 2  # ours are even
            await self.send(spdy.ping(struct.pack(">I", number)))

    async def _on_event(self, event: spdy.Event) -> None:
        match event:
            case spdy.Opened():
                await self._open(event)
            case spdy.Data() if event.stream in self._streams:
                stream = self._streams[event.stream]
                stream.received.feed(event.data)
                if event.is_last:
                    stream.received.end()
                await stream.received.room()
            case spdy.Reset() if event.stream in self._streams:
                self._streams.pop(event.stream).on_reset()
            case spdy.Pinged() if struct.unpack(">I", event.payload)[0] % 2:
                await self.send(spdy.ping(event.payload))

    async def _open(self, event: spdy.Opened) -> None:
        if len(self._streams) >= self._most:
            raise spdy.SpdyError(f"more than {self._most} streams at once")
        if event.stream <= self._last:
            raise spdy.SpdyError(f"stream {event.stream} is opened after {self._last}")
        self._last = event.stream
        stream = self._streams[event.stream] = SpdyStream(self, event.stream, event.headers)
        if event.is_last:
            stream.received.end()
        await self.send(self._codec.reply(event.stream))
        self._on_stream(stream)

    def forget(self, stream: SpdyStream) -> None:
        self._streams.pop(stream.number, None)
        stream.received.discard()

    def discard(self) -> None:
        """Discard what is left: no stream is read any more."""
        for stream in self._streams.values():
            stream.received.discard()

    async def close(self) -> None:
        await self.send(spdy.go_away(self._last))
        await self._transport.close()
