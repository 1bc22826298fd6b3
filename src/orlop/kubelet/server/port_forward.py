"""Serves port-forward: connections of a client joined to ports of a pod, through its agent.

Called by the server for an authenticated request. A client opens pairs of SPDY streams, directly or
in a WebSocket tunnel, or names its ports at once and has two WebSocket channels for each. Each
connection is a session with the agent; one that fails says why, and the others go on.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from ...api.names import is_port
from ...errors import BadRequest
from ...log import logger
from ...upgrade import Taken
from ..agents.sessions import SessionFailed
from .exec import FAREWELL, negotiate, upgrade_to_spdy
from .streaming.channels import FORWARD_PROTOCOLS, MAX_MESSAGE, Channels
from .streaming.pipe import Pipe
from .streaming.spdy import SpdyError
from .streaming.spdy_session import SpdySession, SpdyStream
from .streaming.transports import Transport, WebSocketTransport

PROTOCOL = "portforward.k8s.io"
TUNNEL = f"SPDY/3.1+{PROTOCOL}"
DATA, ERROR = "data", "error"
MAX_PORTS = 256  # that one request may name
MAX_WAITING = 256  # streams of a connection, whose other half has not been opened
LAST_WORDS = 1.0  # seconds for a client to end after the pod's side has, as containerd

log = logger(__name__)


class Stream(Protocol):
    """Bytes to and from a port of the pod."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    def end(self) -> None: ...


class Session(Protocol):
    """A connection to a port of the pod, by its agent or by whoever stands for the pod."""

    @property
    def main(self) -> Stream: ...

    async def opened(self) -> None:
        """Wait until it is open; raise SessionFailed with the reason why it is not."""
        ...

    def close(self) -> None: ...


Connect = Callable[[int], Session]


class Pair(Protocol):
    """One connection of a client: data both ways, and a place for an error."""

    port: int

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None:
        """Say that no more data comes from the pod."""
        ...

    async def fail(self, words: str) -> None: ...


async def serve(request: web.BaseRequest, name: str, connect: Connect) -> web.StreamResponse:
    """Upgrade the request and forward until the client has gone; `name` is the pod's, in words."""
    if request.headers.get("Upgrade", "").lower() == "websocket":
        return await _over_websocket(request, name, connect)
    transport = upgrade_to_spdy(request, negotiate(request, (PROTOCOL,)))
    try:
        await _over_spdy(transport, name, connect)
    finally:
        await transport.close()
    return Taken()


async def _over_websocket(
    request: web.BaseRequest, name: str, connect: Connect
) -> web.StreamResponse:
    offered = request.headers.get("Sec-WebSocket-Protocol", "")
    ports = [] if TUNNEL in offered else ports_of(request)
    socket = web.WebSocketResponse(
        protocols=(TUNNEL, *FORWARD_PROTOCOLS),
        max_msg_size=MAX_MESSAGE,
        compress=False,
        timeout=FAREWELL,
    )
    await socket.prepare(request)
    if socket.ws_protocol == TUNNEL:
        await _over_spdy(WebSocketTransport(socket), name, connect)
    else:
        await _over_channels(socket, ports, name, connect)
    return socket


def ports_of(request: web.BaseRequest) -> list[int]:
    """Parse ?ports=80&ports=443, or separated by commas; upstream's words where there is none."""
    words = [word for text in request.query.getall("ports", []) for word in text.split(",")]
    names = [*words, *request.query.getall("port", [])]
    if not names:
        raise BadRequest('query parameter "port" is required')
    if not all(is_port(name) for name in names):
        raise BadRequest(f"unable to parse {names[:MAX_PORTS]} as ports")
    if len(names) > MAX_PORTS:
        raise BadRequest(f"{len(names)} ports are more than the {MAX_PORTS} that may be named")
    return [int(name) for name in names]


# Pairs of SPDY streams


class StreamPair:
    def __init__(self, streams: dict[str, SpdyStream]) -> None:
        self._data, self._error = streams[DATA], streams[ERROR]
        port = self._data.headers.get("port", "")
        if not is_port(port):
            raise SpdyError(f"{port[:20]!r} is no port")
        self.port = int(port)

    async def read(self) -> bytes:
        return await self._data.read()

    async def write(self, data: bytes) -> None:
        await self._data.write(data)

    async def end(self) -> None:
        await self._error.end()
        await self._data.end()

    async def fail(self, words: str) -> None:
        await self._error.write(words.encode())
        await self.end()

    def forget(self) -> None:
        self._data.forget()
        self._error.forget()


