"""What harms nobody: netd killed at any moment, strangers at the door, hostile callers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time

import pytest

from orlop.agent.process import children

from ..pods import IS_ROOT, container

ECHO = """
import socket, threading
server = socket.create_server(("", 80), backlog=128)
print("ready", flush=True)
def serve(connection, peer):
    while data := connection.recv(100):
        connection.sendall(peer[0].encode() + b" " + data)
while True:
    threading.Thread(target=serve, args=server.accept(), daemon=True).start()
"""
PATIENT = """
import socket, sys, time
ends = []
for number in range(int(sys.argv[2])):
    connection = socket.create_connection((sys.argv[1], 80), timeout=10)
    assert connection.getpeername() == (sys.argv[1], 80), connection.getpeername()
    connection.sendall(b"x")
    assert connection.recv(100).endswith(b" x")
    ends.append(connection)
    time.sleep(0.01)
for connection in ends:
    connection.sendall(b"y")
    assert connection.recv(100).endswith(b" y")
"""


def netd_of(pod) -> int:
    """The process beside the containers that is a fork of the agent."""
    words = ["pgrep", "-f", f"agent.pyz {pod.pod.folder}$"]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    agents = {int(word) for word in found.stdout.split()}
    below = {pid: [child for child in children(pid) if child in agents] for pid in agents}
    keeper = next(pid for pid in agents if not any(pid in some for some in below.values()))
    (supervisor,) = below[keeper]
    (netd,) = below[supervisor]
    return netd


@pytest.fixture
def server(neighbourhood):
    found = neighbourhood.add(container("c", "/usr/bin/python3", "-c", ECHO), runtime="host")
    found.pod.wait_for(lambda: "80" in found.state["tcp"], 40)
    return found


def test_a_compiled_part_that_crashes_is_done_without(neighbourhood, server):
    client = neighbourhood.add(runtime="host")
    client.sh(f"/usr/bin/python3 -c '{PATIENT}' {server.ip} 3")
    for pod in (client, server):
        os.kill(netd_of(pod), signal.SIGSEGV)
    client.sh(f"/usr/bin/python3 -c '{PATIENT}' {server.ip} 3")


@pytest.mark.parametrize("whose", ["client", "server"])
def test_a_netd_that_is_killed_is_followed_by_another(neighbourhood, server, whose):
    client = neighbourhood.add(runtime="host")
    client.sh("true")
    remote = client.remote
    number = remote.exec("/usr/bin/python3", "-c", PATIENT, server.ip, "150")
    victim = client if whose == "client" else server
    killed = set()
    while len(killed) < 4:
        time.sleep(0.3)
        with contextlib.suppress(ProcessLookupError, ValueError):
            netd = netd_of(victim)
            os.kill(netd, signal.SIGKILL)
            killed.add(netd)
    closed = remote.closed(number, 40)
    assert closed["code"] == 0, remote.text(number + 1)


def test_what_listened_before_netd_was_killed_is_found_after(neighbourhood, server):
    before = server.state["tcp"]["80"]
    os.kill(netd_of(server), signal.SIGKILL)
    server.pod.wait_for(lambda: server.state["address"] and server.state["tcp"], 20)
    assert server.state["tcp"]["80"] == before
    client = neighbourhood.add(runtime="host")
    client.sh(f"/usr/bin/python3 -c '{PATIENT}' {server.ip} 1")


@pytest.mark.skipif(not IS_ROOT, reason="needs a second user: root")
def test_another_user_of_the_node_gets_nothing(server):
    for _ in range(3):
        with socket.create_connection((server.state["address"], server.state["tcp"]["80"])) as one:
            one.settimeout(5)
            with contextlib.suppress(ConnectionError):
                one.sendall(b"x")
                assert one.recv(100) == b""


@pytest.mark.skipif(not IS_ROOT, reason="needs a second user: root")
def test_another_user_is_let_in_where_configuration_says_so(neighbourhood):
    server = neighbourhood.add(
        container("c", "/usr/bin/python3", "-c", ECHO), runtime="host", allow_outside=True
    )
    server.pod.wait_for(lambda: "80" in server.state["tcp"], 40)
    with socket.create_connection((server.state["address"], server.state["tcp"]["80"])) as one:
        one.settimeout(5)
        one.sendall(b"x")
        assert one.recv(100).endswith(b" x")


def test_a_pod_has_no_way_to_the_localhost_of_another(neighbourhood):
    script = ECHO.replace('("", 80)', '("127.0.0.1", 8080)')
    server = neighbourhood.add(container("c", "/usr/bin/python3", "-c", script), runtime="host")
    server.pod.wait_for_line("ready")
    assert "80" not in server.state["tcp"]
    inside = "127." + server.ip.partition(".")[2]
    fetch = f"import socket; socket.create_connection(('{inside}', 8080), 3)"
    client = neighbourhood.add(runtime="host")
    code, _, errors = client.try_sh(f'/usr/bin/python3 -c "{fetch}"')
    assert code == 1
    assert "ConnectionRefusedError" in errors
