"""Addresses, messages, the register and flows: values that are put in and come out again."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.agent.netd.interfaces import Interfaces
from orlop.agent.netd.pod_addressing import PodAddressing
from orlop.agent.netd.sockets import msghdr, sockaddr
from orlop.agent.netd.sockets.abstract_unix import AbstractUnixSockets
from orlop.agent.netd.sockets.sockaddr import ANY4, LOOPBACK6, Address, number, parse
from orlop.agent.netd.tcp.connection_table import ENTRIES, JOURNAL_SIZE, SIZE, ConnectionTable
from orlop.agent.netd.tcp.nonblocking_journal import NonblockingJournal
from orlop.agent.netd.tcp.pending_calls import Pending
from orlop.agent.netd.udp.flows import MAX_FLOWS, Flow, Flows

NETWORK = {
    "podIP": "10.244.3.7",
    "podCIDR": "10.244.0.0/16",
    "serviceCIDR": "10.96.0.0/12",
    "key": "00",
}
WORLD = PodAddressing(NETWORK, "192.0.2.5")
OTHER = PodAddressing({**NETWORK, "podIP": "10.244.3.8"}, "192.0.2.5")
LENT = NonblockingJournal(bytearray(JOURNAL_SIZE), 0)
ABSTRACT = AbstractUnixSockets(WORLD, Pending(), LENT)
ports = st.integers(0, 65535)


@given(st.binary(min_size=4, max_size=4), ports)
def test_an_address_of_either_family_is_read_as_it_was_packed(ip, port):
    for family in (socket.AF_INET, socket.AF_INET6):
        found = parse(Address(family, ip, port).pack())
        assert found is not None
        shown = found.ip if any(found.ip) else ANY4
        assert (found.family, shown, found.port) == (family, ip, port)


@given(st.binary(max_size=130))
def test_no_bytes_of_a_stranger_are_too_strange(raw):
    found = parse(raw)
    assert found is None or found.family in (socket.AF_INET, socket.AF_INET6)
    msghdr.unpack_control(raw, WORLD)
    ABSTRACT.real(raw)
    Interfaces(WORLD).rewritten(raw)


def test_what_the_kernel_packs_is_read():
    raw = struct.pack("<H", socket.AF_INET6) + struct.pack(">HI", 80, 0) + LOOPBACK6 + bytes(4)
    found = parse(raw)
    assert (found.ip, found.port, found.is_loopback) == (LOOPBACK6, 80, True)
    assert parse(b"\1\0/run/socket") is None


@pytest.mark.parametrize(
    ("ip", "is_virtual"), [("10.244.9.9", True), ("10.111.0.1", True), ("10.112.0.1", False)]
)
def test_ranges_hold_what_they_should(ip, is_virtual):
    assert WORLD.is_virtual(number(ip)) is is_virtual


def test_a_pod_is_told_by_its_loopback():
    assert sockaddr.text(WORLD.loopback) == "127.244.3.7"
    assert sockaddr.text(WORLD.pod_of(number("127.244.0.9"))) == "10.244.0.9"
    assert WORLD.pod_of(number("127.0.0.1")) == b""


def test_control_messages_tell_the_pods_address():
    info = struct.pack("<i4s4s", 2, WORLD.node, WORLD.node)
    packed = msghdr.pack_control([(0, 8, info), (1, 2, b"abc")], WORLD)
    assert len(packed) % 8 == 0
    (level, kind, data), other = msghdr.unpack_control(packed, WORLD)
    assert WORLD.pod in packed
    assert (level, kind, data) == (0, 8, info)
    assert other == (1, 2, b"abc")


def test_names_of_connections_are_found_by_their_cookie_alone():
    register = ConnectionTable(bytearray(SIZE))
    register.put(5, Address(socket.AF_INET, number("10.96.0.1"), 80))
    own = Address(socket.AF_INET, number("127.0.0.1"), 80)
    register.put(6, Address(socket.AF_INET6, LOOPBACK6, 99), own)
    peer, none = register.find(5, socket.AF_INET)
    assert (repr(peer), none) == ("10.96.0.1:80", None)
    peer, found = register.find(6, socket.AF_INET)
    assert (peer.ip, found.ip) == (LOOPBACK6, own.ip)
    assert register.find(5 + ENTRIES, socket.AF_INET) is None
    register.put(5 + ENTRIES, own)
    assert register.find(5, socket.AF_INET) is None


def test_abstract_names_are_the_pods_and_come_back_as_they_were():
    ours, others = ABSTRACT, AbstractUnixSockets(OTHER, Pending(), LENT)
    name = b"\1\0\0bus"
    for one in (name, b"\1\0\0" + b"000a1"):  # the second as the kernel gives them
        assert ours.real(one) != others.real(one)
        assert ours.shown(ours.real(one)) == one
    assert others.shown(ours.real(name)) is None
    assert ours.real(b"\1\0/run/bus") is None
    assert ours.real(ours.real(name)) is None
    assert others.real(ours.real(name)) not in (None, ours.real(name))
    assert len(ours.real(b"\1\0\0" + b"x" * 107)) <= 110


def test_a_flow_knows_whom_it_awaits():
    flow, here, there = Flow(), Address(2, number("10.0.0.1"), 9), Address(2, number("9.9.9.9"), 53)
    assert not flow.awaits(there)
    flow.goes_outside(there)
    assert flow.awaits(there)
    assert not flow.awaits(here)
    flow.goes_outside(Address(2, number("239.1.1.1"), 53))
    assert flow.awaits(here)
    assert flow.is_due(here, 100.0, 5.0)
    assert not flow.is_due(here, 104.0, 5.0)
    assert flow.is_due(here, 105.0, 5.0)


def test_the_oldest_flows_are_forgotten():
    flows = Flows()
    for cookie in range(MAX_FLOWS + 1):
        flows.of(cookie)
    assert flows.find(0) is None
    assert flows.find(MAX_FLOWS) is not None


def test_a_dump_of_addresses_shows_the_pods_alone():
    def address(family: int, scope: int, ip: bytes) -> bytes:
        body = struct.pack("<BBBBI", family, 24, 0, scope, 2)
        body += struct.pack("<HH", 4 + len(ip), 1) + ip
        return struct.pack("<IHHII", 16 + len(body), 20, 0, 1, 1) + body

    loopback = address(2, 254, number("127.0.0.1"))
    done = struct.pack("<IHHIIi", 20, 3, 0, 1, 1, 0)
    dump = loopback + address(2, 0, WORLD.node) + address(2, 0, number("10.9.9.9"))
    dump += address(10, 0, bytes(range(16))) + done
    shown = Interfaces(WORLD).rewritten(dump)
    assert shown.startswith(loopback)
    assert shown.endswith(done)
    rest = shown[len(loopback) : -len(done)]
    assert WORLD.pod in rest
    assert WORLD.node not in rest
    assert len(rest) == len(address(2, 0, WORLD.node))
    assert rest[17] == 16
