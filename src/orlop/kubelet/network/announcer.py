"""Tells the agents of pods who connects to them from the control plane, and hears their answer.

Used by the dialer. A connection is used when the pod's agent has acknowledged it by a signed
datagram, so nothing is sent to another user who has the port of a pod that is gone. For UDP sockets
this is repeated, and agents ask here whether a socket is still ours.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...network.notices import (
    HEARD,
    KEPT,
    LENGTH,
    TCP,
    UDP,
    Kind,
    Place,
    Said,
    cookie_of,
    read,
    write,
)

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.2  # seconds between one notice and the next
HEARD_AT_ONCE = 64  # datagrams; whoever floods us must leave time for the rest of the loop


@dataclass(frozen=True, slots=True)
class PodPort:
    """A port of a pod: how it is known, where it really is, where its agent hears of us."""

    pod: Place
    real: Place
    notice: Place


class Announcer:
    """`key` is the cluster's own, as in the plans of its pods."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._socket: socket.socket | None = None
        self._connections: dict[int, tuple[Said, asyncio.Future[None]]] = {}  # by cookie
        # By cookie: what was said last, and what to do when it is answered.
        self._datagrams: dict[int, tuple[Said, Callable[[], None]]] = {}
        self._closing: set[socket.socket] = set()

    # TCP

    async def prove(self, sock: socket.socket, peer: Place | None, to: PodPort) -> None:
        """Say who connects until the pod's agent has acknowledged it; the caller sets a limit."""
        said = self._said(sock, peer, to)
        known = asyncio.get_running_loop().create_future()
        self._connections[said.cookie] = said, known
        pause = FIRST_PAUSE
        try:
            while not known.done():
                self._send(said, to.notice)
                await asyncio.wait([known], timeout=pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            del self._connections[said.cookie]

    # UDP

    def announce(
        self, sock: socket.socket, peer: Place | None, to: PodPort, heard: Callable[[], None]
    ) -> None:
        """Say whose a UDP socket is, which is kept open; `heard` is called at each answer."""
        said = self._said(sock, peer, to)._replace(protocol=UDP, more=1)
        self._datagrams[said.cookie] = said, heard
        self._send(said, to.notice)

    def forget(self, sock: socket.socket) -> None:
        """Close a UDP socket, once no agent can take its port for ours any more."""
        self._datagrams.pop(cookie_of(sock), None)
        self._close_later(sock, KEPT)

    def give_up(self, sock: socket.socket) -> None:
        """Close a connection, as soon as no agent can hear of it any more."""
        self._close_later(sock, HEARD)

    def _close_later(self, sock: socket.socket, seconds: float) -> None:
        self._closing.add(sock)

        def close() -> None:
            sock.close()
            self._closing.discard(sock)

        asyncio.get_running_loop().call_later(seconds, close)

    # Datagrams

    def _said(self, sock: socket.socket, peer: Place | None, to: PodPort) -> Said:
        real = sock.getsockname()[:2]
        shown = peer if peer is not None else real
        return Said(real, shown, to.pod, to.real[1], cookie_of(sock), TCP, when=time.time())

    def _send(self, said: Said, to: Place) -> None:
        try:
            self._opened().sendto(write(self._key, said, to[1]), to)
        except OSError:
            pass  # it is said again

    def _opened(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            self._socket.bind(("0.0.0.0", 0))
            asyncio.get_running_loop().add_reader(self._socket, self._hear, self._socket)
        return self._socket

    def _hear(self, sock: socket.socket) -> None:
        for _ in range(HEARD_AT_ONCE):
            try:
                raw, sender = sock.recvfrom(LENGTH + 1)
            except OSError:
                return
            said = read(self._key, raw, time.time(), sock.getsockname()[1])
            if said is not None:
                self._take(said, sender)

    def _take(self, said: Said, sender: Place) -> None:
        if said.kind == Kind.ASK:
            is_ours = said.cookie in self._datagrams
            kind = Kind.CONFIRM if is_ours else Kind.DENY
            self._send(said._replace(kind=kind, more=int(is_ours)), sender)
        elif said.kind == Kind.ACK and said.protocol == UDP:
            announced = self._datagrams.get(said.cookie)
            if announced is not None and said.is_about(announced[0]):
                announced[1]()
        elif said.kind == Kind.ACK:
            proving = self._connections.get(said.cookie)
            if proving is not None and said.is_about(proving[0]) and not proving[1].done():
                proving[1].set_result(None)

    def close(self) -> None:
        for sock in self._closing:
            sock.close()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
