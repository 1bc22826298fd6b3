"""Carries messages between the agent and netd: frames of JSON over a socket pair.

The agent's end is polled by the thread of the connection to the kubelet, which carries "net-..."
messages to and from the kubelet unchanged; netd reads the other end. A new pair is made for each
netd, so that one killed in the middle of a message leaves nothing behind.
"""

from __future__ import annotations

import _thread

from ..connection.frames import Broken, FramedSocket, Frames, frame
from ..linux.fast_imports import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
    import socket
    from typing import Any

# What the network process is told of the line itself: after CONNECTED it says all it has to say.
CONNECTED, DISCONNECTED = {"type": "net-connected"}, {"type": "net-disconnected"}
POLLIN, POLLOUT = 1, 4
_CHUNK = 65536
_FORGET = b'{"type":"net-forget"'
MAX_BACKLOG = 16 << 20  # bytes that a network process does not read: it is stuck


class Relay(FramedSocket):
    """The agent's end; `flush` and `receive` never wait."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, (BlockingIOError,), "the network process has ended")

    def send(self, payload: bytes) -> None:
        """Pass a message on; raise Broken where nobody reads any more."""
        self._out += frame(0, payload)
        if len(self._out) > MAX_BACKLOG:
            raise Broken("the network process does not read")
        self.flush()

    def receive(self) -> list[bytes]:
        """Return all whole messages that are here now; raise Broken at the end of the process."""
        return [payload for _, payload in self._received()]


class Memory:
    """What a netd was told, for the next one to be told while the kubelet is away."""

    def __init__(self) -> None:
        self._told: dict[str, bytes] = {}

    def heard(self, message: dict[str, Any], payload: bytes) -> None:
        """Remember a message of the kubelet."""
        if message.get("type") == "net-tell":
            self._told[str(message.get("key"))] = payload

    def said(self, payload: bytes) -> None:
        """Take a message of netd's: what netd forgets is forgotten here, too."""
        if payload.startswith(_FORGET):
            for key in loads(payload)["keys"]:
                self._told.pop(key, None)

    def all(self) -> list[bytes]:
        return list(self._told.values())


class Carrier:
    """Carries messages between a connection to the kubelet and the netd of the moment.

    All but `offer` is for the thread of that connection.
    """

    def __init__(self) -> None:
        self._relay: Relay | None = None
        self._offered: Relay | None = None  # the next one, taken over by the thread
        self._memory = Memory()

    @property
    def has_any(self) -> bool:
        return self._relay is not None

    def offer(self, relay: Relay) -> None:
        """Offer a netd that takes the place of any before it; from any thread."""
        self._offered = relay

    def adopt(self, is_connected: bool) -> None:
        """Take over a new netd, and let it know what the last one knew."""
        if self._offered is None:
            return
        self._drop(self._relay)
        self._relay, self._offered = self._offered, None
        for payload in self._memory.all():
            self._pass_on(payload)
        if is_connected:
            self.tell(CONNECTED)

    def register(self, poll: select.poll) -> None:
        if self._relay is not None:
            wants = POLLIN | (POLLOUT if self._relay.backlog else 0)
            poll.register(self._relay.fileno(), wants)

    def tell(self, message: dict[str, Any]) -> None:
        """Tell netd about the connection itself."""
        self._pass_on(dumps(message).encode())

    def hear(self, message: dict[str, Any], payload: bytes) -> None:
        """Pass on what the kubelet says to netd."""
        self._memory.heard(message, payload)
        self._pass_on(payload)

    def take(self) -> list[bytes]:
        """Return what netd has to say; and tell it what it has not read yet."""
        relay = self._relay
        if relay is None:
            return []
        try:
            relay.flush()
            found = relay.receive()
        except Broken:
            self._drop(relay)
            return []
        for payload in found:
            self._memory.said(payload)
        return found

    def _pass_on(self, payload: bytes) -> None:
        relay = self._relay
        try:
            if relay is not None:
                relay.send(payload)
        except Broken:
            self._drop(relay)

    def _drop(self, relay: Relay | None) -> None:
        """Drop a relay whose process is gone; whoever keeps netd comes with another."""
        if relay is not None and self._relay is relay:
            self._relay = None
            relay.close()


class Line:
    """Netd's end: any thread sends, one receives."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._frames = Frames()
        self._lock = _thread.allocate_lock()
        sock.setblocking(True)

    def send(self, message: dict[str, Any]) -> None:
        data = frame(0, dumps(message).encode())
        with self._lock:
            self._sock.sendall(data)

    def receive(self) -> list[bytes]:
        """Return the next messages, waiting for one; raise Broken when the agent is gone."""
        while True:
            found = [payload for _, payload in self._frames.take()]
            if found:
                return found
            try:
                data = self._sock.recv(_CHUNK)
            except OSError as error:
                raise Broken(str(error)) from error
            if not data:
                raise Broken("the agent has ended")
            self._frames.feed(data)

    def close(self) -> None:
        self._sock.close()
