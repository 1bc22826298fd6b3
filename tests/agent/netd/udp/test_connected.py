"""Connected UDP sockets of which it is asked, time and again, whether their pod is still there."""

from __future__ import annotations

import os
import socket

import pytest

from orlop.agent.netd.pod_addressing import PodAddressing
from orlop.agent.netd.routes import Place
from orlop.agent.netd.sockets import socket_calls
from orlop.agent.netd.sockets.sockaddr import AF_INET, Address, number
from orlop.agent.netd.udp import connected as module
from orlop.agent.netd.udp.connected import Connected

from ..sockets.test_bind import NETWORK

TO = Address(AF_INET, number("10.96.0.5"), 53)
ELSEWHERE = "192.0.2.1"  # as the node has it: another's


class Site:
    """One socket, watched; `answers` is whether the far netd says the port is its pod's."""

    def __init__(self, monkeypatch) -> None:
        self.now, self.answers, self.asked = 100.0, True, []
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(module.Connected, "_go_on", lambda self: None)
        self.connected = Connected(
            PodAddressing(NETWORK, ELSEWHERE), self.ask, lambda to: self.found
        )
        self.servers = [self.server() for _ in range(2)]
        self.places = [self.place(server) for server in self.servers]
        self.found = self.places[0]
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.connect(self.servers[0].getsockname())
        origin = os.getpid(), self.sock.fileno()
        self.cookie = socket_calls.cookie(self.sock.fileno())
        self.connected.watch(self.cookie, origin, TO, self.places[0])

    def server(self) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("127.0.0.1", 0))
        made.settimeout(1)
        return made

    def place(self, server: socket.socket) -> Place:
        real = Address(AF_INET, number("127.0.0.1"), server.getsockname()[1])
        return Place(real, (number("10.244.0.9"), 53), (ELSEWHERE, 9))

    def ask(self, fd: int, to: Address, place: Place) -> bool:
        self.asked.append(place)
        return self.answers

    def look(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += module.EVERY
            self.connected.look()

    def leads_to(self) -> tuple[str, int]:
        return self.sock.getpeername()


@pytest.fixture
def site(monkeypatch):
    made = Site(monkeypatch)
    yield made
    for sock in (made.sock, *made.servers, made.connected._nowhere):
        sock.close()
    made.connected._processes.close()


def test_one_whose_pod_is_there_is_left_alone(site):
    site.look(5)
    assert site.asked == [site.places[0]] * 5
    assert site.leads_to() == site.servers[0].getsockname()


def test_one_whose_pod_does_not_answer_twice_is_cut_off_and_refused(site):
    site.answers = False
    site.look()
    assert site.leads_to() == site.servers[0].getsockname()
    site.look()
    assert site.leads_to() not in [server.getsockname() for server in site.servers]
    site.sock.settimeout(2)
    site.sock.send(b"secret")
    with pytest.raises(ConnectionRefusedError):
        site.sock.recv(9)


def test_it_is_connected_again_to_who_is_there_then(site):
    site.answers, site.found = False, site.places[1]
    site.look(3)
    site.answers = True
    site.look()
    site.sock.send(b"hello")
    assert site.servers[1].recv(9) == b"hello"


def test_one_that_its_program_has_connected_elsewhere_is_not_touched(site):
    site.sock.connect(site.servers[1].getsockname())
    site.answers = False
    site.look(3)
    assert site.leads_to() == site.servers[1].getsockname()
    assert not site.asked


def test_one_that_was_closed_is_forgotten(site):
    site.sock.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM):  # at the same descriptor, most likely
        site.look()
    assert not site.asked
    assert not site.connected._watched
