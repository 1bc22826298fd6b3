"""The compiled part of netd against its Python double, where the two must agree to the byte."""

from __future__ import annotations

import mmap
import os
import shutil
import socket
import time
from contextlib import closing
from pathlib import Path

import pytest

from orlop.agent.netd import netd_supervisor
from orlop.agent.netd.identity import notices as plain
from orlop.agent.netd.identity.sock_diag import OTHERS, TCP, UDP, Owners
from orlop.agent.netd.native import ABI, CompiledPart, Quick, QuickNotices, QuickOwners, load
from orlop.agent.netd.pod_addressing import PodAddressing
from orlop.agent.netd.sockets import socket_calls
from orlop.agent.netd.sockets.sockaddr import AF_INET, Address, number
from orlop.agent.netd.tcp import connection_table
from orlop.agent.netd.udp import udp_peers
from orlop.agent.netd.udp.port_leases import Leases

from .conftest import running_kubelet
from .neighbourhood import Neighbourhood, other_netd
from .test_harm import netd_of

SIZE = connection_table.SIZE + udp_peers.SIZE + connection_table.JOURNAL_SIZE
NETWORK = {
    "podIP": "10.244.0.7",
    "podCIDR": "10.244.0.0/16",
    "serviceCIDR": "10.96.0.0/12",
    "key": "5f" * 32,
}
KEY = bytes.fromhex(NETWORK["key"])
HERE = number("127.0.0.1")


@pytest.fixture(scope="module")
def ours(compiled, rooms):
    """The library as netd has it; one for the process, as it keeps its tables in itself."""
    quick, world = load(compiled), PodAddressing(NETWORK, "127.0.0.1")
    assert quick is not None
    memory = mmap.mmap(-1, SIZE)
    part, table = CompiledPart(quick, True), udp_peers.UdpPeers(memory, connection_table.SIZE)
    with closing(netd_supervisor.open_notices()) as sock, closing(part):
        found = QuickNotices(part, world, sock, table, Leases())
        ends, uids = (sock.fileno(), part.forward.fileno()), [(os.getuid(), 1)]
        assert quick.start(world, ends, netd_supervisor.open_diagnostics(), uids, memory, rooms)
        found.names = connection_table.ConnectionTable(memory)
        yield quick, found


@pytest.fixture
def theirs():
    """A netd of another pod, in Python."""
    with other_netd("10.244.0.9", "127.0.0.1") as found:
        yield found


