"""A pod whose agent echoes, and a SPDY client: what the tests of exec and port-forward share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from typing import Any

from orlop.kubelet.server.streaming import spdy

_HEADER = struct.Struct(">II")


class EchoAgent:
    """Serves sessions on a FakeAgent's connection: `behave` says what a command does.

    echo: output is the input, then exit 0. exit: prints to both streams and exits 42.
    fail: does not start. hang: waits to be closed.
    """

    def __init__(self, agent: Any, behave: str = "echo") -> None:
        self.agent, self.behave = agent, behave
        self.asked: list[dict[str, Any]] = []
        self.resized: list[tuple[int, int]] = []
        self.closed: list[int] = []
        self.received: dict[int, bytes] = {}

    async def hello(self, **more: Any) -> None:
        seq = self.agent.seq
        self.agent.tell({"type": "hello", "job": "17", "node": "n1", "seq": seq, **more})
        await self.agent.hear("welcome")

    async def run(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            await self._serve()

    async def _serve(self) -> None:
        while True:
            header = await self.agent.reader.readexactly(_HEADER.size)
            length, number = _HEADER.unpack(header)
            payload = await self.agent.reader.readexactly(length)
            if number:
                self._on_data(number, payload)
            else:
                self._on_message(json.loads(payload))

    def _on_data(self, number: int, payload: bytes) -> None:
        self.received[number] = self.received.get(number, b"") + payload
        self.agent.tell(payload, stream=number)

    def _on_message(self, message: dict[str, Any]) -> None:
        number = message.get("stream", 0)
        match message["type"]:
            case "exec" | "attach" | "forward":
                self.asked.append(message)
                self._open(number)
            case "eof" if self.behave == "echo":
                self._end(number, 0)
            case "credit":  # an echo takes as much as is taken from it
                self.agent.tell(message)
            case "resize":
                self.resized.append((message["width"], message["height"]))
            case "close":
                self.closed.append(number)

    def _open(self, number: int) -> None:
        if self.behave == "fail":
            words = 'exec: "x": executable file not found in $PATH'
            self.agent.tell({"type": "closed", "stream": number, "error": words, "code": 0})
            return
        self.agent.tell({"type": "opened", "stream": number})
        if self.behave == "exit":
            self.agent.tell(b"out", stream=number)
            self.agent.tell(b"err", stream=number + 1)
            self._end(number, 42)

    def _end(self, number: int, code: int) -> None:
        for each in (number, number + 1):
            self.agent.tell({"type": "eof", "stream": each})
        self.agent.tell({"type": "closed", "stream": number, "error": "", "code": code})


class SpdyCaller:
    """Speaks SPDY/3.1 to the kubelet as client-go does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.codec = reader, writer, spdy.Codec()
        self.received: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.names: dict[int, str] = {}
        self._last = -1

    @classmethod
    async def dial(cls, port: int, tls: Any, path: str, *protocols: str) -> tuple[str, SpdyCaller]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, server_hostname="orlop-kubelet"
        )
        lines = [f"POST {path} HTTP/1.1", "Host: k", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
        lines += [f"X-Stream-Protocol-Version: {protocol}" for protocol in protocols]
        writer.write(("\r\n".join([*lines, "Content-Length: 0"]) + "\r\n\r\n").encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        return head, cls(reader, writer)

    def open(self, name: str, **headers: str) -> int:
        self._last += 2
        self.names[self._last] = name
        self.writer.write(self.codec.open(self._last, {"streamType": name, **headers}))
        return self._last

    def send(self, number: int, data: bytes, *, is_last: bool = False) -> None:
        self.writer.write(spdy.data(number, data, is_last=is_last))

    async def until_ended(self, *numbers: int) -> None:
        async with asyncio.timeout(5):
            while not set(numbers) <= self.ended and (data := await self.reader.read(65536)):
                for event in self.codec.feed(data):
                    if isinstance(event, spdy.Data):
                        known = self.received.get(event.stream, b"")
                        self.received[event.stream] = known + event.data
                        if event.is_last:
                            self.ended.add(event.stream)

    def close(self) -> None:
        self.writer.close()
