"""What programs may rely on of their sockets, and what strangers get, in either runtime."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent.netd import programs
from tests.e2e.site import Obj, Site, eventually, pod
from tools.devroot import PLAIN_USER

RUNTIMES = ("crun", "apptainer")
LONG = 120.0
SERVER = """
import socket, threading
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", 53))
tcp = socket.create_server(("", 80))
def answer():
    while True:
        data, peer = udp.recvfrom(99)
        udp.sendto(b"udp", peer)
threading.Thread(target=answer, daemon=True).start()
print("ready", flush=True)
while True:
    connection, _ = tcp.accept()
    connection.sendall(b"tcp")
    connection.close()
"""
# Connects to each place in turn: what it hears, or how it ends.
ASK = """
import json, socket, sys
for kind, host, port in json.loads(sys.argv[1]):
    sock = socket.socket(socket.AF_INET, getattr(socket, kind))
    sock.settimeout(3)
    try:
        sock.connect((host, port))
        sock.send(b"x")
        print(sock.recv(99).decode() or "closed")
    except OSError as error:
        print(type(error).__name__)
"""


def python(name: str, runtime: str, *arguments: str) -> Obj:
    made = pod(name, "python", "", terminationGracePeriodSeconds=0)
    made["metadata"]["annotations"] = {"orlop.dev/runtime": runtime}
    made["spec"]["containers"][0]["command"] = ["python3", *arguments]
    return made


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_programs_of_an_image_see_what_any_program_may_rely_on(site: Site, runtime: str) -> None:
    """As tests/agent/network has it for programs of the node's own root."""
    text = Path(programs.__file__).read_text()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "programs"}}
    site.apply({**config, "data": {"programs.py": text}})
    made = python("programs", runtime, "-c", "import time; time.sleep(600)")
    made["spec"]["volumes"] = [{"name": "programs", "configMap": {"name": "programs"}}]
    made["spec"]["containers"][0] |= {
        "volumeMounts": [{"name": "programs", "mountPath": "/programs"}],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    }
    site.apply(made)
    site.wait_phase("programs", "Running", timeout=LONG)
    script = 'for name in "$@"; do python3 /programs/programs.py $name || echo $name failed; done'
    words = ("exec", "programs", "--", "sh", "-c", script, "all", *programs.CASES)
    found = site.run("kubectl", "-n", site.namespace, *words, timeout=LONG + 60)
    assert "failed" not in found.stdout, found.stdout + found.stderr


def listening(site: Site, node: str) -> list[tuple[str, str, int]]:
    """Every port that is open on a node's own address, whoever has it."""
    found = []
    for kind, option in (("SOCK_STREAM", "-Hltn"), ("SOCK_DGRAM", "-Hlun")):
        for line in site.run("ss", option, node=node).stdout.splitlines():
            host, _, port = line.split()[3].rpartition(":")
            if host.startswith("10."):
                found.append((kind, host, int(port)))
    return found


def test_another_user_gets_nothing_from_any_node_and_a_pod_gets_an_answer(site: Site) -> None:
    for runtime in RUNTIMES:
        site.apply(python(f"server-{runtime}", runtime, "-c", SERVER))
    site.apply(python("client", "crun", "-c", "import time; time.sleep(600)"))
    servers = [
        site.wait_phase(f"server-{runtime}", "Running", timeout=LONG) for runtime in RUNTIMES
    ]
    site.wait_phase("client", "Running", timeout=LONG)
    for runtime in RUNTIMES:
        name = f"server-{runtime}"
        eventually(lambda name=name: site.kubectl("logs", name), f"{name} listens", LONG)
    ips = [one["status"]["podIP"] for one in servers]
    inside = [
        (kind, ip, port) for ip in ips for kind, port in (("SOCK_STREAM", 80), ("SOCK_DGRAM", 53))
    ]
    heard = site.kubectl("exec", "client", "--", "python3", "-c", ASK, json.dumps(inside))
    assert heard.split() == ["tcp", "udp"] * 2
    notes = [one["metadata"]["annotations"] for one in (site.pod(f"server-{r}") for r in RUNTIMES)]
    nodes = {found["slurm.orlop.dev/node-list"] for found in notes}
    open_ports = [place for node in nodes for place in listening(site, node)]
    assert {kind for kind, _, _ in open_ports} == {"SOCK_STREAM", "SOCK_DGRAM"}, open_ports
    for node in ("n1", "n2"):
        command = ["python3", "-c", ASK, json.dumps(open_ports)]
        said = site.cluster.run(node, command, user=PLAIN_USER, timeout=LONG).stdout.split()
        assert len(said) == len(open_ports)
        assert not {"tcp", "udp"} & set(said), list(zip(open_ports, said, strict=True))
