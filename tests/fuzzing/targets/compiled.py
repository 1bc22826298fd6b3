"""The C part of netd: addresses, notices and calls, under the sanitizers."""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import socket
import struct
import time
from typing import Any

from orlop.agent.netd import netd_supervisor
from orlop.agent.netd.identity import notices
from orlop.agent.netd.native import load
from orlop.agent.netd.pod_addressing import PodAddressing
from orlop.agent.netd.sockets.sockaddr import AF_INET, Address, number
from orlop.agent.netd.tcp import connection_table
from orlop.agent.netd.udp import udp_peers

from ..native import DRIVER, library
from ..target import Registry, Target
from .network import KEY, NETWORK

target = Registry()
POD, PEER, SERVICE = number("10.244.0.7"), number("10.244.0.9"), number("10.96.0.3")
LOOPBACK = number("127.0.0.1")


class Netd:
    """The library as netd has it, which knows a pod, a service and a port of its own."""

    def __init__(self) -> None:
        path = str(library(DRIVER))
        quick, self.driver = load(path), ctypes.CDLL(path)
        assert quick is not None, "it was just made"
        self.quick = quick
        self.memory = mmap.mmap(
            -1, connection_table.SIZE + udp_peers.SIZE + connection_table.JOURNAL_SIZE
        )
        self.ours = netd_supervisor.open_notices()
        self.theirs = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.notices = self.ours.getsockname()[1]
        self.theirs.connect(("127.0.0.1", self.notices))
        self.forward, self.forwarded = socket.socketpair(socket.AF_UNIX, netd_supervisor.PACKETS)
        for sock in (self.forward, self.forwarded):
            sock.setblocking(False)
        rooms: Any = [
            socket.socketpair(socket.AF_UNIX, netd_supervisor.PACKETS)
            for _ in range(netd_supervisor.ROOMS)
        ]
        self._kept = rooms
        world = PodAddressing(NETWORK, "127.0.0.1")
        ends = self.ours.fileno(), self.forward.fileno()
        uids = [(os.getuid(), 1)]
        assert quick.start(
            world, ends, netd_supervisor.open_diagnostics(), uids, self.memory, rooms
        )
        quick.policy(1, 1)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        real = Address(AF_INET, LOOPBACK, self.port)
        quick.bound("tcp", real, Address(AF_INET, LOOPBACK, 80))
        quick.learn_pod(quick.generation(), Address(AF_INET, PEER, 80), real, (LOOPBACK, 9))
        quick.learn_own(quick.generation(), Address(AF_INET, POD, 80), real)
        quick.learn_service(quick.generation(), Address(AF_INET, SERVICE, 80), [(PEER, 80)])


def _addresses() -> tuple[bytes, ...]:
    made = [Address(AF_INET, ip, 80) for ip in (POD, PEER, SERVICE, LOOPBACK, bytes(4))]
    made += [Address(10, ip, 80) for ip in (PEER, bytes(15) + b"\1", b"\x20\1" + bytes(14))]
    return tuple(one.pack() for one in made)


@target(
    "netd-c-addresses",
    "agent/netd/native/addresses.c, names.c, tables.c",
    "hostile pods",
    is_native=True,
)
def netd_c_addresses() -> Target:
    netd = Netd()

    def run(data: bytes) -> None:
        netd.driver.fuzz_address(data, len(data))

    return Target(run, _addresses(), (b"\2\0", b"\n\0", b"\xff\xff"), longest=160, largest=1 << 10)


@target(
    "netd-c-notices",
    "agent/netd/native/notices.c, owners.c: datagrams, signed or not",
    "every user of the node and network",
    is_native=True,
)
def netd_c_notices() -> Target:
    netd, key = Netd(), bytes.fromhex(KEY)

    def signed(body: bytes) -> bytes:
        return notices.signed(key, body, netd.notices)

    def run(data: bytes) -> None:
        body = data[: notices.BODY.size].ljust(notices.BODY.size, b"\0")
        now = struct.pack("!d", time.time())
        for raw in (data[:4096], signed(body), signed(b"orlop\2" + body[6:8] + now + body[16:])):
            netd.theirs.send(raw)
        netd.driver.fuzz_read_notices()
        try:
            while True:
                netd.forwarded.recv(4096)
        except BlockingIOError:
            pass

    ends = (LOOPBACK, 4711, PEER, 5000, POD, 80)
    kinds = ((1, 6), (1, 17), (2, 6), (2, 17), (3, 17), (4, 17), (5, 17))
    seeds = tuple(
        signed(notices.BODY.pack(b"orlop\2", *kind, time.time(), *ends, netd.port, 17, more))
        for kind in kinds
        for more in (0, 1)
    )
    netd.theirs.send(seeds[2])
    assert select.select([netd.forwarded], [], [], 10)[0], "what is signed is passed on to Python"
    return Target(run, seeds, (b"orlop\2", b"\x7f\xf8\0\0\0\0\0\0"), longest=80, largest=1 << 11)


@target(
    "netd-c-calls",
    "agent/netd/native/connecting.c, accepting.c, caller.c, names.c: calls and their memory",
    "hostile pods",
    is_native=True,
)
def netd_c_calls() -> Target:
    netd = Netd()
    netd.driver.fuzz_call.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint, ctypes.c_int,
                                      ctypes.c_uint64]  # fmt: skip
    netd.quick.desk.restype = ctypes.c_void_p
    desk, memory = netd.quick.desk(), ctypes.create_string_buffer(512)

    def run(data: bytes) -> None:
        ctypes.memmove(memory, data[28:540].ljust(512, b"\0"), 512)
        with socket.socket(kinds[data[2] % 3] if len(data) > 2 else socket.AF_INET) as sock:
            sock.setblocking(False)
            fd = netd.listener.fileno() if data[:1] == b"\3" else sock.fileno()
            netd.driver.fuzz_call(desk, data, len(data), fd, ctypes.addressof(memory))
        while True:
            try:
                netd.listener.accept()[0].close()
            except BlockingIOError:
                return

    kinds = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
    head = struct.pack("<BBBxQQQ", 0, 2, 0, 0, 16, 0)
    calls = [head + one for one in _addresses()]
    calls += [
        struct.pack("<BBBxQQQ", kind, 10, 0, 0, 64, 0) + struct.pack("<I", 16) * 40
        for kind in (1, 2, 3)
    ]
    return Target(
        run, tuple(calls), (b"\2\0\0\x50", b"\n\0\0\x50", struct.pack("<I", 1 << 31)), longest=640
    )
