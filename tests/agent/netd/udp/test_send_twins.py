"""UDP sockets that cannot send, and those that send for them."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import pytest

from orlop.agent.netd.sockets import socket_calls
from orlop.agent.netd.sockets.sockaddr import AF_INET, AF_INET6, Address, number
from orlop.agent.netd.udp import send_twins
from orlop.agent.netd.udp.send_twins import Twins

LOOPBACK = number("127.0.0.1")
SIX = number("::1")


@pytest.fixture
def found():
    made = Twins()
    yield made
    made.give_up()


def silent(family: int = socket.AF_INET) -> socket.socket:
    made = socket.socket(family, socket.SOCK_DGRAM)
    socket_calls.silence(made.fileno())
    made.settimeout(2)
    return made


@pytest.fixture
def server():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        one.settimeout(2)
        yield one


def address_of(sock: socket.socket, ip: bytes = LOOPBACK, family: int = AF_INET) -> Address:
    return Address(family, ip, sock.getsockname()[1])


def test_a_silent_socket_sends_by_no_call_and_descriptor(server):
    name = server.getsockname()
    reading, writing = os.pipe()
    os.write(writing, b"x")
    with (
        silent() as sock,
        socket.socket(fileno=os.dup(sock.fileno())) as other,
        open(__file__) as f,
    ):
        for one in (sock, other):
            calls = [
                lambda one=one: one.sendto(b"x", name),
                lambda one=one: one.sendto(b"x", socket.MSG_MORE, name),
                lambda one=one: one.sendmsg([b"x"], [], 0, name),
                lambda one=one: one.connect(name) or one.send(b"x"),
                lambda one=one: os.write(one.fileno(), b"x"),
                lambda one=one: os.sendfile(one.fileno(), f.fileno(), 0, 1),
                lambda one=one: os.splice(reading, one.fileno(), 1),
                lambda one=one: socket_calls.disconnect(one.fileno()) or one.sendto(b"x", name),
            ]
            for call in calls:
                with pytest.raises(BrokenPipeError):
                    call()
    os.close(reading)
    os.close(writing)
    server.settimeout(0.05)
    with pytest.raises(TimeoutError):
        server.recv(9)


@pytest.mark.parametrize("is_bound", [False, True])
def test_its_twin_sends_from_its_port_and_hears_nothing(found, server, is_bound):
    with silent() as sock:
        if is_bound:
            sock.bind(("127.0.0.2", 0))
        for _ in range(20):  # by chance, the kernel would give some of them to the other
            assert found.send(sock.fileno(), b"out", [], 0, address_of(server)) == 3
            data, peer = server.recvfrom(9)
            assert (data, peer[1]) == (b"out", sock.getsockname()[1])
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as another:
                another.sendto(b"in", peer)
            assert sock.recv(9) == b"in"
        assert peer[0] == ("127.0.0.2" if is_bound else "127.0.0.1")


@pytest.mark.parametrize("family", [AF_INET, AF_INET6])
def test_to_addresses_of_both_families(found, server, family):
    with silent(family) as sock:
        found.send(sock.fileno(), b"four", [], 0, address_of(server, family=family))
        assert server.recvfrom(9) == (b"four", ("127.0.0.1", sock.getsockname()[1]))
    if family == AF_INET:
        return
    with silent(family) as sock, socket.socket(family, socket.SOCK_DGRAM) as six:
        six.bind(("::1", 0))
        found.send(sock.fileno(), b"six", [], 0, address_of(six, SIX, family))
        assert six.recvfrom(9)[1][:2] == ("::1", sock.getsockname()[1])


def test_who_is_connected_gets_another_twin(found, server):
    with silent() as sock:
        found.send(sock.fileno(), b"x", [], 0, address_of(server))
        sock.connect(server.getsockname())
        found.send(sock.fileno(), b"y", [], 0, address_of(server))
        assert [server.recv(9), server.recv(9)] == [b"x", b"y"]
        server.sendto(b"back", sock.getsockname())
        assert sock.recv(9) == b"back"


@pytest.mark.parametrize("option", [socket.SO_REUSEPORT, socket.SO_REUSEADDR])
def test_nobody_else_gets_the_port(found, server, option):
    with silent() as sock, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as another:
        found.send(sock.fileno(), b"x", [], 0, address_of(server))
        another.setsockopt(socket.SOL_SOCKET, option, 1)
        with pytest.raises(OSError, match="Address already in use"):
            another.bind(("127.0.0.1", sock.getsockname()[1]))


def test_a_port_is_free_when_its_socket_is_closed_and_the_twin_was_not_used(
    found, server, monkeypatch
):
    monkeypatch.setattr(send_twins, "KEPT", 0.0)
    with silent() as sock:
        found.send(sock.fileno(), b"x", [], 0, address_of(server))
        port = sock.getsockname()[1]
    assert found.sweep() == 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as next_one:
        next_one.bind(("127.0.0.1", port))


def test_what_keeps_the_port_sends_where_there_is_such_a_thing(server):
    with silent() as sock, closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as holder:
        for one in (sock, holder):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        holder.bind(sock.getsockname())
        holder.connect(("127.0.0.1", 1))
        for one in (sock, holder):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        twins = Twins(lambda own: holder.fileno())
        twins.send(sock.fileno(), b"x", [], 0, address_of(server))
        assert server.recvfrom(9) == (b"x", sock.getsockname())
        twins.give_up()
