"""Serves the kubelet's end of an agent's connection: frames, messages, logs and sessions over them.

The server hands over an upgraded connection; `serve` speaks on it until it breaks. What agents
report goes to `AgentEventHandler`, at once and in order. A log stream that its reader does not
empty is closed and asked for again later, so that a slow reader does not hold up the pod's reports.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any, Protocol

import msgspec

from ...log import Logger, logger
from ...wellknown import FRAME_HEADER, MAX_FRAME
from ..pod.pods import PodState
from .journal import Record, record_of
from .sessions import AgentErrand, AgentSession

PING_INTERVAL = 20.0
SILENCE = 65.0  # three pings without an answer
MAX_BUFFERED = 4 << 20  # bytes of a log that wait for its reader
MAX_UNREAD = 8 << 20  # bytes that an agent does not read
AGENTS_OWN = 1 << 31  # numbers from here on are of streams that the agent opens

# What a message that is none makes of those who read it.
GARBLED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    msgspec.MsgspecError,
)

_HEADER = struct.Struct(FRAME_HEADER)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()

log = logger(__name__)


class AgentEventHandler(Protocol):
    """The receiver of what agents say."""

    def on_hello(self, state: PodState, message: dict[str, Any]) -> None: ...

    def on_record(self, state: PodState, record: Record) -> None: ...

    def on_start(self, state: PodState, errand: AgentErrand, message: dict[str, Any]) -> None:
        """Take a request: a container of the pod wants a command started in another pod of its
        group.
        """
        ...

    def on_network(self, state: PodState, message: dict[str, Any], line: str) -> None:
        """Take what the network of the pod listens at, or wants to know ("net-...").

        `line` is empty for the agent's own, else the node whose ranks ask.
        """
        ...

    def on_silence(self, state: PodState) -> None:
        """Take note that the pod's connection has ended, for whatever reason, and that there is no
        other.
        """
        ...

    def on_line_end(self, state: PodState, line: str) -> None:
        """Take note that the connection of a node's ranks has ended."""
        ...


class Receiver(Protocol):
    """The receiver of the frames of one stream's number."""

    def feed(self, data: bytes) -> None: ...

    def on_message(self, message: dict[str, Any]) -> None: ...

    def lost(self) -> None:
        """Take note that the connection has ended."""
        ...


