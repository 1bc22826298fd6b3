"""Notices between netds: who may speak for a pod, for whom, and for how long."""

from __future__ import annotations

import socket
import time

import pytest

from orlop.agent.network import notices as module
from orlop.agent.network.notices import Notices
from orlop.agent.network.sockaddr import Address, number
from orlop.agent.network.world import World

REAL = Address(socket.AF_INET, number("192.0.2.9"), 40000)


def netd(ip: str, key: str = "ab" * 32) -> Notices:
    network = {"podIP": ip, "podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/12", "key": key}
    return Notices(World(network, "127.0.0.1"))


@pytest.fixture
def server():
    made = netd("10.244.0.2")
    yield made
    made.socket.close()


def tell(server: Notices, notice: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(notice, ("127.0.0.1", server.port))
    time.sleep(0.01)


def signed(to: str = "10.244.0.2", key: str = "ab" * 32, port: int = 80) -> bytes:
    client = netd("10.244.0.1", key)
    try:
        return client.sign("tcp", REAL, 40000, (number(to), port))
    finally:
        client.socket.close()


def test_a_source_is_who_its_netd_says(server):
    tell(server, signed())
    found = server.find("tcp", REAL, 80)
    assert (found.peer.ip, found.peer.port) == (number("10.244.0.1"), 40000)
    assert server.find("tcp", REAL, 80) is None, "good for one connection"


@pytest.mark.parametrize(
    "notice",
    [
        signed(key="cd" * 32),
        signed(to="10.244.0.3"),
        signed()[:-1] + b"\0",
        signed()[:-1],
        signed() + b"\0",
        b"",
        b"x" * module.LENGTH,
    ],
    ids=["another key", "another pod", "changed", "short", "long", "empty", "garbage"],
)
def test_what_is_not_for_us_or_not_from_the_cluster_is_not_believed(server, notice):
    tell(server, notice)
    assert server.find("tcp", REAL, 80) is None


def test_a_notice_is_for_one_port_and_one_protocol(server):
    tell(server, signed())
    assert server.find("udp", REAL, 80) is None
    assert server.find("tcp", REAL, 81) is None
    assert server.find("tcp", REAL, 80) is not None


def test_an_old_notice_is_not_believed(server, monkeypatch):
    notice = signed()
    now = time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + module.TOLERANCE + 1)
    tell(server, notice)
    assert server.find("tcp", REAL, 80) is None


def test_a_connection_that_is_not_accepted_for_long_is_nobodys(server, monkeypatch):
    tell(server, signed())
    server.read()
    now = time.monotonic()
    monkeypatch.setattr(module.time, "monotonic", lambda: now + module.LIFETIME + 1)
    assert server.find("tcp", REAL, 80) is None


def test_a_flood_makes_it_forget_and_not_grow(server):
    for port in range(module.MAX_KNOWN + 10):
        here = Address(socket.AF_INET, number("127.0.0.1"), port)
        server.expect("udp", here, here, Address(socket.AF_INET, number("10.244.0.2"), 53))
    assert server.known("udp", Address(2, number("127.0.0.1"), 5), 53) is None
    assert server.known("udp", Address(2, number("127.0.0.1"), module.MAX_KNOWN), 53) is not None
