"""Ports of the pod over the agent's line, and attaching to its main process."""

from __future__ import annotations

import hashlib
import socket
import threading
import time

import pytest

from ..pods import container
from .test_sessions import WAITING

ECHO = "echo ready; while read line; do echo got $line; echo oops >&2; done; echo end; exit 4"


@pytest.fixture(params=["127.0.0.1", "::1"])
def echo_port(request):
    """A server on this machine's loopback, which is the pod's too; echoes until its client ends."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    listener = socket.create_server((request.param, 0), family=family)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    def echo(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data)
            connection.sendall(b" and bye")

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_bytes_go_both_ways_and_each_way_ends_alone(remote_to, echo_port):
    remote = remote_to(container(script=WAITING))
    data = bytes(range(256)) * 4096
    number = remote.open("forward", port=echo_port)
    remote.hear("opened", number)
    remote.send(number, data)
    remote.end(number)
    assert remote.closed(number)["error"] == ""
    got = remote.agent.streams[number]
    assert hashlib.sha256(got).digest() == hashlib.sha256(data + b" and bye").digest()


def test_many_connections_at_once_are_apart(remote_to, echo_port):
    remote = remote_to(container(script=WAITING))
    numbers = [remote.open("forward", port=echo_port) for _ in range(30)]
    for number in numbers:
        remote.hear("opened", number)
        remote.send(number, f"I am {number}".encode())
    for number in numbers:
        remote.end(number)
        remote.closed(number)
        assert remote.text(number) == f"I am {number} and bye"


@pytest.mark.parametrize(("port", "words"), [(1, "connection refused"), (0, ""), (99999, "")])
def test_a_port_that_nobody_listens_to_is_refused(remote_to, port, words):
    remote = remote_to(container(script=WAITING))
    closed = remote.closed(remote.open("forward", port=port))
    assert closed["error"]
    assert words in closed["error"]


def test_attach_is_live_and_the_log_goes_on(remote_to, runtime):
    remote = remote_to(container(script=ECHO, stdin=True, stdinOnce=True), runtime=runtime)
    number = remote.open("attach", container="c", stdin=True)
    remote.hear("opened", number)
    remote.send(number, b"one\n")
    remote.wait_for(number, "got one")
    remote.wait_for(number + 1, "oops")
    assert "ready" not in remote.text(number), "nothing of before"
    remote.end(number)
    assert remote.closed(number)["error"] == ""
    assert remote.text(number) == "got one\nend\n"
    remote.pod.wait_for(lambda: remote.pod.status()["state"] == "terminated")
    assert remote.pod.status()["exitCode"] == 4
    assert remote.pod.lines() == ["ready", "got one", "oops", "end"]


def test_input_that_is_for_many_stays_open(remote_to):
    remote = remote_to(container(script=ECHO, stdin=True))
    for word in ("one", "two"):
        number = remote.open("attach", container="c", stdin=True)
        remote.hear("opened", number)
        remote.send(number, f"{word}\n".encode())
        remote.wait_for(number, f"got {word}")
        remote.agent.tell(type="close", stream=number)
    assert remote.pod.status()["state"] == "running"


def test_two_who_are_attached_see_the_same(remote_to):
    remote = remote_to(container(script=ECHO, stdin=True))
    numbers = [remote.open("attach", container="c", stdin=True) for _ in range(2)]
    for number in numbers:
        remote.hear("opened", number)
    remote.send(numbers[0], b"both\n")
    for number in numbers:
        remote.wait_for(number, "got both\n")


def test_one_who_is_too_slow_is_let_go_and_the_container_never_waits(remote_to):
    script = "echo ready; read x; head -c 4000000 /dev/zero | tr '\\0' x; echo; echo over; sleep 9"
    remote = remote_to(container(script=script, stdin=True))
    number = remote.open("attach", container="c", stdin=True)
    remote.hear("opened", number)
    remote.agent.send(number, b"go\n")
    remote.pod.wait_for_line("over")


def test_a_container_that_is_not_there_cannot_be_attached_to(remote_to):
    remote = remote_to(container(script=WAITING))
    closed = remote.closed(remote.open("attach", container="x", stdin=False))
    assert closed["error"] == 'container not found ("x")'


def test_the_terminal_of_a_container_is_attached_to_with_a_size(remote_to, runtime):
    shell = container("c", "/bin/sh", "-c", "echo ready; exec sh -i", stdin=True, tty=True)
    remote = remote_to(shell, runtime=runtime)
    number = remote.open("attach", container="c", stdin=True)
    remote.hear("opened", number)
    remote.agent.tell(type="resize", stream=number, width=77, height=22)
    remote.send(number, b"stty size\n")
    remote.wait_for(number, "22 77")
    remote.send(number, b"sleep 60\n")
    time.sleep(0.3)
    remote.send(number, b"\x03echo interrupted $?\n")  # the key reaches what is in front
    remote.wait_for(number, "interrupted 130")
    remote.send(number, b"exit\n")
    remote.closed(number)
