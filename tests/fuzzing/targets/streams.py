"""What clients of exec, attach and port-forward speak: SPDY, and WebSocket with its channels."""

from __future__ import annotations

import asyncio
import struct
import zlib
from types import SimpleNamespace
from typing import Any

from aiohttp import WSMessage, WSMsgType
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_websocket import WebSocketError, WebSocketReader

from orlop.kubelet.agents.sessions import SessionFailed
from orlop.kubelet.server import exec, port_forward
from orlop.kubelet.server.streaming import spdy
from orlop.kubelet.server.streaming import spdy_session as sessions
from orlop.kubelet.server.streaming.channels import MAX_MESSAGE, V5, ChannelClient
from orlop.kubelet.server.streaming.client import SPDY_PROTOCOLS, SpdyClient, Wanted, size_in
from orlop.kubelet.server.streaming.spdy_dictionary import DICTIONARY

from ..target import Loop, Registry, Target, encoded

target = Registry()
WANTED = Wanted(stdin=True, stdout=True, stderr=True, tty=True)


def _opening() -> bytes:
    """What a Go client says at the start of a command."""
    codec, said = spdy.Codec(), b""
    for number, kind in enumerate(("error", "stdin", "stdout", "stderr", "resize")):
        said += codec.open(2 * number + 1, {"streamtype": kind, "port": "80", "requestid": "0"})
    said += spdy.data(3, b"hello") + spdy.data(9, b'{"Width":80,"Height":24}\n')
    return said + spdy.ping(struct.pack(">I", 1)) + spdy.data(3, b"", is_last=True)


def _forwarding() -> bytes:
    codec, said = spdy.Codec(), b""
    for number, (kind, request) in enumerate((("error", "0"), ("data", "0"), ("error", "1"))):
        headers = {"streamtype": kind, "port": "8080", "requestid": request}
        said += codec.open(2 * number + 1, headers)
    return said + spdy.data(3, b"GET / HTTP/1.0\r\n\r\n") + spdy.reset(1) + spdy.go_away(3)


