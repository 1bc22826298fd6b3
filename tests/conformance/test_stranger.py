"""Another user of the machine, without credentials: does nothing, learns nothing, slows little.

The server runs as one unprivileged user, the stranger as another; both need root to be started.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.api_client import Address, Client, request
from orlop import pki
from tools.devroot import PLAIN_USER, PROJECT, TEST_USER, dev_root
from tools.wheel import refresh

from .conftest import HERE

pytestmark = pytest.mark.slurm  # needs what the test cluster needs: root, and its two users
SECONDS = 3
GET = request("GET", "/api/v1/namespaces/default")


@dataclass
class Server:
    home: Path
    port: int
    pid: int

    def client(self, connections: int) -> Client:
        authority = pki.Pki(self.home / "pki")
        tls = authority.client_context(authority.admin)
        return Client(Address("127.0.0.1", self.port, tls), connections)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    refresh(dev_root())
    user = pwd.getpwnam(TEST_USER)
    home = Path(tempfile.mkdtemp(prefix="orlop-stranger-"))
    os.chown(home, user.pw_uid, user.pw_gid)
    with (PROJECT / "tools" / "apiserver.py").open() as program:
        process = subprocess.Popen(
            [str(dev_root().venv / "bin" / "python"), "-", str(home)],
            stdin=program,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            umask=0o077,
        )
    assert process.stdout is not None
    yield Server(home, int(process.stdout.readline()), process.pid)
    process.terminate()
    assert process.wait(20) == 0
    process.stdout.close()
    shutil.rmtree(home)


def stranger(*words: object) -> subprocess.Popen[str]:
    user = pwd.getpwnam(PLAIN_USER)
    program = (HERE / "stranger.py").read_text()
    return subprocess.Popen(
        ["/usr/bin/python3", "-c", program, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        env={"PATH": "/usr/bin:/bin"},
    )


def test_a_stranger_learns_nothing(server: Server) -> None:
    looking = stranger("look", server.port, server.home, server.pid)
    out, _ = looking.communicate(timeout=100)
    told = json.loads(out)
    for path, (code, text, headers) in told["answers"].items():
        assert (path, code) == (path, 401)
        assert json.loads(text)["message"] == "Unauthorized"
        assert "Server" not in headers
        assert str(server.home) not in text
    assert told["files"] == []
    assert told["process"] == []
    assert "key" not in told["cmdline"].lower().replace(str(server.home), "")


def rate(client: Client, count: int = 100, tries: int = 8) -> float:
    """Requests a second in the best of a few tries: the others tell of the machine's other work."""
    runs = [client.run([GET] * count) for _ in range(tries)]
    assert [run.refused for run in runs] == [[]] * tries
    return max(count / run.seconds for run in runs)


@pytest.mark.parametrize("way", ["handshakes", "silent", "loris", "requests"])
def test_a_stranger_slows_nobody_down_much(server: Server, way: str) -> None:
    client = server.client(4)
    quiet = rate(client)
    flooding = stranger("flood", way, server.port, SECONDS)
    assert flooding.stdout is not None
    assert flooding.stdout.readline() == "begun\n"
    try:
        busy = rate(client)
        newcomer = server.client(1)  # who connects anew finds a place, too
        assert rate(newcomer, 5, 2) > 0
        newcomer.close()
    finally:
        out, _ = flooding.communicate(timeout=100)
    client.close()
    tries = int(out) / SECONDS
    print(f"{way}: {quiet:.0f}/s alone, {busy:.0f}/s beside {tries:.0f} tries a second")
    assert int(out) > 5, "there was no flood"
    # Server, client and flood share the cores of the machine: a third would be fair.
    assert busy > quiet / 30


def test_floods_leave_neither_connections_nor_memory_behind(server: Server) -> None:
    def memory() -> int:
        lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    before = memory()
    for way in ("silent", "loris"):
        stranger("flood", way, server.port, 3).communicate(timeout=100)
    assert memory() < before + 60_000, "kB"
