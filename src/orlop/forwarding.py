"""Joins two connections: bytes go through both ways, untouched and unread.

Used wherever a client is handed through to somebody else: the kubelet of a pod, a server behind a
proxy. It ends when either side does, and then closes the client's.
"""

from __future__ import annotations

import asyncio

_CHUNK = 256 << 10

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def join(client: Ends, other: Ends) -> None:
    """Copy both ways until either side closes; then close the other too."""
    async with asyncio.TaskGroup() as tasks:
        ways = (
            tasks.create_task(_copy(client[0], other[1]), name="from the client"),
            tasks.create_task(_copy(other[0], client[1]), name="to the client"),
        )
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            client[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # one of them has gone
