"""Runs the network's benchmark on the stage, as its user: `python3 - ROUNDS` on the head.

Read by `network` and sent there as text, so it has the standard library only. It prints progress
to stderr and, at the end, three lines of JSON: way -> measure -> samples, for one node and for two,
and measure -> samples of names and of services with few and many endpoints.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

HOME = Path(os.environ.get("ORLOP_HOME", str(Path.home() / ".orlop")))
TRIES = 5
PATIENCE = 90.0
ENV = {**os.environ, "KUBECONFIG": str(HOME / "kubeconfig")}
REDIS = "redis-server --save '' --protected-mode no --bind 0.0.0.0"

# Behind slirp4netns: a network namespace, and a process beside it that carries its packets.
SLIRP = """
go=$(mktemp -d); unshare -rn sh -c "until [ -e $go/go ]; do sleep 0.02; done; $1" &
inside=$!
sleep 0.3
how="--configure --mtu=65520 --api-socket $go/api --ready-fd 3"
slirp4netns $how $inside tap0 3>$go/r >/dev/null 2>&1 &
carrier=$!
until [ -s $go/r ]; do sleep 0.02; done
for port in $2; do python3 -c "
import json, socket
s = socket.socket(socket.AF_UNIX); s.connect('$go/api')
s.sendall(json.dumps({'execute': 'add_hostfwd', 'arguments': {'proto': 'tcp',
  'host_addr': '0.0.0.0', 'host_port': $port, 'guest_port': $port}}).encode())
