"""Makes one connection to the kubelet: TLS with its CA pinned, an HTTP upgrade, then frames.

Used by the thread of the kubelet connection, and by that of the ranks' connection. After `dial`
nothing here blocks: `receive` and `flush` do what the socket allows and the caller polls. What
frames mean is the caller's to know.
"""

from __future__ import annotations

import os

from ... import wellknown
from ..linux.addresses import endpoints_in
from ..linux.fast_imports import dumps
from .frames import Broken, FramedSocket, frame
from .tls import Plain, Tls, WantMore, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..plan import Plan

DIAL_TIMEOUT = 5.0
_CHUNK = 65536
_MAX_HEAD = 16384


class Link(FramedSocket):
    def __init__(self, sock: Tls, received: bytes) -> None:
        super().__init__(sock, WantMore, "closed by the kubelet", received)

    def send(self, stream: int, payload: bytes) -> None:
        self._out += frame(stream, payload)

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message on stream 0."""
        self.send(0, dumps(message).encode())

    def receive(self) -> list[tuple[int, bytes]]:
        """Return all whole frames that are here now."""
        return self._received()


def dial_home(
    plan: Plan, folder: str, complain: Callable[[str], None], line: str = ""
) -> Link | None:
    """Connect to a pod's kubelet, wherever it listens now; return None if it cannot be reached.

    `line` is the node of those who ask for names and services beside the agent.
    """
    pod, kubelet = plan.pod, plan.kubelet
    path = f"{wellknown.AGENT_PATH}/{pod.namespace}/{pod.name}/{pod.uid}"
    path += f"/lines/{line}" if line else ""
    try:
        with open(os.path.join(folder, wellknown.TOKEN_FILE)) as file:
            token = file.read().strip()
    except OSError:
        return None
    for endpoint in endpoints_in(kubelet.get("endpointFile", "")):
        try:
            return dial(endpoint, kubelet["ca"], kubelet["serverName"], path, token)
        except Broken as broken:
            complain(f"cannot reach the kubelet at {broken}")
    return None


def dial(endpoint: str, ca: str, server_name: str, path: str, token: str) -> Link:
    """Connect to `host:port` and upgrade; raise Broken with the reason."""
    host, _, port = endpoint.rpartition(":")
    try:
        raw = _connected(host.strip("[]"), int(port))
    except (OSError, ValueError) as error:
        raise Broken(f"{endpoint}: {error}") from error
    sock: Plain | Tls = raw
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock = Tls(raw, ca, server_name)
        return Link(sock, _upgrade(sock, path, token))
    except (OSError, Broken) as error:
        sock.close()
        raise Broken(f"{endpoint}: {error}") from error


def _connected(host: str, port: int) -> Plain:
    """Connect to the first address of the host that answers."""
    failure: OSError = OSError(f"{host} has no address")
    # As bytes: for a str the codec of foreign names would be imported, which is slow.
    found = socket.getaddrinfo(host.encode(), port, 0, socket.SOCK_STREAM)
    for family, kind, protocol, _, address in found:
        sock = Plain(family, kind, protocol)
        try:
            sock.settimeout(DIAL_TIMEOUT)
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            failure = error
    raise failure


def _upgrade(sock: Tls, path: str, token: str) -> bytes:
    """Ask for our protocol; return what came after the answer's head."""
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {wellknown.AGENT_SERVER_NAME}",
        "Connection: Upgrade",
        f"Upgrade: {wellknown.AGENT_PROTOCOL}",
        f"Authorization: Bearer {token}",
    )
    sock.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        data = sock.recv(_CHUNK)
        if not data or len(head) > _MAX_HEAD:
            raise Broken("no answer to the upgrade")
        head += data
    head, _, rest = head.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].decode(errors="replace")
    if status.split(" ")[1:2] != ["101"]:
        raise Broken(f"answered {status!r}, expected 101 Switching Protocols")
    return rest