@pytest.fixture
def listener(ours):
    """Port 80 of the pod, at a real one."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        real = Address(AF_INET, HERE, found.getsockname()[1])
        ours[0].bound("tcp", real, Address(AF_INET, HERE, 80))
        yield found
        ours[0].bound("tcp", real, None)


@pytest.fixture
def connection(listener):
    with socket.create_connection(listener.getsockname()) as found:
        yield found


def signed(ours, theirs, connection, listener, **options) -> bytes:
    real = Address(AF_INET, HERE, connection.getsockname()[1])
    to = number(options.get("to", "10.244.0.7")), options.get("port", 80), listener.getsockname()[1]
    notice = theirs.notice("tcp", (real, 5000), to, socket_calls.cookie(connection.fileno()))
    return plain.signed(KEY, notice, options.get("at", 0) or ours[1].port)


def accepted_as(ours, listener) -> Address | None:
    """Whom the next connection is known as."""
    taken, _ = listener.accept()
    with taken:
        found = ours[1].names.find(socket_calls.cookie(taken.fileno()), AF_INET)
        return found[0] if found is not None else None


def told(ours, theirs, raw: bytes) -> None:
    theirs.socket.sendto(raw, ("127.0.0.1", ours[1].port))
    time.sleep(0.05)


def test_a_notice_that_python_signed_is_understood_and_acknowledged(
    ours, theirs, listener, connection
):
    raw = signed(ours, theirs, connection, listener)
    told(ours, theirs, raw)
    assert theirs.is_acknowledged(raw[: plain.BODY.size])
    assert accepted_as(ours, listener) == Address(AF_INET, number("10.244.0.9"), 5000)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw[:-1],
        lambda raw: raw + b"x",
        lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
        lambda raw: raw[:20] + bytes([raw[20] ^ 1]) + raw[21:],
        lambda raw: b"",
    ],
    ids=["short", "long", "signature", "body", "empty"],
)
def test_a_notice_that_was_changed_is_none(ours, theirs, listener, connection, spoil):
    raw = signed(ours, theirs, connection, listener)
    told(ours, theirs, spoil(raw))
    assert not theirs.is_acknowledged(raw[: plain.BODY.size])
    assert accepted_as(ours, listener) is None


@pytest.mark.parametrize("options", [{"to": "10.244.0.8"}, {"port": 81}, {"at": 9}])
def test_a_notice_for_another_is_none(ours, theirs, listener, connection, options):
    told(ours, theirs, signed(ours, theirs, connection, listener, **options))
    assert accepted_as(ours, listener) is None


@pytest.mark.parametrize("age", [500.0, -500.0, float("nan")])
def test_a_notice_of_another_time_is_none(ours, theirs, listener, connection, monkeypatch, age):
    when = plain.time.time() - age
    monkeypatch.setattr(plain.time, "time", lambda: when)
    raw = signed(ours, theirs, connection, listener)
    monkeypatch.undo()
    told(ours, theirs, raw)
    assert accepted_as(ours, listener) is None


def test_a_connection_that_is_not_there_is_not_acknowledged(ours, theirs, listener):
    with socket.socket() as elsewhere:
        elsewhere.bind(("127.0.0.1", 0))
        raw = signed(ours, theirs, elsewhere, listener)
        told(ours, theirs, raw)
        assert not theirs.is_acknowledged(raw[: plain.BODY.size])


def test_notices_of_udp_are_passed_on_to_python(ours, theirs):
    real, port = Address(AF_INET, HERE, 4005), 5353
    ours[1].given = lambda protocol, at: Address(AF_INET, at.ip, 53) if at.port == port else None
    notice = theirs.notice("udp", (real, 5005), (number("10.244.0.7"), 53, port), 9, 1)
    told(ours, theirs, plain.signed(KEY, notice, ours[1].port))
    ours[1].read()
    own = Address(AF_INET, HERE, port)
    found = ours[1].speaker(real, own, 53, time.time())
    assert found.peer == Address(AF_INET, number("10.244.0.9"), 5005)
    assert ours[1].speaker(real, own, 54, time.time()) is None


def test_both_ask_the_kernel_alike(ours, theirs, listener, connection):
    quick, plainly = QuickOwners(ours[0], True), theirs._owners
    server = Address(AF_INET, HERE, listener.getsockname()[1])
    client = Address(AF_INET, HERE, connection.getsockname()[1])
    nobody = Address(AF_INET, HERE, 9)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        datagrams = Address(AF_INET, HERE, udp.getsockname()[1])
        for owners in (quick, plainly):
            assert owners.child(server, client)
            assert not owners.child(server, nobody)
            assert owners.holds(TCP, server)
            assert not owners.holds(TCP, nobody)
            assert owners.holds(UDP, datagrams)
            assert not owners.holds(UDP, nobody)
            assert owners.look(UDP, datagrams, nobody).cookie == socket_calls.cookie(udp.fileno())
            assert owners.look(TCP, client, server).is_ours


def test_an_end_of_another_users_is_not_taken_for_none(listener, connection):
    """What has no owner yet is whose listener is there."""
    server = Address(AF_INET, HERE, listener.getsockname()[1])
    client = Address(AF_INET, HERE, connection.getsockname()[1])
    others = Owners(netd_supervisor.open_diagnostics(), [(12345, 1)])
    with closing(others):
        assert others.child(server, client) == OTHERS
        assert others.child(server, Address(AF_INET, HERE, 9)) == 0


def test_what_is_no_library_of_ours_is_not_loaded(tmp_path, compiled):
    (tmp_path / "text.so").write_text("no library")
    assert load(str(tmp_path / "text.so")) is None
    assert load(str(tmp_path / "absent.so")) is None
    assert load("") is None
    libc = next(p for p in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "") if p)
    assert load(libc) is None
    assert isinstance(load(compiled), Quick)
    assert load(compiled).abi == ABI


def test_a_pod_with_too_many_ranges_of_users_does_without(compiled):
    world = PodAddressing(NETWORK, "127.0.0.1")
    quick = load(compiled)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, mmap.mmap(-1, SIZE) as memory:
        ranges = [(number, 1) for number in range(17)]
        assert not quick.start(world, (sock.fileno(), -1), -1, ranges, memory, [])


def test_what_is_compiled_while_a_pod_starts_is_used_from_its_first_call(make_pod, stage, compiled):
    late = stage.folder / "late.so"
    with running_kubelet() as kubelet:
        neighbourhood = Neighbourhood(kubelet, make_pod)
        neighbourhood.helper = str(late)
        pod = neighbourhood.add(runtime="host")
        pod.sh("true")
        shutil.copy(compiled, late)
        pod.sh("/usr/bin/python3 -c 'import socket; socket.create_server((str(), 80))'")
        assert str(late) in Path(f"/proc/{netd_of(pod)}/maps").read_text()
