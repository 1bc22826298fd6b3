"""The pod network in Python: DNS, notices between netds, addresses and messages of callers."""

from __future__ import annotations

import json
import os
import struct
import time
from types import SimpleNamespace
from typing import Any, cast

from orlop.agent.netd import netd_supervisor
from orlop.agent.netd.dns import packets
from orlop.agent.netd.dns.server import DnsServer
from orlop.agent.netd.dns.upstream_servers import Upstream
from orlop.agent.netd.endpoint_cache import EndpointCache, Refused, Unknown
from orlop.agent.netd.identity import notices
from orlop.agent.netd.identity.notices import Notices
from orlop.agent.netd.identity.sock_diag import Owners
from orlop.agent.netd.interfaces import ADDRESS, CONF, Interfaces
from orlop.agent.netd.pod_addressing import PodAddressing
from orlop.agent.netd.policy import Policy
from orlop.agent.netd.sockets import sockaddr
from orlop.agent.netd.sockets.abstract_unix import AbstractUnixSockets
from orlop.agent.netd.sockets.msghdr import Message, pack_control, unpack_control
from orlop.agent.netd.udp.port_leases import Leases
from orlop.agent.netd.udp.udp_peers import SIZE, UdpPeers
from orlop.agent.pod.resolv_conf import nameservers, resolv_conf
from orlop.network import names
from orlop.network import notices as of_control_plane

from ..target import Registry, Target, encoded

target = Registry()
KEY, PORT = "5f" * 32, 4711
NETWORK: dict[str, Any] = {
    "podIP": "10.244.0.7",
    "podCIDR": "10.244.0.0/16",
    "serviceCIDR": "10.96.0.0/16",
    "key": KEY,
    "dns": {"domain": "cluster.local", "upstream": ["127.0.0.1#1"]},
}
_WEB = "web.default.svc.cluster.local"
_KNOWN: dict[str, Any] = {
    f"name/{_WEB}": {
        "A": ["10.96.0.3"],
        "SRV": [[0, 100, 80, _WEB]],
        "glue": {_WEB: ["10.96.0.3"]},
    },
    "name/many.default.svc.cluster.local": {"A": [f"10.244.1.{n}" for n in range(1, 200)]},
    "name/ext.default.svc.cluster.local": {"CNAME": "files.example.org", "ttl": 5},
    "name/loop.default.svc.cluster.local": {"CNAME": "loop.default.svc.cluster.local"},
    "name/3.0.96.10.in-addr.arpa": {"PTR": [_WEB]},
    "name/dns-version.cluster.local": {"TXT": ["1.1.0"]},
}


def query(name: str, kind: int = packets.A, *, size: int = 0, ident: int = 1) -> bytes:
    head = struct.pack(">HHHHHH", ident, packets.RD, 1, 0, 0, 1 if size else 0)
    asked = head + packets.encoded(name) + struct.pack(">HH", kind, packets.IN)
    return asked + (b"\0" + struct.pack(">HHIH", packets.OPT, size, 0, 0) if size else b"")


_QUERIES = (
    query(_WEB),
    query(_WEB, packets.SRV, size=4096),
    query("ext.default.svc.cluster.local"),
    query("loop.default.svc.cluster.local", packets.ANY),
    query("many.default.svc.cluster.local", size=512),
    query("3.0.96.10.in-addr.arpa", packets.PTR),
    query("example.org", packets.AAAA),
)
_DNS_WORDS = (
    *(b"\xc0\x0c", b"\xc0\x00", b"\xff\xff", b"\x3f", b"\x40", b"\x00\x29", b"\x00\x05\x00\x01"),
    *(b"\3web\7default\3svc\7cluster\5local\0", b"\7in-addr\4arpa\0"),
)


