"""The compiled part of netd against its Python double, where the two must agree to the byte."""

from __future__ import annotations

import mmap
import shutil
import socket
from pathlib import Path

import pytest

from orlop.agent.network import heard, register
from orlop.agent.network import notices as plain
from orlop.agent.network.notices import Notices
from orlop.agent.network.quick import ABI, Quick, QuickNotices, load
from orlop.agent.network.sockaddr import AF_INET, AF_INET6, LOOPBACK6, Address, number
from orlop.agent.network.world import World

from .conftest import running_kubelet
from .neighbourhood import Neighbourhood
from .test_harm import netd_of

SIZE = register.SIZE + heard.SIZE + register.LENT_SIZE
NETWORK = {
    "podIP": "10.244.0.7",
    "podCIDR": "10.244.0.0/16",
    "serviceCIDR": "10.96.0.0/12",
    "key": "5f" * 32,
}


@pytest.fixture(scope="module")
def ours(compiled, rooms):
    """The library as netd has it; one for the process, as it keeps its tables in itself."""
    quick, world = load(compiled), World(NETWORK, "127.0.0.1")
    assert quick is not None
    memory = mmap.mmap(-1, SIZE)
    found = QuickNotices(world, quick)
    found.memory = memory
    assert quick.start(world, found.socket.fileno(), -1, [(0, 1)], memory, rooms)
    yield quick, found
    found.socket.close()


@pytest.fixture
def theirs():
    """A netd of another pod, in Python."""
    found = Notices(World({**NETWORK, "podIP": "10.244.0.9"}, "127.0.0.1"))
    yield found
    found.socket.close()


def told(ours, theirs, raw: bytes, ip: str = "10.0.0.1", port: int = 4000) -> object:
    """What is known of a source after a datagram has arrived."""
    _, notices = ours
    theirs.send(raw, ("127.0.0.1", notices.port))
    return notices.find("tcp", Address(AF_INET, number(ip), port), 80)


def test_a_notice_that_python_signed_is_understood(ours, theirs):
    real = Address(AF_INET, number("10.0.0.1"), 4000)
    found = told(ours, theirs, theirs.sign("tcp", real, 5000, (number("10.244.0.7"), 80)))
    assert (found.peer, found.own) == (Address(AF_INET, number("10.244.0.9"), 5000), None)


def test_who_speaks_udp_is_left_to_the_next_netd(ours, theirs):
    _, notices = ours
    real = Address(AF_INET, number("10.0.0.5"), 4005)
    raw = theirs.sign("udp", real, 5005, (number("10.244.0.7"), 53))
    theirs.send(raw, ("127.0.0.1", notices.port))
    notices.read()
    world = World(NETWORK, "127.0.0.1")
    after = Notices(world, heard.Heard(notices.memory, register.SIZE))
    found = after.find("udp", real, 53)
    assert found.peer == Address(AF_INET, number("10.244.0.9"), 5005)
    assert after.find("udp", real, 54) is None
    assert after.find("udp", Address(AF_INET, number("10.0.0.5"), 4006), 53) is None
    after.socket.close()


def test_a_notice_is_good_for_one_connection(ours, theirs):
    real = Address(AF_INET, number("10.0.0.1"), 4000)
    raw = theirs.sign("tcp", real, 5000, (number("10.244.0.7"), 80))
    assert told(ours, theirs, raw) is not None
    assert ours[1].known("tcp", real, 80) is None


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
def test_a_notice_that_was_changed_is_none(ours, theirs, spoil):
    real = Address(AF_INET, number("10.0.0.1"), 4000)
    raw = theirs.sign("tcp", real, 5000, (number("10.244.0.7"), 80))
    assert told(ours, theirs, spoil(raw)) is None


@pytest.mark.parametrize(
    ("to", "age"), [("10.244.0.8", 0.0), ("10.244.0.7", 500.0), ("10.244.0.7", -500.0)]
)
def test_a_notice_for_another_or_of_another_time_is_none(ours, theirs, monkeypatch, to, age):
    real = Address(AF_INET, number("10.0.0.1"), 4000)
    when = plain.time.time() - age
    monkeypatch.setattr(plain.time, "time", lambda: when)
    raw = theirs.sign("tcp", real, 5000, (number(to), 80))
    assert told(ours, theirs, raw) is None


def test_a_connection_of_the_pod_to_itself_is_known_by_both_its_names(ours):
    _, notices = ours
    real = Address(AF_INET, number("127.244.0.7"), 4001)
    peer, own = Address(AF_INET6, LOOPBACK6, 4001), Address(AF_INET6, LOOPBACK6, 80)
    notices.expect("tcp", real, peer, own)
    found = notices.known("tcp", real, 80)
    assert (found.peer, found.own) == (peer, own)


def test_many_notices_are_kept_and_the_oldest_go_first(ours):
    _, notices = ours
    peer = Address(AF_INET, number("10.244.0.9"), 1)
    for port in range(20000):
        notices.expect("udp", Address(AF_INET, number("10.0.0.2"), port), peer, peer)
    known = [
        notices.known("udp", Address(AF_INET, number("10.0.0.2"), port), 1) is not None
        for port in range(20000)
    ]
    assert known[-1]
    assert 4000 < sum(known) <= 8192
    assert sum(known[10000:]) > sum(known[:10000])


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
    world = World(NETWORK, "127.0.0.1")
    quick = load(compiled)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, mmap.mmap(-1, SIZE) as memory:
        ranges = [(number, 1) for number in range(17)]
        assert not quick.start(world, sock.fileno(), -1, ranges, memory, [])


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
