"""A registry that does not mean well: each path is answered byte by byte as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Self

Body = Callable[[], AsyncIterator[bytes]]
OK = "200 OK"


class Hostile:
    def __init__(self) -> None:
        self.answers: dict[str, tuple[str, dict[str, str], Body]] = {}  # by the end of a path
        self.requests: list[str] = []  # heads, as they came
        self.sent = 0
        self.address = ""
        self._server: asyncio.Server | None = None

    def answer(self, path: str, body: Body, status: str = OK, **headers: str) -> None:
        """Without a status, all but the first line is the body's."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self.answers[path] = (status, named, body)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\n")).decode(errors="replace")
            if not head.startswith(("GET", "POST")):  # it speaks no TLS
                return
            head += (await reader.readuntil(b"\r\n\r\n")).decode(errors="replace")
            self.requests.append(head)
            path = head.split()[1].partition("?")[0]
            status, headers, body = next(
                found for end, found in self.answers.items() if path.endswith(end)
            )
            lines = [f"HTTP/1.1 {status or OK}", *(f"{n}: {t}" for n, t in headers.items())]
            end = ["Connection: close", "", ""] if status else [""]
            writer.write("\r\n".join([*lines, *end]).encode())
            async for part in body():
                writer.write(part)
                await writer.drain()
                self.sent += len(part)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, StopIteration):
            pass
        finally:
            writer.close()


def once(*parts: bytes) -> Body:
    async def body() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    return body


def endless(part: bytes, pause: float = 0) -> Body:
    async def body() -> AsyncIterator[bytes]:
        while True:
            yield part
            await asyncio.sleep(pause)

    return body
