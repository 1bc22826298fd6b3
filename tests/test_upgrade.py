"""Connections that are taken out of HTTP's hands."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from orlop.upgrade import Taken, is_upgrade, take_over


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
