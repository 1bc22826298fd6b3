"""Connections that are taken out of HTTP's hands."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from orlop.upgrade import Taken, is_upgrade, request_head, take_over


@pytest.fixture
async def port():
    """A server that answers an upgrade with an echo."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if not is_upgrade(request):
            return web.Response(text="plain")
        reader, writer = take_over(request)
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        while data := await reader.read(100):
            writer.write(data)
        writer.close()
        return Taken()

    runner = web.ServerRunner(web.Server(handle, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def answer(port: int, head: str) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write((head + "Host: x\r\n\r\n").encode())
    return await reader.readuntil(b"\r\n\r\n"), reader, writer


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("words", ["Upgrade", "keep-alive, Upgrade", "upgrade"])
async def test_bytes_after_the_answer_are_the_protocols_own(port, method, words) -> None:
    head = f"{method} / HTTP/1.1\r\nConnection: {words}\r\nUpgrade: x/1\r\nContent-Length: 0\r\n"
    said, reader, writer = await answer(port, head)
    assert said.startswith(b"HTTP/1.1 101")
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await reader.readexactly(18) == b"GET / HTTP/1.1\r\n\r\n"
    writer.close()


async def test_a_request_that_asks_for_nothing_else_is_http(port) -> None:
    said, _, writer = await answer(port, "GET / HTTP/1.1\r\nUpgrade: x/1\r\n")
    assert said.startswith(b"HTTP/1.1 200")
    writer.close()


async def test_what_was_taken_over_counts_as_switched() -> None:
    assert Taken().status == 101


def test_the_head_of_a_request_has_the_bytes_it_came_with():
    raw = b"\xff".decode("utf-8", "surrogateescape")
    made = request_head("GET", "/a?b", [("X-Remote-User", "J\u00fcrgen"), ("X-Raw", raw)])
    assert made == b"GET /a?b HTTP/1.1\r\nX-Remote-User: J\xc3\xbcrgen\r\nX-Raw: \xff\r\n\r\n"


@pytest.mark.parametrize(
    "header",
    [("X-Remote-User", "me\r\nX-Remote-Group: system:masters"), ("A\nB", "c"), ("A", "b\rc"),
     ("A", "b\0c")],
    ids=["a second header", "in the name", "half a break", "a zero"],
)  # fmt: skip
def test_a_header_that_would_become_two_is_refused(header):
    with pytest.raises(ValueError, match="line break"):
        request_head("GET", "/", [header])
