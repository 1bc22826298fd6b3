"""hostPort: a port of the node that leads to a port of the pod, for everybody; and what if not."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from orlop.agent.linux.addresses import own_addresses
from orlop.agent.netd.host_ports import HostPorts

from ..pods import container
from .test_harm import netd_of

NODE = own_addresses("")[0]
# The first port that every user may have.
UNPRIVILEGED = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
# Says who comes, and by which name it is known itself.
SERVER = """
import socket
server = socket.create_server(("", 80))
while True:
    one, peer = server.accept()
    one.sendall(f"{peer[0]} {one.getsockname()[1]} {one.getpeername()[0]}".encode())
    one.close()
"""
ECHO = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 53))
while True:
    data, peer = server.recvfrom(9999)
    server.sendto(peer[0].encode() + b" " + data, peer)
"""
BOTH = SERVER.replace('("", 80)', '("::", 80), family=socket.AF_INET6, dualstack_ipv6=True')
BOTH_ECHO = ECHO.replace("AF_INET,", "AF_INET6,")
GET = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as one:
    print(one.recv(100).decode())
"""
ASK = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    one.settimeout(10)
    one.sendto(b"hello", (sys.argv[1], int(sys.argv[2])))
    print(one.recv(100).decode())
"""


def free_port(kind=socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


def wanted(number, port=80, protocol="tcp", ip=""):
    return {"protocol": protocol, "port": port, "hostPort": number, "hostIP": ip}


def said_at(ip, number) -> str:
    with socket.create_connection((ip, number), 10) as one:
        return one.recv(100).decode()


def a_server(neighbourhood, *ports, script=SERVER):
    found = neighbourhood.add(
        container("c", "/usr/bin/python3", "-c", script), runtime="host", host_ports=list(ports)
    )
    found.pod.wait_for(lambda: found.state["tcp"] or found.state["udp"], 40)
    return found


def condition_of(neighbour):
    records = neighbour.pod.records("condition")
    return [one for one in records if one["condition"] == "orlop.dev/HostPorts"][-1]


def test_everybody_reaches_the_pod_at_every_address_of_the_node(neighbourhood):
    number = free_port()
    server = a_server(neighbourhood, wanted(number))
    for ip in (NODE, "127.0.0.1"):
        peer, port, name = said_at(ip, number).split()
        assert (peer, port, name) == (ip, "80", ip)
    assert (condition_of(server)["status"], condition_of(server)["reason"]) == ("True", "Open")
    # Pods come by the pod's own address, and are known.
    client = neighbourhood.add(runtime="host")
    said = client.sh(f"/usr/bin/python3 -c '{GET}' {server.ip} 80").split()
    assert said == [client.ip, "80", client.ip]
    assert server.sh(f"/usr/bin/python3 -c '{GET}' 127.0.0.1 80").split()[0] == "127.0.0.1"
    assert server.sh(f"/usr/bin/python3 -c '{GET}' {server.ip} 80").split()[0] == server.ip


@pytest.mark.parametrize(("protocol", "port"), [("tcp", 80), ("udp", 53)])
def test_a_server_of_both_families_is_reached_by_all(neighbourhood, protocol, port):
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    script, ask = (BOTH, GET) if protocol == "tcp" else (BOTH_ECHO, ASK)
    number = free_port(kind)
    server = a_server(neighbourhood, wanted(number, port, protocol), script=script)
    assert server.state[protocol] == {str(port): number}
    words = ["/usr/bin/python3", "-c", ask, NODE, str(number)]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.split()[0] == f"::ffff:{NODE}"
    client = neighbourhood.add(runtime="host")
    said = client.sh(f"/usr/bin/python3 -c '{ask}' {server.ip} {port}")
    assert said.split()[0] == f"::ffff:{client.ip}"
    assert server.sh(f"/usr/bin/python3 -c '{ask}' {server.ip} {port}")


def test_it_is_there_after_netd_was_killed(neighbourhood):
    number = free_port()
    server = a_server(neighbourhood, wanted(number))
    said_at(NODE, number)
    os.kill(netd_of(server), signal.SIGKILL)
    assert said_at(NODE, number).split()[1] == "80"


def test_datagrams_come_and_go_by_it(neighbourhood):
    number = free_port(socket.SOCK_DGRAM)
    a_server(neighbourhood, wanted(number, 53, "udp"), script=ECHO)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(10)
        one.connect((NODE, number))
        one.send(b"hello")
        assert one.recv(99) == f"{NODE} hello".encode()


def test_a_host_ip_keeps_others_out(neighbourhood):
    number = free_port()
    server = a_server(neighbourhood, wanted(number, ip="127.0.0.1"))
    assert said_at("127.0.0.1", number).split()[1] == "80"
    client = neighbourhood.add(runtime="host")
    assert client.sh(f"/usr/bin/python3 -c '{GET}' {server.ip} 80").split()[0] == client.ip


def test_a_host_ip_of_the_node_is_open_there_and_nowhere_else(neighbourhood):
    number = free_port()
    a_server(neighbourhood, wanted(number, ip=NODE))
    assert said_at(NODE, number).split()[:2] == [NODE, "80"]
    with contextlib.suppress(ConnectionError):
        assert said_at("127.0.0.1", number) == ""


def test_of_two_pods_one_has_it_and_the_other_runs_without(neighbourhood):
    number = free_port()
    first = a_server(neighbourhood, wanted(number))
    second = a_server(neighbourhood, wanted(number))
    assert condition_of(first)["status"] == "True"
    told = condition_of(second)
    assert (told["status"], told["reason"]) == ("False", "NotOpened")
    assert f"hostPort {number} (TCP): another pod on this node has it" in told["message"]
    events = second.pod.events()
    assert "HostPortNotOpened" in events
    client = neighbourhood.add(runtime="host")
    assert client.sh(f"/usr/bin/python3 -c '{GET}' {second.ip} 80").split()[0] == client.ip


def test_a_network_policy_holds_for_it(neighbourhood):
    number = free_port()
    server = a_server(neighbourhood, wanted(number))
    assert said_at(NODE, number)
    neighbourhood.restrict(server, ingress=[])

    def is_shut():
        try:
            return said_at(NODE, number) == ""
        except OSError:
            return True

    server.pod.wait_for(is_shut, 40)


# What cannot be had


@pytest.fixture
def take():
    """Ports that are held until the test ends; a pod's are until its agent does."""
    made = []

    def take(*ports):
        made.append(HostPorts(list(ports), NODE))
        return made[-1]

    yield take
    for one in made:
        for held in one._held:
            held.close()


def test_nobody_else_has_it_while_the_pod_does_not_listen(take):
    """SO_REUSEADDR lets nobody in: it asks for no user."""
    found = take(wanted(free_port()))
    for ip in ("0.0.0.0", NODE, "127.0.0.1"):
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                stranger.bind((ip, found.had[0]["hostPort"]))


def test_one_with_connections_of_an_earlier_pod_is_had(take):
    with socket.create_server(("", 0)) as server:
        number = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", number)):
            server.accept()[0].close()  # waits for its last packets from now on
    found = take(wanted(number))
    assert found.problems == []
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # whoever is bound there cannot listen
            stranger.bind(("0.0.0.0", number))
            stranger.listen()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", number), 10)


def test_a_port_of_another_program_is_told_and_others_are_had(take):
    with socket.create_server(("", 0)) as other:
        taken, free = other.getsockname()[1], free_port()
        found = take(wanted(taken, 79), wanted(free))
    assert found.had == [wanted(free)]
    assert found.problems == [f"hostPort {taken} (TCP): another program on this node has it"]
    assert f"{free} to 80 (TCP)" in found.words()


@pytest.mark.parametrize(
    ("one", "words"),
    [(wanted(8080, ip="192.0.2.1"), "hostIP 192.0.2.1 is no address of this node"),
     (wanted(8080, ip="2001:db8::1"), "hostIP must be an address of IPv4"),
     (wanted(8080, 53, "udp", "127.0.0.1"), f"a UDP port can be at {NODE} or at all addresses")],
    ids=["elsewhere", "of IPv6", "of UDP"],
)  # fmt: skip
def test_an_address_that_cannot_be_is_told(one, words):
    assert HostPorts([one], NODE).problems == [
        f"hostPort 8080 ({one['protocol'].upper()}): {words}"
    ]


def test_a_port_of_the_pod_is_at_one_port_of_the_node(take):
    first, second = free_port(), free_port()
    found = take(wanted(first), wanted(second))
    assert found.problems == [f"hostPort {second} (TCP): port 80 of the pod is at {first} already"]


@pytest.mark.skipif(UNPRIVILEGED < 2, reason="every user may have every port of this machine")
def test_a_port_for_the_privileged_is_told():
    """As an ordinary user, who root is not; a child is one for as long as it takes."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            os.write(write, HostPorts([wanted(UNPRIVILEGED - 1)], NODE).problems[0].encode())
        except Exception as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)  # whatever became of it, there is only one pytest
    os.waitpid(pid, 0)
    os.close(write)
    with open(read) as said:
        assert "an ordinary user cannot have ports below" in said.read()
