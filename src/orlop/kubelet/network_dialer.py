"""Connections from the control plane to a pod: straight to its node, or else through its agent.

Used by what is reached from outside: node ports and ingress. Straight is quick, and says who the
client is; where the node cannot be reached from here, or the pod has no network of its own, the
bytes go over the connection that the pod's agent has opened. What comes back is an ordinary socket.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from socket import AF_INET, SOCK_DGRAM

from ..log import logger
from ..network.notices import UDP, Place, notice
from ..network.ranges import Ranges
from .agent_streams import AgentSession, SessionFailed
from .network_view import NetworkView
from .pods import Pods, PodState

ANNOUNCE_EVERY = 5.0  # seconds; an agent's network process that was replaced hears of us again
CONNECT_TIME = 2.0  # seconds for a node that may not be reachable from here
_CHUNK = 64 << 10

log = logger(__name__)


class Datagrams:
    """A UDP socket to one place, whose owner is told now and then who speaks there."""

    def __init__(
        self, to: Place, announce: Callable[[Place], tuple[bytes, Place]] | None = None
    ) -> None:
        self.socket = socket.socket(socket.AF_INET6 if ":" in to[0] else AF_INET, SOCK_DGRAM)
        self.socket.setblocking(False)
        self._announce, self._announced = announce, -ANNOUNCE_EVERY
        try:
            self.socket.connect(to)
        except OSError:
            self.socket.close()
            raise

    def send(self, data: bytes) -> None:
        now = time.monotonic()
        if self._announce is not None and now - self._announced >= ANNOUNCE_EVERY:
            self._announced = now
            said, heard = self._announce(self.socket.getsockname()[:2])
            with socket.socket(AF_INET, SOCK_DGRAM) as other:
                other.sendto(said, heard)
        self.socket.send(data)


class Dialer:
    """`key` is the cluster's own, as in the plans of its pods."""

    def __init__(self, pods: Pods, view: NetworkView, ranges: Ranges, key: str) -> None:
        self._pods = pods
        self._view = view
        self._ranges = ranges
        self._key = bytes.fromhex(key)
        self._bridges: set[asyncio.Task[None]] = set()

    async def connect(self, ip: str, port: int, client: Place | None = None) -> socket.socket:
        """To a pod's address, or any other; raises OSError. `client`: for whom, if not for us."""
        if ":" in ip or not self._ranges.is_pod(ip):
            return await _connected((ip, port))
        state = self._pods.get(self._pods.addresses.owner(ip))
        if state is None:
            raise OSError(f"no pod has the address {ip}")
        try:
            return await self._straight(state, (ip, port), client)
        except ConnectionRefusedError:
            raise
        except (OSError, TimeoutError) as error:
            log.debug("no straight way to a pod", pod=str(state.key), error=error)
            return await self._through_agent(state, port)

    async def _straight(self, state: PodState, to: Place, client: Place | None) -> socket.socket:
        place = self._view.places.get(state.uid)
        if place is None or not place.notice:
            raise OSError("its agent has not said where it is")
        real = place.tcp.get(str(to[1]))
        if real is None:
            raise ConnectionRefusedError(f"{state.key} does not listen at port {to[1]}")

        def announce(own: Place) -> None:
            # Before the connection can be accepted, since its source is known by then.
            said = notice(self._key, time.time(), own, _shown(client) or own, to)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
                datagrams.sendto(said, (place.address, place.notice))

        return await _connected((place.address, real), announce)

    async def datagrams(self, ip: str, port: int, client: Place) -> Datagrams:
        """A way for UDP to a pod's address, or any other; raises OSError."""
        if ":" in ip or not self._ranges.is_pod(ip):
            return Datagrams((ip, port))
        state = self._pods.get(self._pods.addresses.owner(ip))
        place = self._view.places.get(state.uid) if state is not None else None
        if place is None or not place.notice:
            raise OSError(f"nothing is known of the network of {ip}")
        real = place.udp.get(str(port))
        if real is None:
            raise ConnectionRefusedError(f"{ip} has no UDP port {port}")
        key, heard = self._key, (place.address, place.notice)

        def announce(own: Place) -> tuple[bytes, Place]:
            return notice(key, time.time(), own, _shown(client) or own, (ip, port), UDP), heard

        return Datagrams((place.address, real), announce)

    async def _through_agent(self, state: PodState, port: int) -> socket.socket:
        connection = state.connection
        if connection is None or not await connection.can_open():
            raise OSError(f"the agent of {state.key} is not connected")
        session = connection.open("forward", port=port)
        try:
            await session.opened()
        except SessionFailed as failed:
            session.close()
            raise ConnectionRefusedError(str(failed)) from failed
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        task = asyncio.create_task(_bridge(session, theirs), name=f"port {port} of {state.key}")
        self._bridges.add(task)
        task.add_done_callback(self._bridges.discard)
        return ours

    async def close(self) -> None:
        for task in self._bridges:
            task.cancel()
        if self._bridges:
            await asyncio.wait(self._bridges)


def _shown(client: Place | None) -> Place | None:
    """Whom a pod may see; it knows no addresses of IPv6, and sees us in their place."""
    return None if client is None or ":" in client[0] else client


async def _connected(to: Place, announce: Callable[[Place], None] | None = None) -> socket.socket:
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(to)
        if announce is not None:
            announce(sock.getsockname()[:2])
        if code:
            async with asyncio.timeout(CONNECT_TIME):
                await _writable(sock)
            problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if problem:
                raise _error(problem, to)
    except BaseException:
        sock.close()
        raise
    return sock


def _error(number: int, to: Place) -> OSError:
    return OSError(number, f"{os.strerror(number)}: {to[0]}:{to[1]}")


async def _writable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not done.done():
            done.set_result(None)

    loop.add_writer(sock, ready)
    try:
        await done
    finally:
        loop.remove_writer(sock)


async def _bridge(session: AgentSession, far: socket.socket) -> None:
    """Bytes both ways between a session with an agent and our socket, until both have ended."""
    loop = asyncio.get_running_loop()

    async def up() -> None:
        while data := await loop.sock_recv(far, _CHUNK):
            await session.main.write(data)
        session.main.end()

    async def down() -> None:
        while data := await session.main.read():
            await loop.sock_sendall(far, data)
        far.shutdown(socket.SHUT_WR)

    try:
        await _both(up, down)
    finally:
        far.close()
        session.close()


async def _both(*works: Callable[[], Awaitable[None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(_of(work))
    except* (OSError, SessionFailed) as gone:
        log.debug("a connection to a pod ended", error=gone.exceptions[0])


async def _of(work: Callable[[], Awaitable[None]]) -> None:
    await work()
