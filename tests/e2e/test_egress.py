"""A pod that a NetworkPolicy lets speak to nobody tries every way there is, on a real cluster.

The ways are those of tests/agent/netd/escapes.py, which has them in one table; here they are
tried by programs of an image, in either runtime, towards another node, by IPv6 of its own, too.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent.netd import escapes, listening
from tests.e2e.site import Obj, Site, eventually, pod
from tests.e2e.test_attack_identity import address_of
from tools.devroot import PLAIN_USER

LONG = 120.0
PREFIX = "fd77:0:0:1::"
DENY_EGRESS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "nowhere"},
    "spec": {"podSelector": {"matchLabels": {"app": "client"}}, "policyTypes": ["Egress"]},
}


def client(name: str, runtime: str, node: str, user: int) -> Obj:
    made = pod(name, "python", "", terminationGracePeriodSeconds=0)
    made["metadata"] |= {
        "annotations": {"orlop.dev/runtime": runtime, "slurm.orlop.dev/nodelist": node},
        "labels": {"app": "client"},
    }
    made["spec"]["securityContext"] = {"runAsUser": user} if user else {}
    made["spec"]["volumes"] = [{"name": "escapes", "configMap": {"name": "escapes"}}]
    made["spec"]["containers"][0] |= {
        "command": ["python3", "-c", "import time; time.sleep(600)"],
        "volumeMounts": [{"name": "escapes", "mountPath": "/escapes"}],
    }
    return made


@pytest.fixture
def native(site: Site) -> Iterator[dict[str, str]]:
    """Two nodes with addresses of IPv6, by name; the network of the test cluster has none."""
    found = {}
    for number, node in enumerate(("n1", "n2"), 1):
        words = site.run("sh", "-c", "ip -4 -o addr show scope global", node=node).stdout.split()
        address, interface = f"{PREFIX}{number}", words[1]
        change = ["ip", "-6", "addr", "add", f"{address}/64", "dev", interface, "nodad"]
        site.cluster.run(node, change)
        found[node] = address
    yield found
    for node, address in found.items():
        site.cluster.run(node, ["sh", "-c", f"ip -6 addr del {address}/64 dev {interface}"])


@contextmanager
def destination(site: Site, node: str, address: str) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Where it is, and what it has heard, which is there at the end."""
    program = Path(listening.__file__).read_text()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    heard: list[str] = []
    words = ["python3", "-c", program]
    with site.cluster.popen(node, words, user=PLAIN_USER, **pipes) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        ports = json.loads(child.stdout.readline())
        yield {"v4": address_of(site, node), "v6": address, **ports}, heard
        child.stdin.close()
        heard += json.loads(child.stdout.readline())


def test_nothing_leaves_a_pod_that_may_speak_to_nobody(site: Site, native: dict[str, str]) -> None:
    program = Path(escapes.__file__).read_text()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "escapes"}}
    site.apply({**config, "data": {"escapes.py": program}})
    site.apply(DENY_EGRESS)
    pods = {"crun": 0, "apptainer": 1234}
    for runtime, user in pods.items():
        site.apply(client(runtime, runtime, "n1", user))
    for name in pods:
        site.wait_phase(name, "Running", timeout=LONG)
    with destination(site, "n2", native["n2"]) as (where, heard):
        for name in pods:
            words = ("exec", name, "--", "python3", "/escapes/escapes.py", json.dumps(where))
            said = json.loads(site.kubectl(*words, timeout=LONG))
            assert not [way for way, how in said.items() if how.startswith("broken")]
    assert heard == []
    with destination(site, "n2", native["n2"]) as (where, heard):
        outside = json.dumps({**where, "is_outside": True})
        path = str(site.home / "escapes.py")
        site.run("tee", path, input=program)
        site.run("python3", path, outside, node="n1", timeout=LONG)
    assert len(set(heard)) > 250, "without a pod nearly all of them arrive"


# Listens at every kind of address of IPv6 that a program may ask for.
SERVERS = """
import socket, sys, threading
def serve(family, kind, host, port, only):
    sock = socket.socket(family, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    sock.bind((host, port))
    if kind == socket.SOCK_STREAM:
        sock.listen()
    while True:
        if kind == socket.SOCK_STREAM:
            connection, _ = sock.accept()
            connection.sendall(b"heard")
            connection.close()
        else:
            data, peer = sock.recvfrom(99)
            sock.sendto(b"heard", peer)
places = [("::", 0), ("::", 1), ("::1", 1), (sys.argv[1], 1), ("0.0.0.0", 0)]
for number, (host, only) in enumerate(places):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        args = (family, kind, host, 18000 + number, only)
        threading.Thread(target=serve, args=args).start()
print("ready", flush=True)
"""
# Tries all ports that are open, at all addresses of a node; prints which of them have answered.
KNOCKS = """
import json, socket, sys
for kind, host, port in json.loads(sys.argv[1]):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, getattr(socket, kind))
    sock.settimeout(2)
    try:
        sock.connect((host, port))
        sock.send(b"x")
        if sock.recv(99) == b"heard":
            print(kind, host, port)
    except OSError:
        pass
"""


def test_no_stranger_comes_in_by_ipv6(site: Site, native: dict[str, str]) -> None:
    """Listeners at all addresses have a real port of IPv4 alone, and at others nobody is let in."""
    made = pod("server", "python", "", terminationGracePeriodSeconds=0)
    made["metadata"]["annotations"] = {"slurm.orlop.dev/nodelist": "n1"}
    made["spec"]["containers"][0]["command"] = ["python3", "-c", SERVERS, native["n1"]]
    site.apply(made)
    site.wait_phase("server", "Running", timeout=LONG)
    eventually(lambda: "ready" in site.kubectl("logs", "server"), "it listens", LONG)
    found = []
    for kind, option in (("SOCK_STREAM", "-Hltn"), ("SOCK_DGRAM", "-Hlun")):
        lines = site.run("ss", option, node="n1").stdout.splitlines()
        ports = {int(line.split()[3].rpartition(":")[2]) for line in lines}
        hosts = (address_of(site, "n1"), native["n1"])
        found += [(kind, host, port) for host in hosts for port in ports]
    for node in ("n1", "n2"):
        words = ["python3", "-c", KNOCKS, json.dumps(found)]
        said = site.cluster.run(node, words, user=PLAIN_USER, timeout=LONG).stdout
        assert said == "", (node, said)
