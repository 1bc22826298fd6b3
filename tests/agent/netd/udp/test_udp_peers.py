"""Who speaks UDP to a pod, in memory that outlives the netd that heard of it."""

from __future__ import annotations

from orlop.agent.netd.sockets.sockaddr import AF_INET, Address, number
from orlop.agent.netd.udp.udp_peers import SETS, SIZE, WAYS, Speaker, UdpPeers

PEER = Address(AF_INET, number("10.244.0.9"), 5005)
NETD = ("10.0.0.5", 700)


def real(port: int) -> Address:
    return Address(AF_INET, number("10.0.0.5"), port)


def speaker(cookie: int, since: float, until: float) -> Speaker:
    return Speaker(PEER, 53, NETD, cookie, (since, until))


def test_who_speaks_is_left_to_the_next_netd():
    memory = bytearray(SIZE + 64)
    UdpPeers(memory, 64).put(real(4005), speaker(7, 1.0, 2.0))
    after = UdpPeers(memory, 64)
    found = after.find(real(4005), 53)
    assert found is not None
    assert (found.peer, found.netd, found.cookie) == (PEER, NETD, 7)
    assert (found.since, found.until) == (1.0, 2.0)
    assert after.find(real(4005), 54) is None
    assert after.find(real(4006), 53) is None


def test_one_socket_is_known_since_its_first_notice_and_another_since_its_own():
    peers = UdpPeers(bytearray(SIZE), 0)
    for cookie, when, since in ((7, 1.0, 1.0), (7, 5.0, 1.0), (8, 9.0, 9.0)):
        peers.put(real(4005), speaker(cookie, when, when + 1))
        found = peers.find(real(4005), 53)
        assert found is not None
        assert (found.since, found.until) == (since, when + 1)


def test_who_is_denied_is_nobody():
    peers = UdpPeers(bytearray(SIZE), 0)
    peers.put(real(4005), speaker(7, 1.0, 2.0))
    peers.remove(real(4005))
    assert peers.find(real(4005), 53) is None


def test_of_too_many_those_whose_time_ends_first_are_forgotten():
    peers = UdpPeers(bytearray(SIZE), 0)
    alike = [real(1 + SETS * count) for count in range(WAYS + 1)]
    for count, one in enumerate(alike):
        peers.put(one, speaker(count, 1.0, 10.0 + count))
    known = [peers.find(one, 53) is not None for one in alike]
    assert known == [False] + [True] * WAYS