class LogStream:
    """The bytes of one log file from an offset on, as the agent sees them."""

    def __init__(
        self, connection: AgentConnection, number: int, ask: dict[str, Any], offset: int
    ) -> None:
        self._connection = connection
        self._number = number
        self._ask = ask
        self.offset = offset  # of the next byte that the reader gets
        self._received = offset
        self._chunks: deque[bytes] = deque()
        self._is_filled = asyncio.Event()
        self._is_open = False
        self._is_over = False
        self.is_complete = False  # whether the agent said that this is all

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end of the log or of the connection."""
        while not self._chunks and not self._is_over:
            if not self._is_open:
                self._open()
            self._is_filled.clear()
            await self._is_filled.wait()
        if not self._chunks:
            return b""
        data = self._chunks.popleft()
        self.offset += len(data)
        return data

    def close(self) -> None:
        self._connection.drop(self._number, tell=self._is_open)
        self._is_over = True

    def _open(self) -> None:
        self._is_open = True
        self._connection.tell({**self._ask, "stream": self._number, "offset": self._received})

    def feed(self, data: bytes) -> None:
        if not self._is_open:
            return  # on its way when the stream was closed: it comes again
        self._chunks.append(data)
        self._received += len(data)
        if self._received - self.offset > MAX_BUFFERED:
            self._is_open = False
            self._connection.tell({"type": "close", "stream": self._number})
            self._connection.renumber(self._number, self)
        self._is_filled.set()

    def renumbered(self, number: int) -> None:
        self._number = number

    def on_message(self, message: dict[str, Any]) -> None:
        if message["type"] == "closed":
            self._connection.drop(self._number, tell=False)
            self._end(is_complete=not message.get("error"))

    def lost(self) -> None:
        self._end(is_complete=False)

    def _end(self, *, is_complete: bool) -> None:
        self.is_complete = is_complete
        self._is_over = True
        self._is_filled.set()


class AgentConnection:
    """One agent, for as long as its connection lasts.

    With a `line` it is the connection of the ranks of one node, which ask where things are.
    """

    def __init__(
        self,
        state: PodState,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        line: str = "",
    ) -> None:
        self._state, self._line = state, line
        self._reader = reader
        self._writer = writer
        self._streams: dict[int, Receiver] = {}
        self._last_stream = 0
        self._heard_hello = asyncio.Event()
        self._measuring: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._streams_version = 0
        self._log: Logger = log.bind(pod=str(state.key))

    # What the kubelet does with it

    def tell(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            payload = _encoder.encode(message)
            self._writer.write(_HEADER.pack(len(payload), 0) + payload)

    def pass_on(self, payload: bytes) -> None:
        """Send a message that is JSON already; an agent that does not read loses its connection."""
        if self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD:
            self._log.warning("an agent does not read", waiting=MAX_UNREAD)
            self._writer.transport.abort()
            return
        self._writer.write(_HEADER.pack(len(payload), 0) + payload)

    def terminate(self, grace: float) -> None:
        self.tell({"type": "terminate", "grace": grace})

    def open_log(self, container: str, run: int, offset: int, *, follow: bool) -> LogStream:
        ask = {"type": "logs", "container": container, "restart": run, "follow": follow}
        stream = LogStream(self, self._next_number(), ask, offset)
        self._streams[self._last_stream] = stream
        return stream

    async def can_open(self) -> bool:
        """Return whether its agent knows sessions: those of earlier versions do not."""
        await self._heard_hello.wait()
        return self._streams_version > 0

    def open(self, kind: str, **fields: Any) -> AgentSession:
        """Ask for a command, an attachment or a port; two numbers are its streams."""
        number = self._next_number()
        session = AgentSession(self, number)
        self._streams[number] = session
        self._streams[self._next_number()] = session.errors
        self.tell({"type": kind, "stream": number, **fields})
        return session

    def measure(self) -> asyncio.Future[dict[str, Any]]:
        """Ask what its containers use; the future is cancelled with the connection, or by whoever
        stops waiting.
        """
        number = self._next_number()
        answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda _: self._measuring.pop(number, None))
        self._measuring[number] = answer
        self.tell({"type": "stats", "id": number})
        return answer

    def close(self) -> None:
        self._writer.close()

    # For its streams

    async def send(self, number: int, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(_HEADER.pack(len(data), number) + data)
            await self._writer.drain()

    def _next_number(self) -> int:
        self._last_stream += 1
        return self._last_stream

    def renumber(self, old: int, stream: LogStream) -> None:
        """Move a stream to a new number, so that what is still on its way is not taken for the new
        one.
        """
        self._streams.pop(old, None)
        stream.renumbered(self._next_number())
        self._streams[self._last_stream] = stream

    def drop(self, number: int, *, tell: bool) -> None:
        if self._streams.pop(number, None) is not None and tell:
            self.tell({"type": "close", "stream": number})

    # The conversation

    async def serve(self, hears: AgentEventHandler) -> None:
        """Serve until the connection ends; a garbled message ends it, and the agent dials again."""
        try:
            async with asyncio.TaskGroup() as group:
                pings = group.create_task(self._ping(), name=f"pings of {self._state.key}")
                await self._listen(hears)
                pings.cancel()
        except* (OSError, EOFError, TimeoutError) as broken:
            self._log.debug("agent's connection ended", error=broken.exceptions[0])
        except* GARBLED as garbled:
            self._log.warning("an agent spoke nonsense", error=garbled.exceptions[0])
        finally:
            for stream in list(self._streams.values()):
                stream.lost()
            self._streams.clear()
            for answer in list(self._measuring.values()):
                answer.cancel()
            self._heard_hello.set()
            self._writer.close()

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_INTERVAL)
            self.tell({"type": "ping"})

    async def _listen(self, hears: AgentEventHandler) -> None:
        while True:
            async with asyncio.timeout(SILENCE):
                header = await self._reader.readexactly(_HEADER.size)
                length, number = _HEADER.unpack(header)
                if length > MAX_FRAME:
                    raise ValueError(f"a frame of {length} bytes, expected at most {MAX_FRAME}")
                payload = await self._reader.readexactly(length)
            if number == 0:
                self._on_message(hears, _decoder.decode(payload))
            elif number in self._streams:
                self._streams[number].feed(payload)

    def _on_message(self, hears: AgentEventHandler, message: dict[str, Any]) -> None:
        match message["type"]:
            case str(kind) if kind.startswith("net-"):
                hears.on_network(self._state, message, self._line)
            case _ if self._line:
                pass  # the pod itself is its agent's to speak of
            case "hello":
                self._streams_version = int(message.get("streams") or 0)
                self._heard_hello.set()
                hears.on_hello(self._state, message)
                self.tell({"type": "welcome", "acked": self._state.journal.seq})
            case "record":
                self._on_record(hears, message["record"])
            case "stats":
                measured = self._measuring.get(int(message["id"]))
                if measured is not None and not measured.done():
                    measured.set_result(message)
            case "start":
                self._on_start(hears, message)
            case "opened" | "closed" | "eof" | "credit" | "close":
                stream = self._streams.get(int(message["stream"]))
                if stream is not None:
                    stream.on_message(message)

    def _on_start(self, hears: AgentEventHandler, message: dict[str, Any]) -> None:
        number = int(message["stream"])
        if number < AGENTS_OWN or number in self._streams:
            raise ValueError(f"an agent's own stream {number}, expected {AGENTS_OWN} or above")
        errand = AgentErrand(self, number)
        self._streams[number] = errand
        self._streams[number + 1] = errand.errors
        hears.on_start(self._state, errand, message)

    def _on_record(self, hears: AgentEventHandler, raw: Any) -> None:
        record = record_of(raw)
        if record is not None:
            hears.on_record(self._state, record)
            self.tell({"type": "ack", "seq": record.seq})
