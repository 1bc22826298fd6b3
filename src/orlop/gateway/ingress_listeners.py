"""Opens the ways to the router that are no public port: from within this process, and from pods.

Run by ingress. A connection from within is one end of a pair of sockets, for what `kubectl
port-forward` brings. Pods come by ports of their own; a connection there is served when the pod's
agent, which holds it meanwhile, has spoken for it. All others are closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web

from ..network.notices import (
    LENGTH,
    MAX_UNREAD,
    TCP,
    Kind,
    Place,
    Said,
    cookie_of,
    read,
    write,
)

HTTP, HTTPS = 80, 443
PATIENCE = 1.0  # seconds for a notice; agents say it as soon as they connect, and again
MAX_WAITING = 4096  # connections that nobody has spoken for yet
BACKLOG = 512
HEARD_AT_ONCE = 64  # notices; whoever floods us must leave time for the rest of the loop
_SO_TIMESTAMPNS, _TIMESPEC = 35, struct.Struct("<qq")
OPTIONS: dict[str, Any] = {"access_log": None}  # of HTTP, by whatever way it comes


@dataclass(slots=True)
class IngressEndpoint:
    """Where pods find the router, as their agents are told."""

    notice: int = 0
    ports: dict[int, int] = field(default_factory=dict)  # 80 and 443 -> the real ones


class Waiting(NamedTuple):
    """A connection for which no agent has spoken yet."""

    cookie: int
    who: asyncio.Future[Place]  # whom it comes from, once that is said


class PodConnection(web.RequestHandler):
    """HTTP over a connection that an agent has spoken for; `pod` is whom it said it is."""

    def __init__(self, server: web.Server, pod: Place) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **OPTIONS)
        self.pod = pod


class IngressListeners:
    """The listeners; `server` answers requests; `tls` is for HTTPS; `key` is the cluster's own."""

    def __init__(
        self,
        server: web.Server,
        tls: ssl.SSLContext,
        key: str,
        group: asyncio.TaskGroup,
    ) -> None:
        self._server, self._key, self._group = server, bytes.fromhex(key), group
        self._contexts = {HTTP: None, HTTPS: tls}
        self._listeners: list[tuple[socket.socket, int]] = []
        # By where they come from and to which port.
        self._waiting: dict[tuple[Place, int], Waiting] = {}

    async def connect(self, port: int) -> socket.socket:
        """Connect from within this process; raise OSError where nobody listens."""
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

    def open(self, host: str) -> IngressEndpoint:
        """Listen for pods, from now on; they have no IPv6."""
        host = "0.0.0.0" if host == "::" else host
        if ":" in host:
            return IngressEndpoint()
        notices = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        notices.setblocking(False)
        notices.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        notices.bind((host, 0))
        loop = asyncio.get_running_loop()
        loop.add_reader(notices, self._hear, notices)
        endpoint = IngressEndpoint(notices.getsockname()[1])
        for port in self._contexts:
            listener = socket.create_server((host, 0), backlog=BACKLOG)
            listener.setblocking(False)
            endpoint.ports[port] = listener.getsockname()[1]
            self._listeners.append((listener, port))
            loop.add_reader(listener, self._accept, listener, port)
        self._group.create_task(self._until_over(notices), name="what agents say of their pods")
        return endpoint

    async def _until_over(self, notices: socket.socket) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for sock in (notices, *(listener for listener, _ in self._listeners)):
                asyncio.get_running_loop().remove_reader(sock)
                sock.close()

    def _hear(self, notices: socket.socket) -> None:
        for listener, port in self._listeners:  # an agent of this host says it just once
            self._accept(listener, port)
        for _ in range(HEARD_AT_ONCE):
            try:
                raw, rights, _, sender = notices.recvmsg(LENGTH + 1, 64)
            except OSError:
                return
            said = read(self._key, raw, time.time(), notices.getsockname()[1])
            is_fresh = time.time() - _arrival(rights) <= MAX_UNREAD
            if said is not None and (said.protocol, said.kind) == (TCP, Kind.NOTICE):
                self._take(said, is_fresh, notices, sender)

    def _take(self, said: Said, is_fresh: bool, notices: socket.socket, sender: Place) -> None:
        """Let in the connection that an agent speaks for, and tell the agent that we know it."""
        waiting = self._waiting.get((said.real, said.port))
        if waiting is None:
            return  # not here yet; it is said again
        # What has lain here for long was said by somebody who may hold the connection no more; but
        # an agent of this host says which it was, and says it just once.
        if waiting.cookie != said.more if said.more else not is_fresh:
            return
        if not waiting.who.done():
            waiting.who.set_result(said.peer)
        try:
            notices.sendto(write(self._key, said._replace(kind=Kind.ACK), sender[1]), sender)
        except OSError:
            pass  # it is said again

    def _accept(self, listener: socket.socket, port: int) -> None:
        """Take all connections that are there; each waits for an agent to speak for it."""
        for _ in range(BACKLOG):
            try:
                sock, real = listener.accept()
            except OSError:
                return  # nobody is there, or no descriptor is free just now
            sock.setblocking(False)
            if len(self._waiting) >= MAX_WAITING:  # whoever has waited longest is a stranger
                self._waiting.pop(next(iter(self._waiting))).who.cancel()
            ends, who = (
                (real, listener.getsockname()[1]),
                asyncio.get_running_loop().create_future(),
            )
            self._waiting[ends] = Waiting(cookie_of(sock), who)
            self._group.create_task(self._admit(sock, ends, who, port), name="a pod's connection")

    async def _admit(
        self, sock: socket.socket, ends: tuple[Place, int], who: asyncio.Future[Place], port: int
    ) -> None:
        """Serve a connection that an agent has spoken for, or drop it."""
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait([who])
        except TimeoutError:
            pass
        # Not at once: its agent may not have heard yet that we know.
        asyncio.get_running_loop().call_later(PATIENCE, self._forget, ends, who)
        if not who.done() or who.cancelled():
            sock.close()
            return
        peer = who.result()
        await self._hand_over(sock, port, lambda: PodConnection(self._server, peer))

    def _forget(self, ends: tuple[Place, int], who: asyncio.Future[Place]) -> None:
        waiting = self._waiting.get(ends)
        if waiting is not None and waiting.who is who:
            del self._waiting[ends]

    async def _hand_over(
        self, sock: socket.socket, port: int, http: Callable[[], web.RequestHandler]
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(http, sock, ssl=self._contexts[port])
        except (OSError, ssl.SSLError):
            sock.close()  # a client that does not speak TLS, or does not trust us


def _arrival(rights: list[tuple[int, int, bytes]]) -> float:
    """Return when the kernel received a datagram."""
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, parts = _TIMESPEC.unpack(data[: _TIMESPEC.size])
            return float(seconds + parts / 1e9)
    return time.time()
