"""A kubelet's listener as agents see it: real TLS, the real upgrade, frames; in a thread.

Only what the tests say: it welcomes, acknowledges if told to, and records what it hears.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import queue
import shutil
import socket
import ssl
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from orlop import pki, wellknown
from orlop.agent.connection.frames import Frames, frame


class Connection:
    """One agent that has dialled."""

    def __init__(self, sock: ssl.SSLSocket, request: str, rest: bytes) -> None:
        self.request = request
        self._sock = sock
        self._sending = threading.Lock()
        self._frames = Frames(rest)
        self.streams: dict[int, bytes] = {}
        self.messages: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._sock.recv(65536):
                self._frames.feed(data)
                for stream, payload in self._frames.take():
                    if stream == 0:
                        self.messages.put(json.loads(payload))
                    else:
                        self.streams[stream] = self.streams.get(stream, b"") + payload
        self.messages.put({"type": "gone"})

    def tell(self, **message: Any) -> None:
        self.send(0, json.dumps(message).encode())

    def send(self, stream: int, data: bytes) -> None:
        with self._sending:  # tests and doubles speak from several threads
            self._sock.sendall(frame(stream, data))

    def hear(self, kind: str, timeout: float = 10.0) -> dict[str, Any]:
        """The next message of a kind; others are passed over."""
        until = time.monotonic() + timeout
        while True:
            message = self.messages.get(timeout=max(0.01, until - time.monotonic()))
            if message["type"] == kind:
                return message

    def records_until(self, kind: str) -> list[dict[str, Any]]:
        """All records up to and including the first of a type."""
        found: list[dict[str, Any]] = []
        while not found or found[-1]["type"] != kind:
            found.append(self.hear("record")["record"])
        return found

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


@functools.cache
def authority() -> pki.Pki:
    """One for all kubelets of a test run: keys take longer to make than most tests."""
    folder = tempfile.mkdtemp(prefix="orlop-pki-")
    atexit.register(shutil.rmtree, folder)
    return pki.ensure(Path(folder), ["127.0.0.1"])


class KubeletDouble:
    """Listens on loopback; `folder` holds what agents must read: the CA and the endpoint file."""

    def __init__(
        self,
        folder: Path,
        answer: str = "101 Switching Protocols",
        secrets: pki.Pki | None = None,
    ) -> None:
        self.folder, self._answer = folder, answer
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        secrets = secrets or authority()
        (folder / "ca.crt").write_bytes(secrets.ca.read_bytes())
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(secrets.kubelet.crt, secrets.kubelet.key)
        self._agents: queue.Queue[Connection] = queue.Queue()
        self.refused = 0
        self._open: list[Connection] = []
        self.start()

    @property
    def plan(self) -> dict[str, str]:
        """The kubelet's part of a plan."""
        return {
            "endpointFile": str(self.folder / "kubelet.json"),
            "ca": str(self.folder / "ca.crt"),
            "serverName": wellknown.AGENT_SERVER_NAME,
        }

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        # The first is nobody: agents must try them all.
        endpoints = ["127.0.0.1:1", f"127.0.0.1:{self.port}"]
        (self.folder / "kubelet.json").write_text(json.dumps({"endpoints": endpoints}))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = listener.accept()
                with contextlib.suppress(OSError):
                    self._upgrade(self._context.wrap_socket(raw, server_side=True))

    def _upgrade(self, sock: ssl.SSLSocket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(4096)
        request, _, rest = head.partition(b"\r\n\r\n")
        sock.sendall(f"HTTP/1.1 {self._answer}\r\n\r\n".encode())
        if not self._answer.startswith("101"):
            self.refused += 1
            sock.close()
            return
        connection = Connection(sock, request.decode(), rest)
        self._open.append(connection)
        self._agents.put(connection)

    def agent(self, timeout: float = 15.0) -> Connection:
        """The next agent that dials."""
        return self._agents.get(timeout=timeout)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()
        self._open.clear()