class Servers:
    """The name server of a pod, with servers outside that answer what they are told to."""

    def __init__(self) -> None:
        self.directory = EndpointCache(NETWORK, lambda message: None, patience=0.0)
        for key, value in _KNOWN.items():
            self.directory.on_message({"type": "net-tell", "key": key, "value": value})
        self.server = DnsServer(self.directory, NETWORK, lambda *ends: True)
        self.outside = b""
        self.server._upstream = cast("Any", SimpleNamespace(ask=self._ask))
        self.directory._known = _Bounded(self.directory._known)

    def _ask(self, packet: bytes, name: str, tcp: bool) -> bytes:
        return self.outside

    def answer(self, packet: bytes) -> None:
        for tcp in (False, True):
            made = self.server.answer(packet, tcp=tcp)
            struct.pack(">H", len(made))  # as it goes over TCP
            if made and not self.outside:
                packets.addresses_in(made)
        self.server._from_memory(packet)
        self.server._is_at_hand(packet)


class _Bounded(dict[str, Any]):
    """Names that nobody has are not known, at once."""

    def __missing__(self, key: str) -> Any:
        if key.startswith("name/"):
            return None
        raise KeyError(key)


@target(
    "dns-query",
    "agent/netd/dns/packets.py, server.py, cluster_names.py: questions",
    "every user of the node",
)
def dns_query() -> Target:
    servers = Servers()

    def run(data: bytes) -> None:
        servers.answer(data)
        try:
            name = packets.parse(data).name
        except packets.Malformed:
            return
        names.parse(name, "cluster.local")

    return Target(run, _QUERIES, _DNS_WORDS)


@target(
    "dns-answer",
    "agent/netd/dns/packets.py, upstream_servers.py: answers of servers outside",
    "the site's network, whoever a name leads to",
)
def dns_answer() -> Target:
    servers = Servers()
    asked = (query("ext.default.svc.cluster.local"), query("example.org"))

    def run(data: bytes) -> None:
        servers.outside = data[:65535]  # no more comes by UDP, or behind a length of TCP
        for one in asked:
            servers.answer(one)
        nameservers(data.decode(errors="replace"))

    question = packets.parse(asked[0])
    records = [packets.Record("files.example.org", packets.A, 60, b"\xc0\0\2\1"),
               packets.Record("a.b", packets.CNAME, 60, packets.encoded("files.example.org")),
               packets.Record("a.b", packets.AAAA, 60, bytes(16))]  # fmt: skip
    seeds = (packets.answer(question, 0, records), packets.answer(question, 3), b"")
    return Target(run, seeds, _DNS_WORDS)


@target(
    "dns-settings",
    "agent/pod/resolv_conf.py: a node's resolv.conf; servers and stubs of the settings",
    "the site",
)
def dns_settings() -> Target:
    def run(data: bytes) -> None:
        text = data.decode(errors="replace")
        nameservers(text)
        more = {"nameservers": [], "searches": [], "options": []}
        resolver = {**more, "policy": "Default", "more": {**more, "searches": ["a"]}}
        resolv_conf(resolver, text, "10.96.0.10")
        try:
            Upstream([text], {})
        except ValueError:
            pass

    seeds = (
        b"nameserver 127.0.0.53\nsearch a b\noptions ndots:5 edns0\n",
        b"1.2.3.4#53",
        b"domain x\n",
    )
    return Target(run, seeds, (b"nameserver ", b"options ", b"\n", b"#", b"search "))


# Notices


def _signed(body: bytes) -> bytes:
    return notices.signed(bytes.fromhex(KEY), body, PORT)


def _notice(kind: int = notices.NOTICE, protocol: int = 17, more: int = 0) -> bytes:
    ends = (bytes((127, 0, 0, 1)), 4711, bytes((10, 244, 0, 9)), 5000, bytes((10, 244, 0, 7)), 80)
    return notices.BODY.pack(b"orlop\2", kind, protocol, time.time(), *ends, 8080, 17, more)


class Wire:
    """A socket to which everything is sent in vain."""

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", PORT

    def sendto(self, data: bytes, to: tuple[str, int]) -> None: ...

    def recvmsg(self, size: int, room: int) -> Any:
        raise BlockingIOError

    def fileno(self) -> int:
        return self._silent

    def __init__(self) -> None:
        self._silent, self._kept_open = os.pipe()


