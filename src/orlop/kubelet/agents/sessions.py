"""Runs sessions with an agent over its connection: a command, an attachment, a forwarded port.

Opened by remote commands and port-forwarding on an AgentConnection. Each way of each stream has a
window: no more is sent than the other end has said it takes, so that a slow one does not hold up
others. Which client is behind a session is not known here.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from ...wellknown import STREAM_WINDOW
from ..server.streaming.pipe import Pipe

_CHUNK = 64 << 10


class SessionFailed(Exception):
    """The session did not open, or its connection broke; the words are for the client."""


class Line(Protocol):
    """The part of the agent's connection that a session needs."""

    def tell(self, message: dict[str, Any]) -> None: ...

    async def send(self, number: int, data: bytes) -> None: ...

    def drop(self, number: int, *, tell: bool) -> None: ...


class AgentStream:
    """One number of the agent's connection, both ways."""

    def __init__(self, line: Line, number: int) -> None:
        self._line, self._number = line, number
        self._received = Pipe(STREAM_WINDOW)
        self._read = 0  # by our reader, but the agent does not know yet
        self._owed = 0  # received since we last gave credit
        self._credit = STREAM_WINDOW
        self._may_send = asyncio.Event()
        self._may_send.set()
        self._is_over = False

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end. Asking for them says that the last are dealt
        with.
        """
        if self._read >= STREAM_WINDOW // 4:
            self._line.tell({"type": "credit", "stream": self._number, "bytes": self._read})
            self._owed -= self._read
            self._read = 0
        data = await self._received.read()
        self._read += len(data)
        return data

    async def write(self, data: bytes) -> None:
        """Write all of it, as the agent takes it; nothing once the stream is over."""
        while data and not self._is_over:
            piece = data[: min(self._credit, _CHUNK)]
            if piece:
                self._credit -= len(piece)
                data = data[len(piece) :]
                await self._line.send(self._number, piece)
            else:
                self._may_send.clear()
                await self._may_send.wait()

    def end(self) -> None:
        """Say that no more comes from us."""
        if not self._is_over:
            self._line.tell({"type": "eof", "stream": self._number})

    def feed(self, data: bytes) -> None:
        self._owed += len(data)
        if self._owed > STREAM_WINDOW:
            raise ValueError(f"{self._owed} bytes without credit, expected {STREAM_WINDOW} at most")
        self._received.feed(data)

    def on_message(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "eof":
                self._received.end()
            case "credit":
                self._credit += int(message["bytes"])
                self._may_send.set()

    def lost(self) -> None:
        self._is_over = True
        self._received.end()
        self._may_send.set()


class AgentSession:
    """`main` carries input and output; `errors` is the standard error of a command."""

    def __init__(self, line: Line, number: int) -> None:
        self._line, self._number = line, number
        self.main = AgentStream(line, number)
        self.errors = AgentStream(line, number + 1)
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def opened(self) -> None:
        """Wait until it runs; raise SessionFailed with the reason why it does not."""
        await asyncio.shield(self._opened)

    async def exit_code(self) -> int:
        return await asyncio.shield(self._closed)

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height}
        self._line.tell({"type": "resize", "stream": self._number, **size})

    def close(self) -> None:
        """Close our side, which has no more interest; the agent ends what still runs."""
        self._line.drop(self._number + 1, tell=False)
        self._line.drop(self._number, tell=not self._closed.done())
        self.lost("the session was closed")

    def leave(self) -> None:
        """Do as `close`, but let a command that was asked for with `keep` go on without us."""
        if not self._closed.done():
            self._line.tell({"type": "close", "stream": self._number, "keep": True})
            self.lost("the session was left")

    def feed(self, data: bytes) -> None:
        self.main.feed(data)

    def on_message(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "opened":
                if not self._opened.done():
                    self._opened.set_result(None)
            case "closed":
                self._end(int(message.get("code") or 0), str(message.get("error") or ""))
            case _:
                self.main.on_message(message)

    def lost(self, why: str = "the connection to the pod's agent broke") -> None:
        self._end(0, why)

    def _end(self, code: int, error: str) -> None:
        for future in (self._opened, self._closed):
            if not future.done() and error:
                future.set_exception(SessionFailed(error))
                future.exception()  # asked for here, so that nobody has to
        if not self._opened.done():
            self._opened.set_result(None)
        if not self._closed.done():
            self._closed.set_result(code)
        self.main.lost()
        self.errors.lost()


class AgentErrand:
    """A session that the agent asked for: its command is run elsewhere and told of here.

    `main` has the command's input, which is read, and its output, which is written.
    """

    def __init__(self, line: Line, number: int) -> None:
        self._line, self._number = line, number
        self.main = AgentStream(line, number)
        self.errors = AgentStream(line, number + 1)
        self._gone: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def open(self) -> None:
        self._line.tell({"type": "opened", "stream": self._number})

    def finish(self, code: int, error: str = "") -> None:
        """Send the last word: nothing is written after it."""
        end = {"type": "closed", "stream": self._number, "code": code, "error": error}
        self._line.tell(end)
        self._line.drop(self._number + 1, tell=False)
        self._line.drop(self._number, tell=False)

    async def gone(self) -> bool:
        """Wait until the agent wants no more; return False where its connection broke."""
        return await asyncio.shield(self._gone)

    def feed(self, data: bytes) -> None:
        self.main.feed(data)

    def on_message(self, message: dict[str, Any]) -> None:
        if message["type"] == "close":
            self._leave(is_wanted=True)
        else:
            self.main.on_message(message)

    def lost(self) -> None:
        self._leave(is_wanted=False)

    def _leave(self, *, is_wanted: bool) -> None:
        if not self._gone.done():
            self._gone.set_result(is_wanted)
        self.main.lost()
        self.errors.lost()
