"""Stands for whoever runs a remote command, by any protocol: input, sizes, output, an end.

`Client` is all that a remote command knows; SpdyClient is one of its two forms, and `channels.py`
has the other. What the command is does not matter here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from ....api.objects import Obj
from ....api.reading import decode_json
from .spdy_session import SpdySession, SpdyStream
from .status import encode
from .transports import Transport

STDIN, STDOUT, STDERR, ERROR, RESIZE = "stdin", "stdout", "stderr", "error", "resize"
SPDY_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
MAX_STREAMS = 16  # of one command, which has five at most
STREAMS_TIME = 30.0  # to open all streams of a command, as upstream


@dataclass(frozen=True, slots=True)
class Wanted:
    """The streams that a remote command has."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    def streams(self) -> set[str]:
        named = {STDIN: self.stdin, STDOUT: self.stdout, STDERR: self.stderr, ERROR: True}
        return {name for name, is_wanted in named.items() if is_wanted}


class ClientGone(Exception):
    """Raised where the client has gone."""


class Client(Protocol):
    async def listen(self) -> None:
        """Take in what the client says, until it has gone."""
        ...

    async def ready(self) -> None:
        """Wait until all that was asked for can be used."""
        ...

    async def read_input(self) -> bytes:
        """Return the next input; empty when there is no more."""
        ...

    async def read_size(self) -> tuple[int, int] | None:
        """Return the next width and height; None when there is no more."""
        ...

    async def write(self, name: str, data: bytes) -> None: ...

    async def finish(self, status: Obj) -> None:
        """Say how it ended; what the client still says is not read."""
        ...


class SpdyClient:
    """A client that opens a SPDY stream for each of the command's."""

    def __init__(self, transport: Transport, wanted: Wanted, protocol: str) -> None:
        self._session = SpdySession(transport, self._on_stream, MAX_STREAMS)
        self._names = wanted.streams()
        if wanted.tty and protocol in SPDY_PROTOCOLS[:2]:
            self._names.add(RESIZE)
        self._is_json = protocol == SPDY_PROTOCOLS[0]
        self._streams: dict[str, SpdyStream] = {}
        self._is_complete = asyncio.Event()

    def _on_stream(self, stream: SpdyStream) -> None:
        self._streams[stream.kind] = stream
        if self._names <= self._streams.keys():
            self._is_complete.set()

    async def listen(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            pings = tasks.create_task(self._session.keep_alive(), name="pings of a client")
            await self._session.run()
            pings.cancel()

    async def ready(self) -> None:
        try:
            async with asyncio.timeout(STREAMS_TIME):
                await self._is_complete.wait()
        except TimeoutError as error:
            missing = ", ".join(sorted(self._names - self._streams.keys()))
            raise ClientGone(f"the client did not open: {missing}") from error

    async def read_input(self) -> bytes:
        return await self._streams[STDIN].read() if STDIN in self._streams else b""

    async def read_size(self) -> tuple[int, int] | None:
        if RESIZE not in self._streams:
            return None
        while data := await self._streams[RESIZE].read():
            size = size_in(data)
            if size is not None:
                return size
        return None

    async def write(self, name: str, data: bytes) -> None:
        if name in self._streams:
            await self._streams[name].write(data)

    async def finish(self, status: Obj) -> None:
        self._session.discard()
        words = encode(status, is_json=self._is_json)
        if words:
            await self._streams[ERROR].write(words)
        for stream in self._streams.values():
            await stream.end()


def size_in(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a terminal; the last of several that came together."""
    for line in reversed(data.splitlines()):
        try:
            size = decode_json(line)
            return int(size["Width"]), int(size["Height"])
        except (ArithmeticError, LookupError, TypeError, ValueError):
            continue
    return None
