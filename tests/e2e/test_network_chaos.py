"""Kill what can be killed while a client hammers a service of five pods."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.site import Obj, Site, eventually
from tests.e2e.test_services import client, server, service, until_ready, workload

# Answers with its name; told to end, it goes on for as long as others may still come.
SERVER = """
import http.server, os, signal, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = os.environ["POD"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256
signal.signal(signal.SIGTERM, lambda *_: threading.Timer(1.5, os._exit, (0,)).start())
Server(("", 80), Handler).serve_forever()
"""

# Four threads, a new connection for every request; a line of JSON for all of each tenth second.
HAMMER = """
import collections, json, threading, time, urllib.request
lock, seen, errors = threading.Lock(), collections.Counter(), []
def work():
    while True:
        began = time.time()
        try:
            with urllib.request.urlopen("http://web:8080", timeout=3) as answer:
                name = answer.read().decode()
            with lock:
                seen[name] += 1
        except Exception as error:
            with lock:
                errors.append([round(began, 2), round(time.time() - began, 2), str(error)])
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
while True:
    time.sleep(0.1)
    with lock:
        line = json.dumps({"t": time.time(), "seen": dict(seen), "errors": errors})
        seen.clear(); errors.clear()
    print(line, flush=True)
"""


# What a death may cost: what each of four threads had under way, and may once or twice more have
# begun before the last socket was closed. To go on asking the dead would cost hundreds.
LOST = 12


class Hammer:
    """The client's own account."""

    def __init__(self, site: Site) -> None:
        self._site, self._read = site, 0

    def look(self) -> tuple[dict[str, int], list[list]]:
        """Answers by pod, and failures, since the last look."""
        lines = self._site.kubectl("logs", "hammer").splitlines()
        new, self._read = lines[self._read :], len(lines)
        seen: dict[str, int] = {}
        errors = []
        for line in new:
            said = json.loads(line)
            errors += said["errors"]
            for name, count in said["seen"].items():
                seen[name] = seen.get(name, 0) + count
        return seen, errors

    def after(self, seconds: float) -> tuple[dict[str, int], list[list]]:
        time.sleep(seconds)
        return self.look()


def processes(site: Site, name: str) -> list[int]:
    """The agent's own processes of a pod, the first one first: keeper, supervisor, netd."""
    (folder,) = (site.home / "pods").glob(f"{site.namespace}_{name}_*")
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # A task of an array is given a link to its folder.
            if b"-I" in words and os.path.realpath(words[-2].decode()) == str(folder):
                found[int(entry.name)] = int(stat[1])
    chain = [pid for pid, parent in found.items() if parent not in found]
    while True:
        below = [pid for pid, parent in found.items() if parent == chain[-1]]
        if not below:
            return chain
        chain.append(below[0])


@pytest.fixture
def crowd(own_site: Site) -> tuple[Site, Hammer, list[str]]:
    site = own_site
    manifest = workload("StatefulSet", "web", 5, serviceName="web", podManagementPolicy="Parallel")
    spec = manifest["spec"]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = 5
    spec["containers"] = [server(command=["python", "-c", SERVER])]
    site.apply(manifest)
    site.apply(workload("Deployment", "stranger", 1))
    closed: Obj = {"metadata": {"name": "closed", "labels": {"app": "web"}}}
    gate = {"readinessGates": [{"conditionType": "test/open"}]}
    site.apply({"apiVersion": "v1", "kind": "Pod", **closed,
                "spec": {**gate, "containers": [server()]}})  # fmt: skip
    site.apply(service("web"))
    client(site, "hammer", containers=[
        {"name": "main", "image": "python", "command": ["python", "-c", HAMMER]}
    ])  # fmt: skip
    names = [f"web-{number}" for number in range(5)]
    for name in (*names, "closed"):
        site.wait_phase(name, "Running")
    until_ready(site, "stranger", 1)
    hammer = Hammer(site)

    eventually(lambda: set(hammer.after(0.5)[0]) == set(names), "all five answer", 60)
    return site, hammer, names


@pytest.mark.timeout(300)
def test_chaos_fails_only_what_it_must(crowd: tuple[Site, Hammer, list[str]]) -> None:
    site, hammer, names = crowd
    hammer.look()

    # The control plane: what is known goes on.
    site.kill()
    time.sleep(3)
    site.up()
    seen, errors = hammer.after(2)
    assert errors == []
    assert set(seen) == set(names)

    # The network processes of the client and of a server: others take their place. What one of them
    # was about to answer may be lost, as what a node's kernel has under way when it dies.
    for name in ("hammer", "web-1"):
        os.kill(processes(site, name)[-1], signal.SIGKILL)
    seen, errors = hammer.after(5)
    assert len(errors) <= 2 * LOST, errors
    assert set(seen) == set(names)

    # A pod that ends in order: it is asked until it leaves, and not after.
    site.kubectl("delete", "pod", "web-2", "--wait=false")
    seen, errors = hammer.after(4)
    assert errors == []
    eventually(lambda: "web-2" in hammer.after(0.5)[0], "the one in its place answers", 60)

    # An agent, and its pod with it: what it was answering is lost, and nothing else.
    hammer.look()
    os.kill(processes(site, "web-3")[0], signal.SIGKILL)
    seen, errors = hammer.after(5)
    assert len(errors) <= LOST, errors
    assert set(seen) <= set(names)

    # All at once: nobody can say that web-4 is gone, and still others are asked in its place.
    site.kill()
    os.kill(processes(site, "web-4")[0], signal.SIGKILL)
    os.kill(processes(site, "hammer")[-1], signal.SIGKILL)
    time.sleep(2)
    site.up()
    seen, errors = hammer.after(5)
    assert len(errors) <= 2 * LOST, errors
    assert set(seen) <= set(names)