@target(
    "netd-notices",
    "agent/netd/identity/notices.py, agent/netd/udp/udp_peers.py; network/notices.py: "
    "datagrams, signed or not",
    "every user of the node and network",
)
def netd_notices() -> Target:
    world = PodAddressing(NETWORK, "127.0.0.1")
    owners = Owners(netd_supervisor.open_diagnostics(), [(0, 1)])
    told = Notices(world, cast("Any", Wire()), UdpPeers(bytearray(SIZE), 0), owners, Leases())
    told.given = lambda protocol, real: sockaddr.Address(sockaddr.AF_INET, real.ip, 80)
    key = bytes.fromhex(KEY)

    def run(data: bytes) -> None:
        assert notices.understood(key, data, PORT) is None or data in seeds, (
            "it was signed by nobody"
        )
        body = data[: notices.BODY.size].ljust(notices.BODY.size, b"\0")
        for raw in (data, _signed(body), _signed(b"orlop\2" + body[6:8] + _now() + body[16:])):
            said = notices.understood(key, raw, PORT)
            if said is not None:
                told._take(said, ("127.0.0.1", 9), time.time())
                told.speaker(said.real, said.peer, said.port, time.time() - 3)
            of_control_plane.read(key, raw, time.time(), PORT)

    kinds = ((1, 6), (1, 17), (2, 6), (2, 17), (3, 17), (4, 17), (5, 17))
    seeds = tuple(_signed(_notice(kind, protocol)) for kind, protocol in kinds)
    notices.ASK_TIME = 0.0  # nobody answers here
    return Target(run, seeds, (b"orlop\2", b"\x7f\xf8\0\0\0\0\0\0", b"\x7f\xf0\0\0\0\0\0\0"))


def _now() -> bytes:
    return struct.pack("!d", time.time())


# Calls of the pod's programs: addresses and messages in their memory


