"""Copies of announced UDP sockets: whose port they keep, and for how long."""

from __future__ import annotations

import os
import socket

import pytest

from orlop.agent.netd.sockets import socket_calls
from orlop.agent.netd.udp import port_leases as module
from orlop.agent.netd.udp.port_leases import Leases


@pytest.fixture
def leases():
    made = Leases()
    yield made
    made._drop(float("inf"))


@pytest.fixture
def sock():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        yield made


def is_free(place: tuple[str, int]) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        try:
            other.bind(place)
            return True
        except OSError:
            return False


def taken(leases: Leases, sock: socket.socket) -> tuple[int, tuple[str, int]]:
    """Announced, and then closed by its program: its cookie and its place."""
    cookie, place = socket_calls.cookie(sock.fileno()), sock.getsockname()
    assert leases.take(sock.fileno(), cookie, (os.getpid(), sock.fileno()))
    sock.close()
    return cookie, place


def test_a_port_is_kept_for_longer_than_it_is_believed(leases, sock, monkeypatch):
    _, place = taken(leases, sock)
    now = module.time.monotonic()
    for later, expected in ((module.BELIEVED, False), (module.KEPT + 0.1, True)):
        monkeypatch.setattr(module.time, "monotonic", lambda later=later: now + later)
        leases.sweep()
        assert is_free(place) == expected


def test_the_pod_itself_gets_its_port_and_no_other(leases, sock):
    _, place = taken(leases, sock)
    leases.give_up(place[1] ^ 1)
    assert not is_free(place)
    leases.give_up(place[1])
    assert is_free(place)


def test_one_that_its_process_has_still_is_kept_again_when_it_is_asked_about(leases, sock):
    cookie = socket_calls.cookie(sock.fileno())
    assert not leases.renew(cookie), "it was never announced"
    leases.take(sock.fileno(), cookie, (os.getpid(), sock.fileno()))
    leases.give_up(sock.getsockname()[1])
    assert leases.renew(cookie)


def test_one_that_its_process_has_closed_is_not(leases, sock):
    cookie, place = taken(leases, sock)
    leases.give_up(place[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM):  # at the same descriptor, most likely
        assert not leases.renew(cookie)


def test_too_many_are_not_kept(leases, sock, monkeypatch):
    monkeypatch.setattr(module, "MAX_KEPT", 0)
    assert not leases.take(sock.fileno(), socket_calls.cookie(sock.fileno()), None)
