"""The ways to the router that are no port for everybody: from within this process, and from pods.

Run by ingress. A connection from within is one end of a pair of sockets, for what `kubectl
port-forward` brings. Pods come by ports of their own; a connection there is taken only if the pod's
agent has spoken for it, so that these are open to nobody else on the network.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from ..network.notices import LENGTH, TCP, Place, Said, read_notice

HTTP, HTTPS = 80, 443
PATIENCE = 0.25  # seconds for a notice that is late
LIFETIME = 30.0  # seconds in which a connection must come that was announced
MAX_KNOWN = 4096
BACKLOG = 512
HEARD_AT_ONCE = 64  # notices; whoever floods us must leave time for the rest of the loop
OPTIONS: dict[str, Any] = {"access_log": None}  # of HTTP, by whatever way it comes


@dataclass(slots=True)
class Door:
    """Where pods find the router, as their agents are told."""

    notice: int = 0
    ports: dict[int, int] = field(default_factory=dict)  # 80 and 443 -> the real ones


class PodConnection(web.RequestHandler):
    """HTTP over a connection that an agent has spoken for; `pod` is whom it said it is."""

    def __init__(self, server: web.Server, pod: Place) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **OPTIONS)
        self.pod = pod


class WayIn:
    """`server` answers requests; `tls` is for those by HTTPS; `key` is the cluster's own."""

    def __init__(
        self,
        server: web.Server,
        tls: ssl.SSLContext,
        key: str,
        group: asyncio.TaskGroup,
    ) -> None:
        self._server, self._key, self._group = server, bytes.fromhex(key), group
        self._contexts = {HTTP: None, HTTPS: tls}
        self._said: dict[tuple[Place, int], tuple[Place, float]] = {}
        self._news = asyncio.Event()

    async def connect(self, port: int) -> socket.socket:
        """A connection from within this process; raises OSError where nobody listens."""
        if port not in self._contexts:
            ports = " and ".join(map(str, self._contexts))
            raise ConnectionRefusedError(f"the router listens at {ports}")
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        # On its own: a handshake needs whoever gets the other end from us.
        work = self._hand_over(theirs, port, self._server)
        self._group.create_task(work, name="a forwarded connection")
        return ours

    # Pods

    def open(self, host: str) -> Door:
        """Listen for pods, from now on; they have no IPv6."""
        host = "0.0.0.0" if host == "::" else host
        if ":" in host:
            return Door()
        notices = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        notices.setblocking(False)
        notices.bind((host, 0))
        loop = asyncio.get_running_loop()
        loop.add_reader(notices, self._hear, notices)
        door = Door(notices.getsockname()[1])
        for port in self._contexts:
            listener = socket.create_server((host, 0), backlog=BACKLOG)
            listener.setblocking(False)
            door.ports[port] = listener.getsockname()[1]
            self._group.create_task(self._accept(listener, port), name=f"pods at {port}")
        self._group.create_task(self._until_over(notices), name="what agents say of their pods")
        return door

    async def _until_over(self, notices: socket.socket) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.get_running_loop().remove_reader(notices)
            notices.close()

    def _hear(self, notices: socket.socket) -> None:
        for _ in range(HEARD_AT_ONCE):
            try:
                raw = notices.recv(LENGTH + 1)
            except OSError:
                return
            said = read_notice(self._key, raw, time.time())
            if said is not None and said.protocol == TCP:
                self._remember(said)

    def _remember(self, said: Said) -> None:
        now = time.monotonic()
        if len(self._said) >= MAX_KNOWN:
            self._said = {key: one for key, one in self._said.items() if one[1] > now}
        self._said[(said.real, said.to[1])] = said.peer, now + LIFETIME
        self._news.set()
        self._news = asyncio.Event()

    async def _accept(self, listener: socket.socket, port: int) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    sock, real = await loop.sock_accept(listener)
                except OSError:
                    await asyncio.sleep(0.1)  # no descriptor is free just now
                    continue
                self._group.create_task(self._admit(sock, real, port), name="a pod's connection")

    async def _admit(self, sock: socket.socket, real: Place, port: int) -> None:
        """Take a connection that an agent has spoken for, or drop it."""
        try:
            async with asyncio.timeout(PATIENCE):
                while (real, port) not in self._said:
                    await self._news.wait()
        except TimeoutError:
            sock.close()
            return
        peer, until = self._said.pop((real, port))
        if time.monotonic() > until:
            sock.close()
            return
        await self._hand_over(sock, port, lambda: PodConnection(self._server, peer))

    async def _hand_over(
        self, sock: socket.socket, port: int, http: Callable[[], web.RequestHandler]
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(http, sock, ssl=self._contexts[port])
        except (OSError, ssl.SSLError):
            sock.close()  # a client that does not speak TLS, or does not trust us
