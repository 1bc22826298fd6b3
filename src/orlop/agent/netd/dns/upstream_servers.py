"""Asks the node's own DNS servers, or those configured, for names that are not of the cluster.

Used by the DNS server, which calls `ask` in a thread that may wait. An answer is passed on as it
came. Servers are tried in turn, and once more from the beginning.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time

from ...pod.resolv_conf import nameservers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIMEOUT = 2.0  # seconds for one server
ROUNDS = 2
RESOLV_CONF = "/etc/resolv.conf"
LOOK_AGAIN = 30.0  # seconds until the node's file is read anew
MAX_SERVERS = 3


class Upstream:
    """The servers to ask: `servers` in place of the node's; `stubs`: domain -> those who know it.

    Each is written `address#port`.
    """

    def __init__(
        self,
        servers: Sequence[str],
        stubs: Mapping[str, Sequence[str]],
        resolv_conf: str = RESOLV_CONF,
        timeout: float = TIMEOUT,
    ) -> None:
        self._servers = [_server(one) for one in servers]
        self._stubs = {
            domain.lower().strip("."): [_server(one) for one in many]
            for domain, many in stubs.items()
        }
        self._file, self._timeout = resolv_conf, timeout
        self._of_node: list[tuple[str, int]] = []
        self._read_at = -LOOK_AGAIN

    def ask(self, packet: bytes, name: str, tcp: bool) -> bytes:
        """Ask the servers in turn; return the answer, empty where none gives one."""
        ask = self._by_tcp if tcp else self._by_udp
        for _ in range(ROUNDS):
            for server in self._for(name):
                try:
                    return ask(server, packet)
                except (OSError, EOFError):
                    continue  # the next may know
        return b""

    def _for(self, name: str) -> list[tuple[str, int]]:
        labels = name.split(".")
        for start in range(len(labels)):
            found = self._stubs.get(".".join(labels[start:]))
            if found:
                return found
        return self._servers or self._node_servers()

    def _node_servers(self) -> list[tuple[str, int]]:
        now = time.monotonic()
        if now - self._read_at >= LOOK_AGAIN:
            self._read_at = now
            self._of_node = [(one, 53) for one in nameservers(_read(self._file))][:MAX_SERVERS]
        return self._of_node

    def _by_udp(self, server: tuple[str, int], packet: bytes) -> bytes:
        with socket.socket(_family(server), socket.SOCK_DGRAM) as sock:
            sock.connect(server)  # so that only its answers reach us, and that it is not there
            sock.send(packet)
            until = time.monotonic() + self._timeout
            while True:
                left = until - time.monotonic()
                if left <= 0 or not select.select([sock], [], [], left)[0]:
                    raise OSError("no answer")
                answer = sock.recv(65535)
                if answer[:2] == packet[:2] and len(answer) >= 12 and answer[2] & 0x80:
                    return answer

    def _by_tcp(self, server: tuple[str, int], packet: bytes) -> bytes:
        with socket.create_connection(server, self._timeout) as sock:
            sock.sendall(struct.pack(">H", len(packet)) + packet)
            (length,) = struct.unpack(">H", _exactly(sock, 2))
            return _exactly(sock, length)


def _server(text: str) -> tuple[str, int]:
    address, _, port = text.partition("#")
    return address, int(port or 53)


def _family(server: tuple[str, int]) -> int:
    return socket.AF_INET6 if ":" in server[0] else socket.AF_INET


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError("closed")
        data += more
    return data


def _read(path: str) -> str:
    try:
        with open(os.fspath(path), errors="replace") as file:
            return file.read()
    except OSError:
        return ""
