"""A blocking socket is blocking again, whoever was killed while it was connected."""

from __future__ import annotations

import mmap
import os
import signal
import socket
from errno import EAGAIN

import pytest

from orlop.agent.netd.seccomp.notify import Call
from orlop.agent.netd.sockets import socket_calls
from orlop.agent.netd.sockets.sockaddr import AF_INET, LOOPBACK4, Address
from orlop.agent.netd.tcp.connection_table import JOURNAL_SIZE as SIZE
from orlop.agent.netd.tcp.nonblocking_journal import ENTRIES, NonblockingJournal

START = 64  # of other parts' memory


@pytest.fixture
def memory():
    return mmap.mmap(-1, START + SIZE)


@pytest.fixture
def sock():
    with socket.socket() as made:
        yield made


def call_of(sock):
    """As if this very thread had made it."""
    return Call(None, 1, os.getpid(), 42, (sock.fileno(), 0, 0, 0, 0, 0))


def nobody():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return Address(AF_INET, LOOPBACK4, found.getsockname()[1]).pack()


def killed_in_connect(memory, sock, monkeypatch):
    """A netd of its own, killed in the middle of connecting the socket."""
    call = call_of(sock)
    pid = os.fork()
    if pid == 0:
        try:
            monkeypatch.setattr(
                socket_calls, "connect", lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            )
            NonblockingJournal(memory, START).connect(call, sock.fileno(), b"", True)
        finally:
            os._exit(1)  # whatever became of it, there is only one pytest
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def test_nothing_is_left_of_a_connect_that_ended(memory, sock):
    journal = NonblockingJournal(memory, START)
    for _ in range(ENTRIES):
        assert journal.connect(call_of(sock), sock.fileno(), nobody(), True) != EAGAIN
    assert os.get_blocking(sock.fileno())
    assert memory[:] == bytes(START + SIZE)
    assert journal.mend() == 0


def test_a_socket_that_does_not_block_stays_so(memory, sock):
    sock.setblocking(False)
    NonblockingJournal(memory, START).connect(call_of(sock), sock.fileno(), nobody(), False)
    assert not os.get_blocking(sock.fileno())


def test_what_a_killed_netd_kept_the_next_gives_back(memory, sock, monkeypatch):
    killed_in_connect(memory, sock, monkeypatch)
    assert not os.get_blocking(sock.fileno())
    assert NonblockingJournal(memory, START).mend() == 1
    assert os.get_blocking(sock.fileno())
    assert NonblockingJournal(memory, START).mend() == 0


def test_another_socket_at_the_same_number_is_let_be(memory, sock, monkeypatch):
    killed_in_connect(memory, sock, monkeypatch)
    with socket.socket() as other:
        other.setblocking(False)
        os.dup2(other.fileno(), sock.fileno())
        assert NonblockingJournal(memory, START).mend() == 0
        assert not os.get_blocking(sock.fileno())
