"""A connection that netd had in hand when it was killed is in the hands of the next."""

from __future__ import annotations

import os
import signal
import socket
import subprocess

import pytest

from orlop.agent.netd.netd_supervisor import ROOMS
from orlop.agent.netd.seccomp.notify import Call
from orlop.agent.netd.tcp.accept_handoff import AcceptHandoff


@pytest.fixture
def connection():
    with socket.socket() as made:
        yield made.fileno()


@pytest.fixture
def stranger():
    """A process that has none of our descriptors."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


def caller(pid):
    return Call(None, 1, pid, 43, (3, 0, 0, 0, 0, 0))


def killed_with(rooms, connection, pid):
    """A netd of its own, killed while it has a connection in hand."""
    netd = os.fork()
    if netd == 0:
        try:
            AcceptHandoff(rooms).deposit(caller(pid), 77, connection)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)  # whatever became of it, there is only one pytest
    assert os.WTERMSIG(os.waitpid(netd, 0)[1]) == signal.SIGKILL


def left_in(rooms):
    found = list(AcceptHandoff(rooms).left())
    for _, connection, _ in found:
        os.close(connection)
    return [(listening, number) for listening, _, number in found]


def test_what_the_caller_does_not_have_yet_is_left_to_the_next(rooms, connection, stranger):
    killed_with(rooms, connection, stranger)
    assert left_in(rooms) == [(77, -1)]
    assert left_in(rooms) == []


def test_what_the_caller_has_and_does_not_know_of_is_left_by_its_number(rooms, connection):
    killed_with(rooms, connection, os.getpid())
    assert left_in(rooms) == [(77, connection)]


def test_what_a_caller_that_is_gone_was_to_have_is_left_all_the_same(rooms, connection):
    """Others may accept in its stead."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    killed_with(rooms, connection, gone.pid)
    assert left_in(rooms) == [(77, -1)]


def test_nothing_is_left_of_what_was_collected(rooms, connection):
    handoff = AcceptHandoff(rooms)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        taken = [handoff.deposit(caller(1), 77, connection) for _ in range(ROOMS)]
        assert [room is None for room in taken] == [False] * (ROOMS // 2) + [True] * (ROOMS // 2)
        for room in taken:
            handoff.collect(room)
    assert left_in(rooms) == []
    assert len(os.listdir("/proc/self/fd")) == before
