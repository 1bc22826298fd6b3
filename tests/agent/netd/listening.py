"""A destination on the node, outside any pod: what it hears, from whom, and by which protocol.

Run as a program it prints its ports, and when its input ends what it has heard.
"""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator

UDPLITE = 136


class Destination:
    """Listens at all addresses of this machine until it is closed."""

    def __init__(self) -> None:
        self._wake, self._waker = socket.socketpair()
        self._sockets: list[socket.socket] = []
        self.heard: list[str] = []
        self.ports = {
            "tcp": self._open(socket.AF_INET, socket.SOCK_STREAM),
            "tcp6": self._open(socket.AF_INET6, socket.SOCK_STREAM),
            "udp": self._open(socket.AF_INET, socket.SOCK_DGRAM),
            "udp6": self._open(socket.AF_INET6, socket.SOCK_DGRAM),
            "udplite": self._open(socket.AF_INET, socket.SOCK_DGRAM, UDPLITE),
        }
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _open(self, family: int, kind: int, protocol: int = 0) -> int:
        try:
            made = socket.socket(family, kind, protocol)
        except OSError:
            return 9  # not of this kernel
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(("", 0))
        if kind == socket.SOCK_STREAM:
            made.listen(64)
        self._sockets.append(made)
        return int(made.getsockname()[1])

    def _listen(self) -> None:
        servers = [one for one in self._sockets if one.type == socket.SOCK_STREAM]
        while True:
            for sock in select.select([*self._sockets, self._wake], [], [])[0]:
                if sock is self._wake:
                    return
                if sock in servers:
                    connection, peer = sock.accept()
                    self.heard.append(f"connection from {peer[0]}")
                    self._sockets.append(connection)
                elif not self._take(sock):
                    self._sockets.remove(sock)
                    sock.close()

    def _take(self, sock: socket.socket) -> bool:
        """Whether there may be more."""
        try:
            data = sock.recv(1 << 16)
        except OSError:
            data = b""
        self.heard += re.findall("<(.*?)>", data.decode(errors="replace"))
        return bool(data) or sock.type != socket.SOCK_STREAM

    def wait(self) -> None:
        """Until all that was sent from this machine is here: it comes in order."""
        for protocol, kind in (("udp", socket.SOCK_DGRAM), ("tcp", socket.SOCK_STREAM)):
            with socket.socket(socket.AF_INET, kind) as last:
                last.connect(("127.0.0.1", self.ports[protocol]))
                last.sendall(f"<last {protocol}>".encode())
            while f"last {protocol}" not in self.heard:
                time.sleep(0.01)
        ours = ("last udp", "last tcp", "connection from 127.0.0.1")
        self.heard = [one for one in self.heard if one not in ours]

    def close(self) -> None:
        self._waker.send(b"x")
        self._thread.join(10)
        for sock in [*self._sockets, self._wake, self._waker]:
            sock.close()


@contextlib.contextmanager
def destination() -> Iterator[Destination]:
    found = Destination()
    try:
        yield found
    finally:
        found.close()


if __name__ == "__main__":
    with destination() as listening:
        print(json.dumps(listening.ports), flush=True)
        sys.stdin.read()
        listening.wait()
        print(json.dumps(listening.heard), flush=True)