s.shutdown(socket.SHUT_WR); assert b'error' not in s.recv(999)"; done
touch $go/go
wait $inside; kill $carrier
"""
WAYS = {  # ports of iperf3 and of redis
    "host": (5301, 6301),
    "pod": (5302, 6302),
    "slirp4netns": (5303, 6303),
    "pasta": (5304, 6304),
}

MANY, FEW = 500, 5
FIRST = 20000  # port of the many endpoints
# Takes connections at many ports and ends them.
ENDS = f"""
import selectors, socket
ready = selectors.DefaultSelector()
for port in range({FIRST}, {FIRST + MANY}):
    sock = socket.create_server(("", port), backlog=64)
    sock.setblocking(False)
    ready.register(sock, selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        try:
            key.fileobj.accept()[0].close()
        except BlockingIOError:
            pass
"""
# What a connection costs, in seconds: medians, of services in turn.
CONNECT = """
import json, socket, statistics, sys, time
def cost(ip):
    begun = time.perf_counter()
    sock = socket.create_connection((ip, 80))
    taken = time.perf_counter() - begun
    sock.recv(1)
    sock.close()
    return taken
found = {ip: [] for ip in sys.argv[1:]}
for number in range(3000):
    for ip in found:
        found[ip].append(cost(ip))
print(json.dumps([statistics.median(taken[1000:]) for taken in found.values()]))
"""
# Questions for a name of the cluster, many on their way at a time; answers in a second.
ASK = """
import socket, time
server = next(line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver"))
words = b"server.default.svc.cluster.local".split(b".")
name = b"".join(bytes([len(word)]) + word for word in words)
question = b"\\0\\1\\1\\0\\0\\1" + bytes(6) + name + b"\\0\\0\\1\\0\\1"
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((server, 53))
sock.settimeout(5)
for _ in range(32):
    sock.send(question)
count, begun = 0, time.perf_counter()
while time.perf_counter() < begun + 2:
    answer = sock.recv(512)
    assert answer[7] == 1, answer
    sock.send(question)
    count += 1
print(count / (time.perf_counter() - begun))
"""


def serve(way: str) -> str:
    iperf, redis = WAYS[way]
    both = f"iperf3 -s -p {iperf} >/dev/null & exec {REDIS} --port {redis} >/dev/null"
    if way == "slirp4netns":
        return f"set -- \"{both.replace('$', chr(92) + '$')}\" '{iperf} {redis}'\n{SLIRP}"
    if way == "pasta":
        return f'exec pasta --config-net -t {iperf},{redis} -- sh -c "{both}"'
    return both


def through(way: str, command: str) -> str:
    """A command of a client."""
    if way == "slirp4netns":
        return f"set -- '{command}' ''\n{SLIRP}"
    if way == "pasta":
        return f"exec pasta --config-net -- sh -c '{command}'"
    return command


def kubectl(*words: str, text: str = "") -> str:
    done = subprocess.run(
        ["kubectl", *words], env=ENV, input=text, capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode:
        raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr}")
    return done.stdout


def pod(name: str, node: str, script: str, on_host: bool) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": name},
            "annotations": {"slurm.orlop.dev/nodelist": node},
        },
        "spec": {
            "hostNetwork": on_host,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "host", "command": ["sh", "-c", script]}],
        },
    }


def service() -> dict[str, object]:
    ports = [{"name": f"p{port}", "port": port} for port in WAYS["pod"]]
    spec = {"selector": {"app": "server-pod"}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"}, "spec": spec}


def slices(name: str, ip: str, count: int) -> list[dict[str, object]]:
    """A service of so many endpoints, all of them ports of one pod."""
    spec = {"ports": [{"name": "p", "port": 80}]}
    made: list[dict[str, object]] = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
    ]
    for number in range(count):
        labels = {"kubernetes.io/service-name": name}
        made.append(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": f"{name}-{number}", "labels": labels},
                "addressType": "IPv4",
                "ports": [{"name": "p", "port": FIRST + number, "protocol": "TCP"}],
                "endpoints": [{"addresses": [ip], "conditions": {"ready": True}}],
            }
        )
    return made


def apply(made: list[dict[str, object]]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": made}
    kubectl("create", "-f", "-", text=json.dumps(listed))


def names_and_services(rounds: int) -> dict[str, list[float]]:
    apply([pod("ends", "n1", f"exec python3 -c '{ENDS}'", False)])
    kubectl("wait", "--for=condition=Ready", "pod/ends", f"--timeout={PATIENCE:.0f}s")
    ip = kubectl("get", "pod", "ends", "-o", "jsonpath={.status.podIP}").strip()
    virtual = []
    for count in (FEW, MANY):
        apply(slices(f"ends-{count}", ip, count))
        words = ("get", "service", f"ends-{count}", "-o", "jsonpath={.spec.clusterIP}")
        virtual.append(kubectl(*words).strip())
    found: dict[str, list[float]] = {"dns": [], "few": [], "many": []}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}: names, services", file=sys.stderr, flush=True)
        found["dns"].append(float(run("pod", "n2", f"exec python3 -c '{ASK}'")))
        said = run("pod", "n2", f"exec python3 -c '{CONNECT}' {' '.join(virtual)}")
        few, many = json.loads(said)
        found["few"].append(few)
        found["many"].append(many)
    return found


def compiled() -> None:
    """Pods have the compiled part of their network if it is there when they start."""
    until = time.monotonic() + PATIENCE
    while not list((HOME / "run").glob("netd-*.so")) and time.monotonic() < until:
        time.sleep(0.1)


def begin() -> str:
    """Servers and clients; the address of the servers' node."""
    compiled()
    wait = "exec sleep 100000"
    made = [service()]
    made += [pod(f"server-{way}", "n1", serve(way), way != "pod") for way in WAYS]
    for node in ("n1", "n2"):
        made += [
            pod(f"client-host-{node}", node, wait, True),
            pod(f"client-pod-{node}", node, wait, False),
        ]
    listed = {"apiVersion": "v1", "kind": "List", "items": made}
    kubectl("apply", "-f", "-", text=json.dumps(listed))
    for one in made[1:]:
        name = one["metadata"]["name"]  # type: ignore[index]
        kubectl("wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={PATIENCE:.0f}s")
    return kubectl("get", "pod", "server-host", "-o", "jsonpath={.status.hostIP}").strip()


def run(way: str, node: str, command: str) -> str:
    client = f"client-{'pod' if way == 'pod' else 'host'}-{node}"
    return kubectl("exec", client, "--", "sh", "-c", through(way, command))


def commands(host: str, iperf: int, redis: int) -> dict[str, str]:
    bench = f"redis-benchmark -h {host} -p {redis} --csv -t"
    stream = f"iperf3 -c {host} -p {iperf} -t 2 -J"
    return {
        "one stream": stream,
        "four streams": f"{stream} -P 4",
        "round trip": f"{bench} ping_mbulk -c 1 -n 10000",
        "redis": f"{bench} get -c 20 -n 60000",
        "new connections": f"{bench} ping_mbulk -c 1 -n 3000 -k 0",
        "new connections at once": f"{bench} ping_mbulk -c 8 -n 6000 -k 0",
    }


def sample(name: str, printed: str) -> float:
    if name.endswith("stream") or name.endswith("streams"):
        return float(json.loads(printed)["end"]["sum_received"]["bits_per_second"])
    rate = float(printed.strip().splitlines()[-1].split(",")[1].strip('"'))
    return 1 / rate if name == "round trip" else rate


def measured(way: str, node: str, name: str, command: str) -> float:
    """iperf3 serves one at a time, and is busy for a moment with the end of the last."""
    for _ in range(TRIES):
        printed = run(way, node, command)
        if '"error"' not in printed:
            return sample(name, printed)
        time.sleep(1)
    raise RuntimeError(f"{name}, {way} from {node}: {printed}")


def main(rounds: int) -> None:
    address = begin()
    virtual = kubectl("get", "service", "server", "-o", "jsonpath={.spec.clusterIP}").strip()
    time.sleep(2)
    found: dict[str, dict[str, dict[str, list[float]]]] = {"n1": {}, "n2": {}}
    for number in range(rounds):
        for node in found:
            for way, ports in WAYS.items():
                if way == "pasta" and node == "n1":
                    continue  # its client has the node's own address, and does not leave it
                print(
                    f"round {number + 1} of {rounds}: {way} from {node}",
                    file=sys.stderr,
                    flush=True,
                )
                host = virtual if way == "pod" else address
                for name, command in commands(host, *ports).items():
                    taken = measured(way, node, name, command)
                    found[node].setdefault(way, {}).setdefault(name, []).append(taken)
    others = names_and_services(rounds)
    for node in found:
        print(json.dumps(found[node]))
    print(json.dumps(others))


if __name__ == "__main__":
    main(int(sys.argv[1]))
