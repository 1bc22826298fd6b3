"""A server under attack, who attacks it, and who only wants to go on working meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orlop import pki

# Seconds of the server's own computing between someone else's question and its answer: machines
# that run tests have other work, too. What these attacks did took from ten seconds to for ever.
PATIENCE = 4.0
_START = 60.0
_TIMEOUT = 100.0
ROOT = Path(__file__).parents[3]


@dataclass
class Reply:
    code: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json["message"])


@dataclass
class Bystander:
    """Asks for something small all the time."""

    longest: float = 0.0  # that the server computed before it answered
    asked: int = 0
    failures: list[str] = field(default_factory=list)


class Target:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "tests.apiserver.attacks.program", str(folder)]
        with (folder / "server.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        ready, deadline = folder / "ready.json", time.monotonic() + _START
        while not ready.exists():
            assert self.is_alive, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)
        told = json.loads(ready.read_text())
        self.port, self._tokens = told["port"], told["tokens"]
        self._authority = pki.ensure(folder / "pki", ["localhost", "127.0.0.1"])

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    @property
    def memory(self) -> int:
        """MiB that it holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) >> 10

    @property
    def computed(self) -> float:
        """Seconds of CPU that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tls(self, *, admin: bool = False) -> ssl.SSLContext:
        authority = self._authority
        return authority.client_context(authority.admin if admin else None)

    def bearer(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._tokens[who]}"} if who in self._tokens else {}

    def connection(self, *, admin: bool = False) -> http.client.HTTPSConnection:
        tls = self.tls(admin=admin)
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=tls, timeout=_TIMEOUT)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        media_type: str = "application/json",
        who: str = "small",
        **headers: str,
    ) -> Reply:
        """One request, on a connection of its own; what is no bytes goes as JSON."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        sent = {"Content-Type": media_type, **self.bearer(who), **named}
        connection = self.connection(admin=who == "admin")
        try:
            connection.request(method, path, data, sent)
            reply = connection.getresponse()
            return Reply(reply.status, reply.read(), dict(reply.headers))
        finally:
            connection.close()

    @contextmanager
    def bystander(self) -> Iterator[Bystander]:
        """Someone else's small requests, while the block runs."""
        seen, stop = Bystander(), threading.Event()
        thread = threading.Thread(target=self._stand_by, args=(seen, stop))
        thread.start()
        try:
            yield seen
            time.sleep(0.1)
        finally:
            stop.set()
            thread.join()

    def _stand_by(self, seen: Bystander, stop: threading.Event) -> None:
        connection = self.connection(admin=True)
        while not stop.is_set():
            begun = self.computed
            try:
                connection.request("GET", "/api/v1/namespaces/default")
                reply = connection.getresponse()
                reply.read()
                if reply.status != 200:
                    seen.failures.append(f"answered {reply.status}")
            except (OSError, http.client.HTTPException) as error:
                seen.failures.append(repr(error))
                connection.close()
                connection = self.connection(admin=True)
            if not self.is_alive:
                break
            seen.longest = max(seen.longest, self.computed - begun)
            seen.asked += 1
            stop.wait(0.02)
        connection.close()

    @contextmanager
    def unharmed(self, *, patience: float = PATIENCE, growth: int = 256) -> Iterator[None]:
        """The server lives, others are served, and it does not grow by more than so many MiB."""
        before = self.memory
        with self.bystander() as seen:
            yield
        assert self.is_alive, f"it ended with {self.process.returncode}: {self.log[-2000:]}"
        assert not seen.failures, seen.failures
        waited = f"it computed for {seen.longest:.1f} s before it answered someone else"
        assert seen.longest < patience, waited
        assert self.memory - before < growth, f"it grew from {before} to {self.memory} MiB"
