"""A client that costs next to nothing: requests made beforehand, raw TLS, many connections at once.

Used by the API server's benchmark, in another process than the server. It reads of an answer where
it ends and its status, and nothing else, so that what is measured is the server.
"""

from __future__ import annotations

import re
import selectors
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_STATUS = re.compile(rb"HTTP/1\.1 (\d+)")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PIECE = 256 << 10
_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Address:
    """A server, and who we are to it."""

    host: str
    port: int
    tls: ssl.SSLContext


@dataclass(slots=True)
class Run:
    """What became of a number of requests."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    received: int = 0  # bytes
    refused: list[bytes] = field(default_factory=list)  # the beginning of answers of 400 and above

    @property
    def count(self) -> int:
        return len(self.latencies)


def request(method: str, path: str, body: bytes = b"", media_type: str = "") -> bytes:
    """One request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: bench", "Accept: application/json"]
    lines += ["User-Agent: bench/1.0"]
    if body:
        lines += [f"Content-Type: {media_type or 'application/json'}"]
        lines += [f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Connection:
    def __init__(self, address: Address) -> None:
        plain = socket.create_connection((address.host, address.port), timeout=_PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = address.tls.wrap_socket(plain, server_hostname="localhost")
        self.socket.setblocking(False)
        self._pieces: list[bytes] = []
        self._began = 0.0
        self._end = 0  # bytes of the whole answer; 0: not known yet
        self._size = 0

    def send(self, wire: bytes) -> None:
        """Requests are small: the kernel takes them whole."""
        self._pieces, self._end, self._size = [], 0, 0
        self._began = time.perf_counter()
        if self.socket.send(wire) != len(wire):
            raise AssertionError("a request did not fit into the socket's buffer")

    def receive(self) -> bytes:
        """What has come, or some of it; empty where it was of TLS itself."""
        try:
            pieces = [self.socket.recv(_PIECE)]
            while self.socket.pending():
                pieces.append(self.socket.recv(_PIECE))
        except ssl.SSLWantReadError:
            return b""
        if not pieces[-1]:
            raise ConnectionError("the server closed a connection")
        return b"".join(pieces)

    def answered(self, run: Run) -> bool:
        """Read on; whether the answer is whole, and then it is counted."""
        piece = self.receive()
        if not piece:  # of TLS's own
            return False
        self._pieces.append(piece)
        self._size += len(piece)
        if not self._end:
            self._end = _expected(b"".join(self._pieces))
        if not self._end or self._size < abs(self._end):
            return False
        if self._end < 0 and not b"".join(self._pieces[-2:]).endswith(b"0\r\n\r\n"):
            return False
        self._count(run)
        return True

    def _count(self, run: Run) -> None:
        run.latencies.append(time.perf_counter() - self._began)
        run.received += self._size
        status = _STATUS.match(self._pieces[0])
        if status is None or int(status[1]) >= 400:
            run.refused.append(b"".join(self._pieces)[:2000])

    def close(self) -> None:
        self.socket.close()


def _expected(head: bytes) -> int:
    """Bytes of an answer with a length; negative where it comes in chunks; 0: ask again."""
    end = head.find(b"\r\n\r\n")
    if end < 0:
        return 0
    length = _LENGTH.search(head, 0, end)
    return end + 4 + int(length[1]) if length else -(end + 4)


class Client:
    """Several connections, each with one request at a time."""

    def __init__(self, address: Address, connections: int) -> None:
        self.connections = [Connection(address) for _ in range(connections)]
        self._selector = selectors.DefaultSelector()
        for connection in self.connections:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def run(self, requests: Iterable[bytes]) -> Run:
        """All of the requests, in turn, as fast as they are answered."""
        run, left = Run(), iter(requests)
        began = time.perf_counter()
        busy = sum(_send_next(connection, left) for connection in self.connections)
        while busy:
            for connection in self._readable():
                if connection.answered(run) and not _send_next(connection, left):
                    busy -= 1
        run.seconds = time.perf_counter() - began
        return run

    def _readable(self) -> list[Connection]:
        ready = self._selector.select(_PATIENCE)
        if not ready:
            raise TimeoutError(f"no answer within {_PATIENCE:.0f} s")
        return [key.data for key, _ in ready]

    def begin_streams(self, wire: bytes) -> None:
        """The same request on every connection, one after the other, until each is answered."""
        for connection in self.connections:
            connection.send(wire)
            connection.socket.setblocking(True)
            head = connection.socket.recv(_PIECE)
            connection.socket.setblocking(False)
            if not head.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(f"a stream was refused: {head.decode()}")

    def count(self, marker: bytes, wanted: int) -> float:
        """Read streams until a text was seen so many times in all; the seconds it took."""
        began, seen = time.perf_counter(), 0
        tails = dict.fromkeys(self.connections, b"")
        while seen < wanted:
            for connection in self._readable():
                text = tails[connection] + connection.receive()
                seen += text.count(marker)
                # A marker may be cut in two, but none may be counted twice.
                tails[connection] = text[text.rfind(marker) + 1 :][-len(marker) + 1 :]
        return time.perf_counter() - began

    def close(self) -> None:
        self._selector.close()
        for connection in self.connections:
            connection.close()


def _send_next(connection: Connection, left: Iterator[bytes]) -> bool:
    wire = next(left, None)
    if wire is None:
        return False
    connection.send(wire)
    return True