class Pairing:
    """Finds the two streams of a connection, which come one after the other."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, SpdyStream]] = {}

    def add(self, stream: SpdyStream) -> StreamPair | None:
        # Clients of before requestID opened the error stream first, and the data stream next.
        number = stream.number if stream.kind == ERROR else stream.number - 2
        request = stream.headers.get("requestid") or str(number)
        if request not in self._waiting and len(self._waiting) >= MAX_WAITING:
            raise SpdyError(f"more than {MAX_WAITING} streams wait for their other half")
        streams = self._waiting.setdefault(request, {})
        if stream.kind not in (DATA, ERROR) or stream.kind in streams:  # nobody would ever read it
            raise SpdyError(f"a stream of type {stream.kind[:20]!r} that no pair has room for")
        streams[stream.kind] = stream
        if not {DATA, ERROR} <= streams.keys():
            return None
        return StreamPair(self._waiting.pop(request))


async def _over_spdy(transport: Transport, name: str, connect: Connect) -> None:
    pairing = Pairing()
    forwarding: set[asyncio.Task[None]] = set()
    try:
        async with asyncio.TaskGroup() as tasks:

            def on_stream(stream: SpdyStream) -> None:
                pair = pairing.add(stream)
                if pair is not None:
                    work = _forward_and_forget(pair, name, connect)
                    task = tasks.create_task(work, name=f"port {pair.port} of {name}")
                    forwarding.add(task)
                    task.add_done_callback(forwarding.discard)

            session = SpdySession(transport, on_stream)
            pings = tasks.create_task(session.keep_alive(), name="pings of a client")
            await session.run()
            for task in (pings, *forwarding):
                task.cancel()
    except* (OSError, SpdyError, ValueError) as gone:
        log.debug("a client went away", error=gone.exceptions[0])


async def _forward_and_forget(pair: StreamPair, name: str, connect: Connect) -> None:
    try:
        await forward(pair, name, connect)
    finally:
        pair.forget()


# Pairs of WebSocket channels


class ChannelPair:
    """Channels 2i and 2i+1 of the i-th port; each begins with the port's number."""

    def __init__(self, channels: Channels, index: int, port: int, received: Pipe) -> None:
        self._channels, self._number, self.port = channels, 2 * index, port
        self._received = received

    async def begin(self) -> None:
        for number in (self._number, self._number + 1):
            await self._channels.write(number, struct.pack("<H", self.port))

    async def read(self) -> bytes:
        return await self._received.read()

    async def write(self, data: bytes) -> None:
        await self._channels.write(self._number, data)

    async def end(self) -> None:
        """Do nothing: this protocol has no word for an end."""

    async def fail(self, words: str) -> None:
        await self._channels.write(self._number + 1, words.encode())


async def _over_channels(
    socket: web.WebSocketResponse, ports: list[int], name: str, connect: Connect
) -> None:
    pipes = {2 * index: Pipe() for index in range(len(ports))}
    channels = Channels(socket, pipes)
    try:
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(channels.listen(), name="what a client says")
            pairs = [ChannelPair(channels, i, port, pipes[2 * i]) for i, port in enumerate(ports)]
            forwarding = [
                tasks.create_task(_begin_and_forward(pair, name, connect), name=f"port {pair.port}")
                for pair in pairs
            ]
            over = tasks.create_task(asyncio.wait(forwarding), name="all ports")
            await asyncio.wait((listening, over), return_when=asyncio.FIRST_COMPLETED)
            for task in (over, *forwarding):
                task.cancel()
            await channels.close()
            listening.cancel()
    except* OSError as gone:
        log.debug("a client went away", error=gone.exceptions[0])


async def _begin_and_forward(pair: ChannelPair, name: str, connect: Connect) -> None:
    await pair.begin()
    await forward(pair, name, connect)


# One connection


async def forward(pair: Pair, name: str, connect: Connect) -> None:
    """Forward both ways until both have ended."""
    session = connect(pair.port)
    try:
        await session.opened()
        async with asyncio.TaskGroup() as tasks:
            to_pod = tasks.create_task(_to_pod(pair, session), name="to a port")
            while data := await session.main.read():
                await pair.write(data)
            await pair.end()
            await asyncio.wait((to_pod,), timeout=LAST_WORDS)
            to_pod.cancel()
    except SessionFailed as failed:
        why = f"failed to connect to localhost:{pair.port} inside the pod: {failed}"
        await pair.fail(f"error forwarding port {pair.port} to pod {name}: {why}")
    finally:
        session.close()


async def _to_pod(pair: Pair, session: Session) -> None:
    while data := await pair.read():
        await session.main.write(data)
    session.main.end()