def _plain_headers(pairs: bytes) -> bytes:
    """A SYN_STREAM whose header block, before it is compressed, is whatever one likes."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, 15, 9, 0, DICTIONARY)
    block = deflate.compress(pairs) + deflate.flush(zlib.Z_SYNC_FLUSH)
    payload = struct.pack(">IIH", 1, 0, 0) + block
    return struct.pack(">HHI", 0x8003, 1, len(payload)) + payload


_SPDY_SEEDS = (
    _opening(),
    _forwarding(),
    spdy.ping(b""),
    struct.pack(">HHI", 0x8003, 4, 12) + struct.pack(">III", 1, 0x04000000, 65536),
    struct.pack(">HHI", 0x8003, 9, 8) + struct.pack(">II", 1, 0x7FFFFFFF),
)
_SPDY_WORDS = (
    *(struct.pack(">HH", 0x8003, kind) for kind in (1, 2, 3, 4, 6, 7, 8, 9)),
    *(b"\0\0\0\1", b"\0\0\0\3", b"\x80\3\0\6\0\0\0\4", b"\1\0\0\0", b"\0\1\0\0", b"\x78\xbb"),
)


@target("spdy-frames", "kubelet/server/streaming/spdy.py, whole and in pieces", "whoever may exec")
def spdy_frames() -> Target:
    def run(data: bytes) -> None:
        codec = spdy.Codec()
        for start in range(0, len(data), 512):
            codec.feed(data[start : start + 512])

    return Target(run, _SPDY_SEEDS, _SPDY_WORDS, (spdy.SpdyError,))


@target("spdy-headers", "blocks of headers inside SPDY's compression", "whoever may exec")
def spdy_headers() -> Target:
    def run(data: bytes) -> None:
        spdy.Codec().feed(_plain_headers(data))

    seed = struct.pack(">I", 2)
    for word in (b"streamtype", b"data", b"port", b"80"):
        seed += struct.pack(">I", len(word)) + word
    words = encoded(("streamtype", "requestid"))
    return Target(run, (seed, b"\0" * 4), words, (spdy.SpdyError,), largest=1 << 19)


class Session:
    """A command's, or a connection's, that takes all and answers with little."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.main = self.errors = self
        self._left, self._is_there = [b"out", b""], is_there

    async def opened(self) -> None:
        if not self._is_there:
            raise SessionFailed("nobody is there")

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        return self._left.pop(0) if self._left else b""

    async def write(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def close(self) -> None: ...

    def resize(self, width: int, height: int) -> None:
        struct.pack("HH", width & 0xFFFF, height & 0xFFFF)

    async def exit_code(self) -> int:
        return 0


_PING = spdy.ping(b"")[:4]


class Transport:
    def __init__(self, data: bytes) -> None:
        self._parts = [data[at : at + 4096] for at in range(0, len(data), 4096)] + [b""]

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        return self._parts.pop(0) if self._parts else b""

    async def write(self, data: bytes) -> None:
        """A client whose streams nobody reads waits, and is gone when we next ask after it."""
        if data[:4] == _PING and data[-1] % 2 == 0:
            raise ConnectionResetError

    async def close(self) -> None: ...


@target(
    "spdy-session",
    "remote commands and port-forwarding over SPDY, to their sessions",
    "whoever may exec",
)
def spdy_session() -> Target:
    loop = Loop()

    def connect(port: int) -> Session:
        return Session(is_there=port % 2 == 0)

    async def both(data: bytes) -> None:
        client = SpdyClient(Transport(data), WANTED, SPDY_PROTOCOLS[0])
        await exec.converse(client, Session())  # type: ignore[arg-type]
        await port_forward._over_spdy(Transport(data), "p", connect)  # type: ignore[arg-type]

    def run(data: bytes) -> None:
        loop.run(lambda: both(data))

    exec.FAREWELL = port_forward.LAST_WORDS = 0.01
    sessions.PING_INTERVAL = 0.2
    return Target(run, _SPDY_SEEDS, _SPDY_WORDS, (SessionFailed,))


# WebSocket


def _frame(kind: int, payload: bytes, *, is_last: bool = True) -> bytes:
    """As a client masks it."""
    head = bytes([(0x80 if is_last else 0) | kind])
    size = len(payload)
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    return head + b"\0\0\0\0" + payload


class Socket:
    """A WebSocketResponse after its handshake, as far as channels need one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: str, data: bytes) -> None:
        self.ws_protocol = protocol
        wire = SimpleNamespace(pause_reading=lambda: None, resume_reading=lambda: None)
        base = BaseProtocol(loop)
        base.transport = wire  # type: ignore[assignment]
        self._queue = WebSocketDataQueue(base, 1 << 16, loop=loop)
        reader = WebSocketReader(self._queue, MAX_MESSAGE, False, True)
        is_over, _ = reader.feed_data(data)
        if not is_over:
            reader.feed_eof()
        self._reader = reader

    async def receive(self) -> WSMessage:
        try:
            return await self._queue.read()  # type: ignore[return-value]
        except (WebSocketError, EOFError, AttributeError):
            raise
        except Exception:
            return WSMessage(WSMsgType.CLOSED, None, None)

    async def send_bytes(self, data: bytes) -> None: ...

    async def send_str(self, text: str) -> None: ...

    async def ping(self) -> None: ...

    async def close(self) -> None: ...


_CHANNEL_SEEDS = (
    _frame(2, b"\0hello") + _frame(2, b'\4{"Width":80,"Height":24}') + _frame(2, b"\xff\0"),
    _frame(1, b"0aGVsbG8=") + _frame(9, b"ping") + _frame(8, struct.pack(">H", 1000) + b"bye"),
    _frame(2, b"\0he", is_last=False) + _frame(0, b"llo") + _frame(10, b""),
    _frame(2, b"\0" + b"x" * 200),
)


@target(
    "websocket-channels",
    "aiohttp's frames as we set them up, and kubelet/server/streaming/channels.py",
    "whoever may exec",
)
def websocket_channels() -> Target:
    loop = Loop()

    async def take(data: bytes) -> None:
        for protocol in (V5, "base64.v4.channel.k8s.io", ""):
            try:
                socket: Any = Socket(loop.loop, protocol, data)
                await exec.converse(ChannelClient(socket, WANTED), Session())  # type: ignore[arg-type]
            except* (WebSocketError, EOFError):
                pass

    def run(data: bytes) -> None:
        loop.run(lambda: take(data))

    words = (
        *(bytes([0x80 | kind, 0x80]) for kind in (0, 1, 2, 8, 9, 10)),
        b"\xfe\xff\xff",
        b"\xff",
    )
    exec.FAREWELL = 0.01
    return Target(run, _CHANNEL_SEEDS, words)


@target("terminal-size", "kubelet/server/streaming/client.py: size_in", "whoever may exec")
def terminal_size() -> Target:
    seeds = (b'{"Width":80,"Height":24}\n', b'{"Width":1e3,"Height":"24"}\n{"Width":null}\n')
    return Target(size_in, seeds, encoded(("Width", "Height")), is_json=True)
