"""The pod's DNS answers for the cluster from memory, and asks the node's servers for the rest."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time

import pytest

from orlop.agent.netd.dns import packets
from orlop.agent.netd.dns.server import DnsServer
from orlop.agent.netd.dns.upstream_servers import Upstream
from orlop.agent.netd.endpoint_cache import EndpointCache
from orlop.agent.pod.resolv_conf import nameservers

from .test_packets import a_query

NETWORK = {
    "podIP": "10.244.0.7",
    "podCIDR": "10.244.0.0/16",
    "serviceCIDR": "10.96.0.0/16",
    "dns": {"domain": "cluster.local", "upstream": ["127.0.0.1#1"]},
}
WEB = "web.default.svc.cluster.local"
KNOWN = {
    f"name/{WEB}": {
        "A": ["10.96.0.3"],
        "SRV": [[0, 100, 80, WEB]],
        "glue": {WEB: ["10.96.0.3"]},
        "ttl": 5,
    },
    "name/db.default.svc.cluster.local": {"A": [f"10.244.0.{n}" for n in range(1, 9)], "ttl": 5},
    "name/many.default.svc.cluster.local": {"A": [f"10.244.1.{n}" for n in range(1, 200)]},
    "name/empty.default.svc.cluster.local": {"ttl": 5},
    "name/none.default.svc.cluster.local": None,
    "name/ext.default.svc.cluster.local": {"CNAME": "files.example.org", "ttl": 5},
    "name/alias.default.svc.cluster.local": {"CNAME": WEB, "ttl": 5},
    "name/loop.default.svc.cluster.local": {"CNAME": "loop.default.svc.cluster.local", "ttl": 5},
    "name/3.0.96.10.in-addr.arpa": {"PTR": [WEB], "ttl": 5},
    "name/dns-version.cluster.local": {"TXT": ["1.1.0"], "ttl": 5},
}


class Node:
    """A DNS server outside the cluster; answers every A with one address, and counts."""

    def __init__(self):
        self.asked = []
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.threads = [threading.Thread(target=work) for work in (self._udp, self._tcp)]
        for thread in self.threads:
            thread.start()

    def _answer(self, packet):
        question = packets.parse(packet)
        self.asked.append(question.name)
        data = packets.address4("192.0.2.80")
        return packets.answer(question, 0, [packets.Record(question.name, packets.A, 60, data)])

    def _udp(self):
        while True:
            packet, client = self.udp.recvfrom(4096)
            if packet == b"end":
                return
            self.udp.sendto(self._answer(packet), client)

    def _tcp(self):
        while True:
            try:
                connection, _ = self.tcp.accept()
            except OSError:
                return
            with connection:
                packet = connection.recv(4096)[2:]
                made = self._answer(packet)
                connection.sendall(struct.pack(">H", len(made)) + made)

    def close(self):
        self.udp.sendto(b"end", ("127.0.0.1", self.port))
        self.tcp.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.udp.close()
        self.tcp.close()


@pytest.fixture
def node():
    made = Node()
    yield made
    made.close()


def a_server(known=KNOWN, patience=0.1, **dns):
    directory = EndpointCache({**NETWORK, "policy": None}, lambda message: None, patience=patience)
    directory.on_message({"type": "net-connected"})
    for key, value in known.items():
        directory.on_message({"type": "net-tell", "key": key, "value": value})
    network = {**NETWORK, "dns": {**NETWORK["dns"], **dns}}
    return DnsServer(directory, network, lambda *client: True), directory


def shown(answer):
    """Code, and the answers as (type, address or None)."""
    code = struct.unpack_from(">H", answer, 2)[0] & 0xF
    return code, sorted(
        socket.inet_ntoa(r.data) for r in packets.addresses_in(answer) if r.type == 1
    )


@pytest.mark.parametrize(
    ("name", "kind", "code", "addresses"),
    [
        (WEB, packets.A, 0, ["10.96.0.3"]),
        (WEB.upper(), packets.A, 0, ["10.96.0.3"]),
        (WEB, packets.AAAA, 0, []),
        ("empty.default.svc.cluster.local", packets.A, 0, []),
        ("none.default.svc.cluster.local", packets.A, packets.NXDOMAIN, []),
        ("www.google.com.default.svc.cluster.local", packets.A, packets.NXDOMAIN, []),
        ("google.com.cluster.local", packets.A, packets.NXDOMAIN, []),
        ("unheard.default.svc.cluster.local", packets.A, packets.SERVFAIL, []),
        ("alias.default.svc.cluster.local", packets.A, 0, ["10.96.0.3"]),
        ("loop.default.svc.cluster.local", packets.A, 0, []),
    ],
)
def test_a_name_of_the_cluster(name, kind, code, addresses):
    server, _ = a_server()
    assert shown(server.answer(a_query(name, kind))) == (code, addresses)


def test_a_no_says_how_long_it_holds():
    server, _ = a_server()
    answer = server.answer(a_query("none.default.svc.cluster.local"))
    assert struct.unpack_from(">H", answer, 8)[0] == 1
    assert answer.endswith(struct.pack(">IIIII", 1, 7200, 1800, 86400, 5))


def test_ports_come_with_the_addresses_of_their_hosts():
    server, _ = a_server()
    answer = server.answer(a_query(WEB, packets.SRV))
    assert struct.unpack_from(">HHHH", answer, 4) == (1, 1, 0, 1)
    assert struct.pack(">HHH", 0, 100, 80) + packets.encoded(WEB) in answer
    assert packets.address4("10.96.0.3") in answer


def test_an_address_has_a_name_and_the_specification_a_version():
    server, _ = a_server()
    assert packets.encoded(WEB) in server.answer(a_query("3.0.96.10.in-addr.arpa", packets.PTR))
    assert b"\x051.1.0" in server.answer(a_query("dns-version.cluster.local", packets.TXT))


def test_several_addresses_come_in_different_orders():
    server, _ = a_server()
    query = a_query("db.default.svc.cluster.local")
    orders = {tuple(r.data for r in packets.addresses_in(server.answer(query))) for _ in range(50)}
    assert len(orders) > 10


def test_a_long_answer_is_cut_over_udp_and_whole_over_tcp():
    server, _ = a_server()
    query = a_query("many.default.svc.cluster.local")
    assert struct.unpack_from(">H", server.answer(query), 2)[0] & packets.TC
    assert len(packets.addresses_in(server.answer(query, tcp=True))) == 199
    big = server.answer(a_query("many.default.svc.cluster.local", opt=4096))
    assert len(packets.addresses_in(big)) == 199


@pytest.mark.parametrize("tcp", [False, True])
def test_other_names_are_asked_of_the_nodes_servers(node, tcp):
    server, _ = a_server(upstream=["127.0.0.1#1", f"127.0.0.1#{node.port}"])
    assert shown(server.answer(a_query("example.org"), tcp)) == (0, ["192.0.2.80"])
    assert shown(server.answer(a_query("1.2.0.192.in-addr.arpa"), tcp))[0] == 0
    assert node.asked == ["example.org", "1.2.0.192.in-addr.arpa"]


def test_a_service_that_is_a_name_elsewhere_is_followed(node):
    server, _ = a_server(upstream=[f"127.0.0.1#{node.port}"])
    answer = server.answer(a_query("ext.default.svc.cluster.local"))
    assert shown(answer) == (0, ["192.0.2.80"])
    assert packets.addresses_in(answer)[0].type == packets.CNAME


def test_a_domain_with_servers_of_its_own_is_asked_of_them(node):
    server, _ = a_server(stubs={"corp.example": [f"127.0.0.1#{node.port}"]})
    assert shown(server.answer(a_query("db.corp.example"))) == (0, ["192.0.2.80"])
    assert shown(server.answer(a_query("other.example")))[0] == packets.SERVFAIL


def test_the_nodes_file_says_who_its_servers_are(tmp_path, node):
    file = tmp_path / "resolv.conf"
    file.write_text("search a\nnameserver 192.0.2.1\n# nameserver 192.0.2.9\nnameserver ::1\n")
    assert nameservers(file.read_text()) == ["192.0.2.1", "::1"]
    assert Upstream([], {}, str(file))._for("a.b") == [("192.0.2.1", 53), ("::1", 53)]


@pytest.mark.parametrize(
    ("packet", "code"), [(a_query("a.b")[:-3], packets.FORMERR), (a_query("a.b", flags=0x2800), 4)]
)
def test_what_it_does_not_understand_it_says_so(packet, code):
    server, _ = a_server()
    assert server.answer(packet)[3] & 0xF == code


@pytest.fixture
def served():
    server, directory = a_server()
    port = server.serve("127.0.0.1")
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect(("127.0.0.1", port))
    client.settimeout(10)
    yield client, directory, port
    client.close()
    server.close()


def test_datagrams_are_answered_also_while_others_wait(served):
    client, _, _ = served
    client.send(a_query("unheard.default.svc.cluster.local", ident=1))
    client.send(a_query(WEB, ident=2))
    assert struct.unpack(">H", client.recv(4096)[:2])[0] == 2
    assert struct.unpack(">H", client.recv(4096)[:2])[0] == 1


def test_a_change_is_answered_at_once(served):
    client, directory, _ = served
    for address in ("10.96.0.3", "10.96.0.4"):
        told = {"type": "net-tell", "key": f"name/{WEB}", "value": {"A": [address], "ttl": 5}}
        directory.on_message(told)
        for _ in range(3):
            client.send(a_query(WEB))
            assert shown(client.recv(4096)) == (0, [address])


def test_several_questions_on_one_connection(served):
    _, _, port = served
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        for ident in (1, 2):
            query = a_query(WEB, ident=ident)
            connection.sendall(struct.pack(">H", len(query)) + query)
            length = struct.unpack(">H", connection.recv(2))[0]
            assert struct.unpack(">H", connection.recv(length)[:2])[0] == ident


def test_answers_from_memory_are_quick(served):
    """A rate beside what a bare echo over the same socket makes, so that a busy machine is fair."""
    client, _, _ = served
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    echo.bind(("127.0.0.1", 0))

    def bounce():
        while True:
            data, who = echo.recvfrom(4096)
            if data == b"end":
                return
            echo.sendto(data, who)

    thread = threading.Thread(target=bounce, daemon=True)
    thread.start()
    query = a_query(WEB)
    bare = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bare.connect(echo.getsockname())
    times = {}
    for name, sock in (("echo", bare), ("dns", client)) * 3:
        began = time.perf_counter()
        for _ in range(1000):
            sock.send(query)
            sock.recv(4096)
        times[name] = min(times.get(name, 9e9), time.perf_counter() - began)
    bare.send(b"end")
    thread.join(5)
    bare.close()
    echo.close()
    assert times["dns"] < 3 * times["echo"]


def test_the_next_server_of_a_pod_is_where_the_last_one_was():
    address = f"127.200.{os.getpid() % 250}.{os.getpid() // 250 % 250 + 1}"  # of this test alone
    ports = []
    for _ in range(2):
        server, _ = a_server()
        ports.append(server.serve(address))
        server.close()
    assert ports[0] == ports[1]
    first, second = a_server()[0], a_server()[0]
    assert first.serve(address) != second.serve(address)
    first.close()
    second.close()


def test_a_zero_byte_in_a_name_does_not_end_the_server():
    """Whoever is on the node can send one: all others of the pod would have no names any more."""
    server, _ = a_server()
    port = server.serve("127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.connect(("127.0.0.1", port))
        sock.send(a_query("3\0.0.96.10.in-addr.arpa", packets.PTR))
        sock.send(a_query(WEB))
        codes = sorted(shown(sock.recv(4096))[0] for _ in range(2))
    server.close()
    assert codes == [0, packets.SERVFAIL]
