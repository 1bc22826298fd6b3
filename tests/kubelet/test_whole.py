"""The whole control plane with the local engine and the real agent, as an ordinary user.

Killed with -9 at bad moments, it must neither lose nor double a pod.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tools.devroot import TEST_USER

IS_ROOT = os.geteuid() == 0


class Home:
    """An Orlop home of the test user, driven by commands as that user drives it."""

    def __init__(self, programs: Path):
        self.programs = programs
        self.path = Path(tempfile.mkdtemp(prefix="orlop-kubelet-test-", dir="/tmp"))
        self.results = self.path / "results"
        self.results.mkdir()
        if IS_ROOT:
            shutil.chown(self.path, TEST_USER, TEST_USER)
            shutil.chown(self.results, TEST_USER, TEST_USER)
        self.home = self.path / "home"

    def run(self, *argv, check=True, **options):
        env = {
            "HOME": str(self.path),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "ORLOP_HOME": str(self.home),
            "KUBECONFIG": str(self.home / "kubeconfig"),
        }
        user = {"user": TEST_USER, "group": TEST_USER, "extra_groups": []} if IS_ROOT else {}
        return subprocess.run(
            argv, env=env, cwd="/", check=check, capture_output=True, text=True, timeout=60,
            **user, **options,
        )  # fmt: skip

    def up(self):
        self.run("orlop", "up", "--engine", "local")

    def kill(self):
        pid = json.loads((self.home / "run/orlop.json").read_text())["pid"]
        self.run("kill", "-9", str(pid))

    def kubectl(self, *args, **options):
        return self.run("kubectl", *args, **options).stdout

    def apply(self, *objects):
        manifest = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", input=json.dumps(manifest))

    def pods(self):
        return json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]

    def until(self, probe, timeout=40.0):
        deadline = time.monotonic() + timeout
        while True:
            asked = time.monotonic()
            if answer := probe():
                return answer
            assert time.monotonic() < deadline, self.story()
            # A kubectl costs as much of a core as what it asks about.
            time.sleep(min(max(0.1, 2 * (time.monotonic() - asked)), 1.0))

    def story(self):
        log = (self.home / "log/orlop.log").read_text()[-3000:]
        return self.run("kubectl", "get", "pods", "-o", "wide", check=False).stdout + log

    def all_over(self):
        pods = self.pods()
        phases = {pod["status"].get("phase") for pod in pods}
        return pods if phases <= {"Succeeded", "Failed"} else None


@pytest.fixture
def home(installed_orlop):
    home = Home(installed_orlop)
    yield home
    home.run("orlop", "down", check=False)
    shutil.rmtree(home.path, ignore_errors=True)


def a_pod(home, name, script, **spec):
    script = f"echo $$ >> {home.results}/{name}; {script}"
    container = {"name": "main", "image": "host", "command": ["sh", "-c", script]}
    container.update(spec.pop("container", {}))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "containers": [container],
            **spec,
        },
    }


def exit_code(pod):
    return pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]


def runs(home):
    return {path.name: len(path.read_text().split()) for path in home.results.iterdir()}


@pytest.mark.timeout(180)
def test_killed_again_and_again_while_pods_are_submitted_run_and_end(home):
    home.up()
    names = [f"p{n}" for n in range(8)]
    cpu = {"resources": {"requests": {"cpu": "500m"}}}
    home.apply(
        *(
            a_pod(home, name, f"for i in 1 2 3; do echo {name} $i; sleep 0.3; done; exit {n}",
                  container=cpu)
            for n, name in enumerate(names)
        )
    )  # fmt: skip
    for pause in (0.0, 0.2, 0.7):
        time.sleep(pause)
        home.kill()
        home.up()
    pods = {pod["metadata"]["name"]: pod for pod in home.until(home.all_over)}
    assert {name: exit_code(pod) for name, pod in pods.items()} == {f"p{n}": n for n in range(8)}
    assert runs(home) == dict.fromkeys(names, 1), "each pod ran once"
    for name in names:
        assert home.kubectl("logs", name) == f"{name} 1\n{name} 2\n{name} 3\n"
    home.kubectl("delete", "pods", "--all", "--timeout=20s")
    home.until(lambda: not list((home.home / "pods").iterdir()))


@pytest.mark.timeout(120)
def test_pods_run_on_without_a_control_plane_and_their_ends_are_known_afterwards(home):
    home.up()
    polite = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done"
    home.apply(a_pod(home, "ends", "sleep 1; exit 4"), a_pod(home, "stays", polite))
    home.until(lambda: "up" in home.run("kubectl", "logs", "stays", check=False).stdout)
    home.kill()
    time.sleep(1.5)
    home.up()
    ended = home.until(
        lambda: next((p for p in home.pods() if p["status"]["phase"] == "Failed"), None)
    )
    assert exit_code(ended) == 4
    home.kubectl("delete", "pod", "stays", "--timeout=20s")
    assert runs(home) == {"ends": 1, "stays": 1}


@pytest.mark.timeout(120)
def test_a_control_plane_killed_while_deleting_goes_on_deleting(home):
    home.up()
    stubborn = "trap '' TERM; while :; do sleep 0.1; done"
    home.apply(a_pod(home, "stubborn", stubborn))
    home.until(lambda: all(p["status"].get("phase") == "Running" for p in home.pods()))
    home.kubectl("delete", "pod", "stubborn", "--wait=false")
    home.kill()
    home.up()
    home.until(lambda: not home.pods())
    home.until(lambda: not list((home.home / "pods").iterdir()))
    pids = (home.results / "stubborn").read_text().split()
    assert len(pids) == 1


# Answers every question about an IPv4 address in the same way.
RESOLVER = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("127.0.0.1", 0))
print(sock.getsockname()[1], flush=True)
while True:
    query, peer = sock.recvfrom(999)
    end = query.index(0, 12) + 5
    head = query[:2] + bytes([0x84, 0, 0, 1, 0, query[end - 3] == 1, 0, 0, 0, 0])
    answer = bytes([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 7])
    sock.sendto(head + query[12:end] + (answer if query[end - 3] == 1 else b""), peer)
"""
SERVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(("hello " + self.client_address[0]).encode())
http.server.HTTPServer(("", 80), Handler).serve_forever()
"""
ASK = """
import socket, urllib.request as u
print(u.urlopen("http://web.default.svc", timeout=20).read().decode())
print(socket.gethostbyname("db.corp.example"))
"""


@pytest.fixture
def resolver():
    """A name server of the site's own, and its port."""
    argv = ["python3", "-c", RESOLVER]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.kill()


@pytest.mark.timeout(180)
def test_pods_of_the_local_engine_have_the_same_network(home, resolver):
    network = {"network": {"stub_domains": {"corp.example": [f"127.0.0.1#{resolver}"]}}}
    home.run("mkdir", "-p", str(home.home))
    home.run("tee", str(home.home / "config.yaml"), input=json.dumps(network))
    home.up()
    web = a_pod(home, "web", "", container={"command": ["python3", "-c", SERVER]})
    web["metadata"]["labels"] = {"app": "web"}
    ports = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": ports}
    home.apply(web, service)
    home.until(lambda: home.pods()[0]["status"].get("phase") == "Running")
    asks = {"command": ["python3", "-c", ASK]}
    home.apply(a_pod(home, "client", "", container=asks, restartPolicy="OnFailure"))

    def client():
        return next(one for one in home.pods() if one["metadata"]["name"] == "client")

    home.until(lambda: client()["status"].get("phase") == "Succeeded", 120)
    expected = f"hello {client()['status']['podIP']}\n192.0.2.7\n"
    assert home.kubectl("logs", "client") == expected
    home.kubectl("delete", "pods", "--all", "--timeout=40s")
