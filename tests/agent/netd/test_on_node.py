"""A pod on its node's network that knows the cluster: what it reaches, what stays the node's."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from ..pods import container
from .neighbourhood import NAMESERVER
from .test_harm import netd_of
from .test_services import ASK, ASK_UDP, ECHO, NAMED, VIP, ask

PEER = """
import socket
server = socket.create_server(("", 80))
while True:
    one, peer = server.accept()
    one.sendall(peer[0].encode())
    one.close()
"""
# Binds and listens as on any host, and says where.
OWN = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
one, _ = server.accept()
one.sendall(b"from the node")
one.close()
"""
NAME = """
import socket, struct
question = b"".join(bytes([len(w)]) + w for w in b"web.default.svc.cluster.local".split(b"."))
packet = struct.pack("!6H", 7, 256, 1, 0, 0, 0) + question + struct.pack("!B2H", 0, 1, 1)
for is_connected in (True, False):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.settimeout(10)
    if is_connected:
        one.connect(("NAMESERVER", 53))
        one.send(packet)
    else:
        one.sendto(packet, ("NAMESERVER", 53))
    answer, source = one.recvfrom(999)
    print(source[0], source[1], socket.inet_ntoa(answer[-4:]))
""".replace("NAMESERVER", NAMESERVER)


def server(neighbourhood, script):
    found = neighbourhood.add(container("c", "/usr/bin/python3", "-c", script), runtime="host")
    found.pod.wait_for(lambda: found.state["tcp"] or found.state["udp"], 40)
    return found


@pytest.fixture
def client(neighbourhood):
    return neighbourhood.add(runtime="host", on_node=True)


def test_services_and_pods_are_reached_and_hear_of_the_node(neighbourhood, client):
    named, peer = server(neighbourhood, NAMED), server(neighbourhood, PEER)
    neighbourhood.serve(VIP, 80, (named, 8080))
    assert ask(client, VIP, 80, 3) == [named.pod.folder.name] * 3
    assert ask(client, named.ip, 8080) == [named.pod.folder.name]
    assert ask(client, peer.ip, 80) == [named.state["address"]]
    code, _, errors = client.try_sh(f"/usr/bin/python3 -c '{ASK}' {VIP} 81 1")
    assert (code, "ConnectionRefusedError" in errors) == (1, True)


def test_datagrams_come_back_from_where_they_went(neighbourhood, client):
    one = server(neighbourhood, ECHO)
    neighbourhood.serve(VIP, 53, (one, 5353), protocol="udp")
    said = client.sh(f"/usr/bin/python3 -c '{ASK_UDP}' {VIP} 53").splitlines()
    assert [line.split()[1] for line in said] == ["free", "connected", "again"]


def test_names_are_answered_as_from_the_clusters_server(neighbourhood, client):
    records = {"A": [VIP], "AAAA": [], "SRV": [], "PTR": [], "ttl": 5}
    neighbourhood.names["web.default.svc.cluster.local"] = records
    assert client.sh(f"/usr/bin/python3 -c '{NAME}'").splitlines() == [f"{NAMESERVER} 53 {VIP}"] * 2


def test_what_it_binds_is_the_nodes_and_so_is_its_localhost(client):
    remote = client.remote
    number = remote.exec("/usr/bin/python3", "-c", OWN)
    client.pod.wait_for(lambda: remote.text(number).endswith("\n"), 40)
    with socket.create_connection(("127.0.0.1", int(remote.text(number))), 10) as one:
        assert one.recv(99) == b"from the node"
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        script = (
            f"import socket; print(socket.create_connection(('127.0.0.1', {port})).getpeername())"
        )
        assert client.sh(f'/usr/bin/python3 -c "{script}"').strip() == f"('127.0.0.1', {port})"


def test_a_netd_that_is_killed_is_followed_by_another(neighbourhood, client):
    named = server(neighbourhood, NAMED)
    neighbourhood.serve(VIP, 80, (named, 8080))
    ask(client, VIP, 80)
    os.kill(netd_of(client), signal.SIGKILL)
    assert ask(client, VIP, 80, 3) == [named.pod.folder.name] * 3
