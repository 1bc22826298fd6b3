"""Connects the control plane to a pod: straight to its node, or else through its agent.

Used by what is reached from outside: node ports and ingress. The straight way is fast, says who the
client is, and waits for the agent's word that the port is the pod's; where the node cannot be
reached from here, or the pod has no network of its own, the bytes go over the connection that the
pod's agent has opened. What comes back is an ordinary socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from socket import AF_INET, SOCK_DGRAM

from ...log import logger
from ...network.notices import Place
from ...network.ranges import Ranges
from ..agents.sessions import AgentSession, SessionFailed
from ..pod.pods import Pods, PodState
from .announcer import Announcer, PodPort
from .view import NetworkView

ANNOUNCE_EVERY = 0.7  # seconds; what agents believe of a UDP socket ends after one
ACKNOWLEDGED = 1.0  # seconds for which a UDP port that was acknowledged is sent to
MAX_WAITING = 16  # datagrams that wait for that
GONE = 2.0  # seconds without that, though it was asked for
ANSWER_TIME = 0.25  # seconds for an agent to say that what has come is from its pod
CONNECT_TIME = 2.0  # seconds for a node that may not be reachable from here
_CHUNK = 64 << 10

log = logger(__name__)

Prove = Callable[[socket.socket], Coroutine[None, None, None]]


class Datagrams:
    """A UDP socket to one place; a pod's is used while its agent says that the port is its."""

    def __init__(
        self,
        real: Place,
        announcer: Announcer | None = None,
        to: PodPort | None = None,
        client: Place | None = None,
    ) -> None:
        self.socket = socket.socket(socket.AF_INET6 if ":" in real[0] else AF_INET, SOCK_DGRAM)
        self.socket.setblocking(False)
        self._announcer, self._to, self._client = announcer, to, client
        self._announced = self._acknowledged = -1e9
        self._asked: float | None = None  # since when no answer has come
        self._waiting: list[bytes] = []
        self._answered = asyncio.Event()
        try:
            self.socket.connect(real)
        except OSError:
            self.socket.close()
            raise

    def send(self, data: bytes) -> None:
        if time.monotonic() - self._announced >= ANNOUNCE_EVERY:
            self._announce()
        if self._is_acknowledged:
            self.socket.send(data)
        elif self._asked is not None and time.monotonic() - self._asked > GONE:
            raise ConnectionRefusedError("no agent says that the port is still its pod's")
        else:
            self._waiting = [*self._waiting, data][:MAX_WAITING]

    async def receive(self, most: int) -> bytes:
        """Return the next datagram; pass over what comes from another user who has the port by
        now.
        """
        loop = asyncio.get_running_loop()
        while True:
            data = await loop.sock_recv(self.socket, most)
            if not self._is_acknowledged:
                self._announce()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ANSWER_TIME):
                        await self._answered.wait()
            if self._is_acknowledged:
                return data

    @property
    def _is_acknowledged(self) -> bool:
        """Return whether it leads to the pod it was meant for; elsewhere no agent can say so."""
        is_pods = self._announcer is not None
        return not is_pods or time.monotonic() - self._acknowledged < ACKNOWLEDGED

    def _announce(self) -> None:
        if self._announcer is not None and self._to is not None:
            self._announced = time.monotonic()
            self._asked = self._asked or self._announced
            self._answered.clear()
            self._announcer.announce(self.socket, self._client, self._to, self._on_answer)

    def _on_answer(self) -> None:
        self._acknowledged, self._asked = self._announced, None
        self._answered.set()
        waiting, self._waiting = self._waiting, []
        try:
            for data in waiting:
                self.socket.send(data)
        except OSError:
            pass  # lost, as on any network

    def close(self) -> None:
        if self._announcer is None:
            self.socket.close()
        else:
            self._announcer.forget(self.socket)


class Dialer:
    """`key` is the cluster's own, as in the plans of its pods."""

    def __init__(self, pods: Pods, view: NetworkView, ranges: Ranges, key: str) -> None:
        self._pods = pods
        self._view = view
        self._ranges = ranges
        self._announcer = Announcer(bytes.fromhex(key))
        self._bridges: set[asyncio.Task[None]] = set()

    async def connect(self, ip: str, port: int, client: Place | None = None) -> socket.socket:
        """Connect to a pod's address, or any other; raise OSError on failure. `client`: for whom,
        if not for us.
        """
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
        port = self._port(state, to, "tcp")

        async def prove(sock: socket.socket) -> None:
            await self._announcer.prove(sock, _shown(client), port)

        return await _connected(port.real, prove, self._announcer.give_up)

    def _port(self, state: PodState, to: Place, protocol: str) -> PodPort:
        place = self._view.places.get(state.uid)
        if place is None or not place.notice:
            raise OSError(f"the agent of {state.key} has not said where it is")
        real = getattr(place, protocol).get(str(to[1]))
        if real is None:
            raise ConnectionRefusedError(f"{state.key} has no {protocol} port {to[1]}")
        return PodPort(to, (place.address, real), (place.address, place.notice))

    async def datagrams(self, ip: str, port: int, client: Place) -> Datagrams:
        """Return a way for UDP to a pod's address, or any other; raise OSError on failure."""
        if ":" in ip or not self._ranges.is_pod(ip):
            return Datagrams((ip, port))
        state = self._pods.get(self._pods.addresses.owner(ip))
        if state is None:
            raise OSError(f"no pod has the address {ip}")
        to = self._port(state, (ip, port), "udp")
        return Datagrams(to.real, self._announcer, to, _shown(client))

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
        self._announcer.close()


def _shown(client: Place | None) -> Place | None:
    """Return the client as a pod may see it; in place of one with IPv6 it sees us."""
    return None if client is None or ":" in client[0] else client


async def _connected(
    to: Place,
    prove: Prove | None = None,
    give_up: Callable[[socket.socket], None] = socket.socket.close,
) -> socket.socket:
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(to)
        async with asyncio.timeout(CONNECT_TIME):
            await _made(sock, code, to, prove)
    except BaseException:
        give_up(sock)
        raise
    return sock


async def _made(
    sock: socket.socket,
    code: int,
    to: Place,
    prove: Prove | None,
) -> None:
    """Wait for the connection and for its proof, at once; raise OSError where it is refused."""
    proving = None
    if prove is not None:
        proving = asyncio.create_task(prove(sock), name="proof of a connection")
    try:
        if code:
            await _writable(sock)
        problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            raise _error(problem, to)
        if proving is not None:
            await proving
    finally:
        if proving is not None:
            proving.cancel()


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
    """Pass bytes both ways between a session with an agent and our socket, until both have
    ended.
    """
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
