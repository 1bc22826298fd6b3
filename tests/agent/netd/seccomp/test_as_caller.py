"""Connecting to a unix socket as somebody else does: from their root, and with their rights."""

from __future__ import annotations

import os
import pwd
import socket
import struct
import threading
from errno import EACCES, ECONNREFUSED, ENOENT
from pathlib import Path

import pytest

from orlop.agent.netd.seccomp.as_caller import Caller
from orlop.agent.netd.sockets.socket_calls import connect
from tools.devroot import PLAIN_USER

from ...pods import IS_ROOT

pytestmark = pytest.mark.skipif(not IS_ROOT, reason="becomes another user: needs root")


class Other:
    """A process of another user, in a root of its own, that sleeps."""

    def __init__(self, root: Path) -> None:
        user = pwd.getpwnam(PLAIN_USER)
        self.uid, self.gid = user.pw_uid, user.pw_gid
        ready, write_end = os.pipe()
        self.clients: list[socket.socket] = []
        self.pid = os.fork()
        if not self.pid:
            os.chroot(root)
            os.chdir("/sub")
            os.setgroups([4242])
            os.setresgid(self.gid, self.gid, self.gid)
            os.setresuid(self.uid, self.uid, self.uid)
            os.write(write_end, b"x")
            while True:
                threading.Event().wait()
        os.read(ready, 1)
        os.close(ready)
        os.close(write_end)

    def connect(self, path: bytes) -> tuple[int, socket.socket]:
        client = socket.socket(socket.AF_UNIX)
        self.clients.append(client)
        raw = struct.pack("<H", socket.AF_UNIX) + path
        return Caller(self.pid).does(lambda: connect(client.fileno(), raw)), client


@pytest.fixture
def other(tmp_path):
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    (tmp_path / "sub").mkdir()
    found = Other(tmp_path)
    yield found
    os.kill(found.pid, 9)
    os.waitpid(found.pid, 0)
    for client in found.clients:
        client.close()


@pytest.fixture
def server(tmp_path, other):
    with socket.socket(socket.AF_UNIX) as found:
        found.bind(str(tmp_path / "sub/s"))
        found.listen()
        (tmp_path / "sub/s").chmod(0o666)
        yield found


@pytest.mark.parametrize("path", [b"/sub/s", b"s", b"/link/s\0\0\0", b"../sub/s"])
def test_paths_are_those_of_the_caller(tmp_path, other, server, path):
    (tmp_path / "link").symlink_to("/sub")
    code, client = other.connect(path)
    assert code == 0
    client.send(b"x")
    with server.accept()[0] as accepted:
        assert accepted.recv(9) == b"x"
        said = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    assert struct.unpack("3i", said)[1:] == (other.uid, other.gid)


def test_a_path_leads_nowhere_but_below_the_callers_root(tmp_path, other, server):
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    with socket.socket(socket.AF_UNIX) as another:
        another.bind(str(outside))
        another.listen()
        outside.chmod(0o666)
        (tmp_path / "out").symlink_to(outside)
        for path in (str(outside)[:100], "/out", f"../../{outside.name}"):
            assert other.connect(path.encode())[0] == ENOENT
    outside.unlink()


def test_what_the_caller_may_not_open_it_does_not_get_by_us(tmp_path, other, server):
    (tmp_path / "sub/s").chmod(0o600)
    assert other.connect(b"/sub/s")[0] == EACCES
    (tmp_path / "sub/s").chmod(0o660)
    os.chown(tmp_path / "sub/s", 0, 4242)  # of a group that it is in
    assert other.connect(b"/sub/s")[0] == 0
    (tmp_path / "sub").chmod(0o700)
    assert other.connect(b"/sub/s")[0] == EACCES


def test_what_is_not_there_is_said_as_by_the_kernel(tmp_path, other, server):
    (tmp_path / "plain").write_text("")
    (tmp_path / "plain").chmod(0o666)
    assert other.connect(b"/nowhere")[0] == ENOENT
    assert other.connect(b"/plain")[0] == ECONNREFUSED
    server.close()
    assert other.connect(b"/sub/s")[0] == ECONNREFUSED


def rights() -> tuple[int, list[int], str, str]:
    with open("/proc/thread-self/status") as file:
        said = dict(line.split(":", 1) for line in file)
    return os.geteuid(), os.getgroups(), said["CapEff"].strip(), os.readlink("/proc/self/root")


def test_no_other_thread_is_anybody_else(other):
    before, seen = rights(), []

    def act() -> int:
        seen.append((os.geteuid(), os.getgroups(), os.path.exists("/sub")))
        return 0

    assert Caller(other.pid).does(act) == 0
    assert seen == [(other.uid, [4242], True)]
    assert rights() == before


def test_who_is_gone_does_nothing(other):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert Caller(child).does(lambda: 0) == ENOENT
