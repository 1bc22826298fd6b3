"""Serves ports of mirror pods from this process: their address, and connections to them.

Used by whoever stands for such a pod, the router of Ingresses, and asked by the server. The pod's
address is one of the pod range, told to agents as any other's. It neither makes pods nor looks at
what is said over their connections.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from ...api.objects import Obj, key_of, uid_of
from ...errors import BadRequest
from ...network.addresses import PodAddresses
from ..agents.sessions import SessionFailed
from ..server.port_forward import Connect
from .view import NetworkView, Place

Open = Callable[[int], Awaitable[socket.socket]]

_CHUNK = 64 << 10


class MirrorPorts:
    def __init__(self, addresses: PodAddresses, view: NetworkView) -> None:
        self._addresses, self._view = addresses, view
        self._open: dict[str, Open] = {}  # by the pod's uid
        self._may_allocate = asyncio.Event()

    def begin(self) -> None:
        """Give out addresses from now on; those of the pods that run already are reserved."""
        self._may_allocate.set()

    async def offer(self, pod: Obj, open: Open, place: Place) -> str:
        """Serve the ports of a mirror pod from now on; return its address, as soon as there can be
        one.

        `open` connects to a port of it from here; `place` is where other pods find it.
        """
        await self._may_allocate.wait()
        uid = uid_of(pod)
        self._addresses.reserve(uid, (pod.get("status") or {}).get("podIP") or "")
        address = self._addresses.allocate(uid)
        if self._open.get(uid) != open:
            self._open[uid] = open
            self._view.stand(address, place)
        return address

    def withdraw(self, uid: str) -> None:
        if self._open.pop(uid, None) is not None:
            self._view.stand(self._addresses.of(uid), None)
            self._addresses.release(uid)

    def ports_of(self, pod: Obj) -> Connect:
        open = self._open.get(uid_of(pod))
        if open is None:
            words = f"pod {key_of(pod)} only shows what runs without it, and has no ports"
            raise BadRequest(words)
        return lambda port: SocketSession(open, port)


class SocketSession:
    """See port_forward.Session: a connection within this process; it is its own stream."""

    def __init__(self, open: Open, port: int) -> None:
        self._open, self._port = open, port
        self._socket: socket.socket | None = None

    @property
    def main(self) -> SocketSession:
        return self

    async def opened(self) -> None:
        try:
            self._socket = await self._open(self._port)
        except OSError as error:
            raise SessionFailed(str(error)) from error

    async def read(self) -> bytes:
        assert self._socket is not None, "it was opened"
        try:
            return await asyncio.get_running_loop().sock_recv(self._socket, _CHUNK)
        except OSError:
            return b""  # as of a connection that broke

    async def write(self, data: bytes) -> None:
        assert self._socket is not None, "it was opened"
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)
        except OSError:
            pass  # reading ends, too; other connections of the client go on

    def end(self) -> None:
        assert self._socket is not None, "it was opened"
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # gone already

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
