"""Bytes that wait for their reader, and writers that wait for room."""

from __future__ import annotations

import asyncio

import pytest

from orlop.kubelet.server.streaming.pipe import Pipe


async def test_bytes_come_in_order_and_then_the_end() -> None:
    pipe = Pipe()
    for data in (b"a", b"", b"b"):
        pipe.feed(data)
    pipe.end()
    assert [await pipe.read() for _ in range(4)] == [b"a", b"b", b"", b""]


async def test_a_reader_waits_for_what_comes() -> None:
    pipe = Pipe()
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(pipe.read())
        await asyncio.sleep(0)
        pipe.feed(b"late")
    assert reading.result() == b"late"


async def test_a_full_pipe_has_no_room_until_it_is_read() -> None:
    pipe = Pipe(limit=3)
    pipe.feed(b"abcd")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await pipe.room()
    await pipe.read()
    await pipe.room()


async def test_what_nobody_reads_is_forgotten() -> None:
    pipe = Pipe(limit=3)
    pipe.feed(b"abcd")
    pipe.discard()
    pipe.feed(b"more")
    await pipe.room()
    assert await pipe.read() == b""
