"""Takes connections over TLS, one at a time, and drops those that do not say in time who they are.

Used by servers on ports that strangers can reach. A connection without a client certificate is a
stranger's until its server calls `know`; strangers have a few seconds, are few at once, and make
room for each other before they cost anybody else.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakSet

from .log import logger

log = logger(__name__)

_BACKLOG = 1024
_SHUTDOWN = 2.0
_UNREAD = 64 << 10  # bytes kept for who does not read them, before who writes them waits

ANYWHERE = ("0.0.0.0", "::")  # what is no address that others could come to


def open_port(
    host: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM, *, backlog: int = _BACKLOG
) -> socket.socket:
    """Open a socket at an address, ready to listen; at `::`, at all of IPv4 and IPv6.

    Raises OSError where the address cannot be had.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    try:
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        sock.bind((host, port))
        if kind == socket.SOCK_STREAM:
            sock.listen(backlog)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits on strangers: how long, in seconds, and how many at once."""

    handshake: float = 10.0
    stranger: float = 15.0  # from the handshake to the first request that says who asks
    handshakes: int = 256
    strangers: int = 128


class Listener:
    def __init__(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext,
        patience: Patience | None = None,
    ) -> None:
        self._make_protocol = make_protocol
        self._tls = tls
        self._patience = patience or Patience()
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._greeted: dict[asyncio.Task[None], None] = {}  # the oldest first, as below
        self._strangers: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}
        # Who spoke in the very message that ended its handshake, before we could look at it.
        self._known: WeakSet[asyncio.BaseTransport] = WeakSet()

    def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raise OSError where the address cannot be had."""
        self._socket = open_port(host, port, backlog=_BACKLOG)
        bound: int = self._socket.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(self._socket), name="listener")
        return bound

    async def _accept(self, listening: socket.socket) -> None:
        """Accept one connection a round of the loop: a flood takes turns with other work."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:  # no more files, most likely: strangers give theirs back
                log.warning("cannot accept a connection", error=error)
                self._drop_oldest_stranger()
                await asyncio.sleep(0.1)
                continue
            greeting = asyncio.create_task(self._greet(connection), name="TLS handshake")
            self._greeted[greeting] = None
            greeting.add_done_callback(self._greeted.pop)
            if len(self._greeted) > self._patience.handshakes:
                next(iter(self._greeted)).cancel()
            await asyncio.sleep(0)

    async def _greet(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            async with asyncio.timeout(self._patience.handshake):
                await _spoken(connection)
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=self._patience.handshake,
                ssl_shutdown_timeout=_SHUTDOWN,
            )
        except (OSError, asyncio.CancelledError):  # TLS errors and timeouts are OSErrors
            connection.close()
            return
        transport.set_write_buffer_limits(_UNREAD)
        if not transport.get_extra_info("peercert"):
            self._watch(transport)

    def _watch(self, transport: asyncio.Transport) -> None:
        if transport in self._known:
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._patience.stranger, self._drop, transport)
        self._strangers[transport] = timer
        if len(self._strangers) > self._patience.strangers:
            self._drop_oldest_stranger()

    def know(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that the other end has said who it is."""
        if transport is None:
            return
        timer = self._strangers.pop(transport, None)
        if timer is not None:
            timer.cancel()
        elif self._greeted:
            self._known.add(transport)

    def _drop_oldest_stranger(self) -> None:
        if self._strangers:
            self._drop(next(iter(self._strangers)))

    def _drop(self, transport: asyncio.BaseTransport) -> None:
        self.know(transport)
        if isinstance(transport, asyncio.WriteTransport) and not transport.is_closing():
            transport.abort()

    async def close(self) -> None:
        """Take no more connections; those that were taken are their server's to close."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting, *self._greeted])
            self._accepting = None
        for transport in list(self._strangers):
            self._drop(transport)
        if self._socket is not None:
            self._socket.close()
            self._socket = None


async def _spoken(connection: socket.socket) -> None:
    """Return when there is something to read: until then a connection costs next to nothing."""
    loop = asyncio.get_running_loop()
    spoken: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not spoken.done():
            spoken.set_result(None)

    loop.add_reader(connection, tell)
    try:
        await spoken
    finally:
        loop.remove_reader(connection)
