"""Listens at one UDP port of this host that leads to a service.

Used by `service_ports`. Each client has a socket of its own towards one endpoint, as long as either
side speaks; so a pod's answers find their way back, and a client stays with its endpoint as it does
under kube-proxy. A datagram that nobody takes is lost, as on any network.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

from ..api.objects import Key
from .backends import Backends, Datagrams, NoEndpoints, place_of
from .service_port import ServicePort

IDLE = 60.0  # seconds; kube-proxy leaves the kernel's 30 to 120
MAX_CLIENTS = 1024
MAX_HELD = 16  # datagrams of a client whose endpoint is being found
_LONGEST = 65536

Address = tuple[Any, ...]  # as its family has it


class _Client:
    def __init__(self) -> None:
        self.held: list[bytes] = []
        self.way: Datagrams | None = None
        self.task: asyncio.Task[None] | None = None
        self.last = time.monotonic()

    def send(self, data: bytes) -> None:
        self.last = time.monotonic()
        if self.way is None:
            self.held = [*self.held, data][:MAX_HELD]
            return
        try:
            self.way.send(data)
        except ConnectionRefusedError:
            if self.task is not None:
                self.task.cancel()  # the next datagram finds another endpoint
        except OSError:
            pass  # its buffer is full, or the endpoint has gone, which the reader will hear


class DatagramPort(ServicePort):
    def __init__(self, sock: socket.socket, key: Key, port: int, backends: Backends) -> None:
        super().__init__(sock, key, port, backends)
        self._clients: dict[Address, _Client] = {}

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    try:
                        data, address = await loop.sock_recvfrom(self._sock, _LONGEST)
                    except OSError:
                        continue  # a client that did not want an answer
                    client = self._clients.get(address)
                    if client is None:
                        if len(self._clients) >= MAX_CLIENTS:
                            continue
                        client = self._clients[address] = _Client()
                        work = self._answer(client, address)
                        client.task = group.create_task(work, name="a client of a service")
                    client.send(data)
        finally:
            self._sock.close()

    async def _answer(self, client: _Client, address: Address) -> None:
        """Find an endpoint for a client, and pass on what that says."""
        try:
            client.way = await self._backends.datagrams(self._key, self.port, place_of(address))
            for data in client.held:
                client.send(data)
            await self._pass_on(client, client.way, address)
        except (OSError, NoEndpoints):
            pass  # the next datagram finds another
        finally:
            del self._clients[address]
            if client.way is not None:
                client.way.close()

    async def _pass_on(self, client: _Client, way: Datagrams, address: Address) -> None:
        while True:
            left = client.last + IDLE - time.monotonic()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    data = await way.receive(_LONGEST)
            except TimeoutError:
                continue
            client.last = time.monotonic()
            try:
                self._sock.sendto(data, address)
            except BlockingIOError:
                pass