class Memory:
    """A caller's, of which a part is there; what is written is kept nowhere."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, call: Any, address: int, length: int) -> bytes:
        if length > 1 << 18:
            raise OSError(22, "too long")
        start = address & 0xFFFF
        found = self._data[start : start + length]
        if len(found) != length:
            raise OSError(14, "the caller's memory")
        return found

    def read_address(self, call: Any, address: int, length: int) -> bytes:
        if length > sockaddr.MAX:
            raise OSError(22, "address too long")
        return self.read(call, address, length)

    def write(self, call: Any, address: int, data: bytes) -> None:
        if len(data) > 1 << 18:
            raise OSError(14, "the caller's memory")


def _message() -> bytes:
    """A msghdr at 0, its pieces, its name, its control message and its data."""
    head = struct.pack("<QIIQQQQiI", 128, 16, 0, 64, 2, 160, 32, 0, 0).ljust(64, b"\0")
    pieces = struct.pack("<4Q", 192, 4, 196, 4).ljust(64, b"\0")
    name = sockaddr.Address(2, bytes((10, 244, 0, 9)), 80).pack().ljust(32, b"\0")
    pktinfo = struct.pack("<I4s4s", 0, bytes((10, 244, 0, 7)), bytes(4))
    control = (struct.pack("<Qii", 28, 0, 8) + pktinfo).ljust(32, b"\0")
    return head + pieces + name + control + b"datadata"


@target(
    "netd-messages",
    "agent/netd/sockets/msghdr.py: msghdr and control messages of sendmsg and recvmsg",
    "hostile pods",
)
def netd_messages() -> Target:
    world, call = PodAddressing(NETWORK, "192.0.2.9"), cast("Any", object())

    def run(data: bytes) -> None:
        message = Message(call, cast("Any", Memory(data)), 0)
        message.room  # noqa: B018
        control = unpack_control(data, world)
        pack_control(control, world)
        for read in (message.data, message.control, lambda: message.fill(data, data[:64], 0, b"n")):
            try:
                read()
            except OSError:
                pass

    kinds = ((0, 8), (41, 50), (1, 1))
    words = tuple(
        struct.pack("<Qii", length, *kind) for length in (0, 16, 28, 1 << 63) for kind in kinds
    )
    return Target(run, (_message(), _message()[64:]), words, (OSError,))


@target(
    "netd-addresses",
    "agent/netd/sockets/sockaddr.py, abstract_unix.py, agent/netd/interfaces.py: "
    "addresses, ioctl, netlink",
    "hostile pods",
)
def netd_addresses() -> Target:
    world, call = (
        PodAddressing(NETWORK, "192.0.2.9"),
        cast("Any", SimpleNamespace(args=(0, CONF, 0))),
    )
    abstract = AbstractUnixSockets(world, cast("Any", None), cast("Any", None))
    interfaces = Interfaces(world)
    interfaces._name = b"eth0"

    def run(data: bytes) -> None:
        found = sockaddr.parse(data[: sockaddr.MAX])
        if found is not None:
            assert sockaddr.parse(found.pack()) == found
            str(found), found.is_any, found.is_loopback, world.is_own(found)
            world.is_virtual(found.ip)
        real = abstract.real(data[: sockaddr.MAX])
        if real is not None:
            abstract.shown(real)
            abstract._may_be_the_kernels(real)
        interfaces.rewritten(data)
        for request in (CONF, ADDRESS):
            call.args = (0, request, 0)
            try:
                interfaces.ioctl(call, cast("Any", Memory(data)))
            except OSError:
                pass

    address = sockaddr.Address
    seeds = (
        address(2, bytes((10, 244, 0, 9)), 80).pack(),
        address(10, b"\x20\1" + bytes(14), 80).pack(),
        address(10, bytes((10, 96, 0, 1)), 443).pack(), b"\1\0\0name", b"\1\0/run/x\0",
        struct.pack("<IHHII", 40, 20, 0, 1, 1) + bytes((2, 24, 0, 0)) + bytes((192, 0, 2, 9)) * 5,
        struct.pack("<iiQ", 80, 0, 4096), b"eth0".ljust(40, b"\0"),
    )  # fmt: skip
    return Target(run, seeds, (b"\2\0", b"\n\0", b"\1\0\0@0af40007/", b"\0" * 10 + b"\xff\xff"))


@target(
    "netd-directory",
    "agent/netd/endpoint_cache.py, policy.py: what the kubelet tells of others' objects",
    "small accounts",
)
def netd_directory() -> Target:
    directory = EndpointCache(NETWORK, lambda message: None, "n1", patience=0.0)

    def run(data: bytes) -> None:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return
        directory.on_message({"type": "net-connected"})
        directory.on_message(message)
        directory._forget_least_used() if len(directory._used) > 5000 else None
        for ask in (
            lambda: directory.backend("tcp", "10.96.0.3", 80, "10.244.0.9"),
            lambda: directory.location("tcp", "10.244.0.9", 80),
            lambda: directory.allows("ingress", "tcp", "10.244.0.9", 80),
        ):
            try:
                ask()
            except (Unknown, Refused):
                pass
        Policy(message["value"]) if message.get("key") == "policy" else None

    service = {"ports": [{"protocol": "tcp", "port": 80, "endpoints": [["10.244.0.9", 80, "n1"]]}],
               "affinity": 10800, "internalPolicy": "Local"}  # fmt: skip
    place = {"address": "192.0.2.1", "notice": 7, "tcp": {"80": 4711}, "udp": {}, "ready": True}
    peer = {"namespace": "a", "namespaceLabels": {"x": "y"}, "labels": {"a": "b"}, "ports": {}}
    values = {"svc/10.96.0.3": service, "pod/10.244.0.9": place, "peer/10.244.0.9": peer}
    made = [{"type": "net-tell", "key": key, "value": value} for key, value in values.items()]
    seeds = tuple(json.dumps(one).encode() for one in made)
    # The kubelet alone says this; what it says wrong ends this netd, and another takes its place.
    refuses = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
    return Target(run, seeds, encoded(("svc/", "policy", "value", "ports")), refuses, is_json=True)
