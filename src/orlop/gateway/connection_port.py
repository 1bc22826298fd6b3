"""Joins two sockets: bytes both ways, each side told when the other has no more to say.

Used for node ports. What they carry is not read.
"""

from __future__ import annotations

import asyncio
import socket

_CHUNK = 128 << 10


async def join(client: socket.socket, other: socket.socket) -> None:
    """Pass bytes both ways until both have ended; close both."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(client, other), name="from the client")
            group.create_task(_copy(other, client), name="to the client")
    except* OSError:
        pass  # one of them broke: the other learns of it by being closed
    finally:
        client.close()
        other.close()


async def _copy(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, _CHUNK):
        await loop.sock_sendall(target, data)
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it has ended already
