"""Listens at one TCP port of this host that leads to a service.

Used by `service_ports`. Each connection is joined to one of an endpoint: bytes both ways, each side
told when the other has no more to say. What they carry is not read.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from .backends import NoEndpoints, place_of
from .service_port import ServicePort

_CHUNK = 128 << 10


class ConnectionPort(ServicePort):
    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    try:
                        client, address = await loop.sock_accept(self._sock)
                    except OSError:
                        await asyncio.sleep(0.1)  # no descriptor is free just now
                        continue
                    group.create_task(self._join(client, address), name="a client of a service")
        finally:
            self._sock.close()

    async def _join(self, client: socket.socket, address: tuple[Any, ...]) -> None:
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pod = await self._backends.connect(self._key, self.port, place_of(address))
        except (OSError, NoEndpoints):
            client.close()  # as a connection to a service without endpoints ends
        else:
            await join(client, pod)


async def join(client: socket.socket, pod: socket.socket) -> None:
    """Pass bytes both ways until both have ended; close both."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(client, pod), name="from the client")
            group.create_task(_copy(pod, client), name="to the client")
    except* OSError:
        pass  # one of them broke: the other learns of it by being closed
    finally:
        client.close()
        pod.close()


async def _copy(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, _CHUNK):
        await loop.sock_sendall(target, data)
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it has ended already
