"""Another user of the nodes tries to pass for a pod, and to get what is meant for one.

Each attack is made on a real cluster by an unprivileged second user, with the ports that pods have
or had. What such a user can see of them (ss shows the ports of all) is taken as known.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack

import pytest

from tests.cluster.spec import HEAD
from tests.e2e.site import Obj, Site, eventually, pod
from tests.e2e.test_network_chaos import processes
from tools.devroot import PLAIN_USER

pytestmark = pytest.mark.timeout(300)  # a control plane of its own comes first
LONG = 120.0
SLEEP = "import time; time.sleep(600)"

# Prints who has written to it, and answers; without a pause in which to miss one.
UDP_SERVER = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("", 53))
print("ready", flush=True)
while True:
    data, peer = sock.recvfrom(99)
    print(data.decode(), flush=True)
    sock.sendto(b"answer", peer)
"""
# One question from one socket, when it is told to; its port is the node's own. Then it is closed.
UDP_CLIENT = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
sock.bind(("", 0))
print(sock.getsockname()[1], flush=True)
sys.stdin.readline()
sock.settimeout(5)
sock.sendto(b"pod", (sys.argv[1], 53))
print(sock.recv(99).decode(), flush=True)
"""
# Takes the port as soon as it is free, or shares it, and writes from there for some seconds.
UDP_STRANGER = """
import socket, sys, time
host, port, server, real = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
print("tries", flush=True)
until = time.monotonic() + 4
socks, answers, sent = [], 0, 0
while time.monotonic() < until:
    for source in (host, "0.0.0.0") if not socks else ():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((source, port))
            sock.setblocking(False)
            socks.append(sock)
            break
        except OSError:
            sock.close()
    for sock in socks:
        try:
            sock.sendto(b"stranger", (server, real))
            sent += 1
        except OSError:
            pass
        try:
            answers += bool(sock.recv(99))
        except OSError:
            pass
    time.sleep(0.001)
print(sent, answers)
"""


def python(name: str, node: str, *arguments: str, **spec: object) -> Obj:
    made = pod(name, "python", "", terminationGracePeriodSeconds=0, **spec)
    made["metadata"] |= {
        "annotations": {"slurm.orlop.dev/nodelist": node},
        "labels": {"app": name},
    }
    made["spec"]["containers"][0]["command"] = ["python3", *arguments]
    return made


def only_from(name: str, peer: str) -> Obj:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"{name}-from-{peer}"},
        "spec": {
            "podSelector": {"matchLabels": {"app": name}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": peer}}}]}],
        },
    }


def up(site: Site, *names: str) -> list[Obj]:
    found = [site.wait_phase(name, "Running", timeout=LONG) for name in names]
    for name in names:
        if name.startswith("server"):
            said = lambda name=name: "ready" in site.kubectl("logs", name)  # noqa: E731
            eventually(said, f"{name} listens", LONG)
    return found


def address_of(site: Site, node: str) -> str:
    """A node's own address, where the real ports of its pods are."""
    found = site.run("sh", "-c", "ip -4 -o addr show scope global", node=node).stdout
    return found.split("inet ")[1].partition("/")[0]


def ports_on(site: Site, node: str, option: str) -> set[int]:
    """The ports that are open on a node's own address, as every user sees them."""
    host = address_of(site, node)
    lines = site.run("ss", option, node=node).stdout.splitlines()
    places = [line.split()[3].rpartition(":") for line in lines]
    return {int(port) for at, _, port in places if at == host}


def stranger(site: Site, node: str, program: str, *arguments: object) -> subprocess.Popen[str]:
    """Another user of a node, at work."""
    command = ["python3", "-c", program, *map(str, arguments)]
    return site.cluster.popen(node, command, user=PLAIN_USER, stdout=subprocess.PIPE, text=True)


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def execing(site: Site, name: str, program: str, *arguments: str) -> subprocess.Popen[str]:
    words = ("exec", "-i", name, "--", "python3", "-c", program, *arguments)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return site.popen("kubectl", "-n", site.namespace, *words, text=True, **pipes)


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_user_at_the_udp_port_that_a_pod_had_is_not_that_pod(site: Site, node: str) -> None:
    """The pod's socket is closed; its port is free for everybody, but its name is not."""
    before = ports_on(site, "n1", "-Hlun")
    site.apply(only_from("server", "client"))
    site.apply(python("server", "n1", "-c", UDP_SERVER))
    site.apply(python("client", node, "-c", SLEEP))
    server, _ = up(site, "server", "client")
    (real,) = ports_on(site, "n1", "-Hlun") - before
    for count in range(1, 3):
        with execing(site, "client", UDP_CLIENT, server["status"]["podIP"]) as client:
            port = line(client)
            places = (address_of(site, node), port, address_of(site, "n1"), real)
            with stranger(site, node, UDP_STRANGER, *places) as other:
                assert line(other) == "tries"
                client.communicate("go\n", timeout=LONG)
                sent, answers = line(other).split()
        assert int(sent) > 50, "the attack was made"
        assert answers == "0"
        assert site.kubectl("logs", "server").split() == ["ready"] + ["pod"] * count


# Listens, with room for next to nobody, and accepts when it is told to.
FULL_SERVER = """
import os, socket, time
sock = socket.socket()
sock.bind(("", 80))
sock.listen(1)
print("ready", flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.05)
while True:
    connection, peer = sock.accept()
    connection.settimeout(5)
    try:
        print(connection.recv(99).decode() or "nothing", flush=True)
    except OSError as error:
        print(type(error).__name__, flush=True)
    connection.close()
"""
# Fills the server's queue, then tries once more from a port of its own, and gives up.
GIVES_UP = """
import socket, sys, time
held = []
for _ in range(4):
    sock = socket.socket()
    sock.settimeout(1)
    try:
        sock.connect((sys.argv[1], 80))
    except OSError:
        pass
    held.append(sock)
last = socket.socket()
last.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
last.bind(("", 0))
print(last.getsockname()[1], flush=True)
last.settimeout(1.5)
try:
    last.connect((sys.argv[1], 80))
except OSError as error:
    pass
last.close()
time.sleep(30)
"""
TCP_STRANGER = """
import errno, socket, sys, time
host, port, server, real = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
until, made = time.monotonic() + 12, 0
sources = [host, "127.0.0.1"]
while time.monotonic() < until:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.settimeout(0.5)
    try:
        sock.bind((host, port))
        sock.connect((server, real))
        made += 1
        sock.sendall(b"stranger")
        sock.recv(99)
    except OSError:
        pass
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
    sock.close()
    time.sleep(0.01)
print(made)
"""


def test_a_user_at_the_port_of_a_connect_that_gave_up_is_not_that_pod(site: Site) -> None:
    """The server's queue is full; its netd was told of one socket, and not of a port."""
    before = ports_on(site, "n1", "-Hltn")
    site.apply(only_from("server", "client"))
    site.apply(python("server", "n1", "-c", FULL_SERVER))
    site.apply(python("client", "n2", "-c", SLEEP))
    server, _ = up(site, "server", "client")
    (real,) = ports_on(site, "n1", "-Hltn") - before
    with execing(site, "client", GIVES_UP, server["status"]["podIP"]) as client:
        places = (address_of(site, "n2"), line(client), address_of(site, "n1"), real)
        with stranger(site, "n2", TCP_STRANGER, *places) as other:
            time.sleep(4)
            site.kubectl("exec", "server", "--", "touch", "/tmp/go")
            made = line(other)
        client.kill()
    assert int(made) > 0, "the attack was made"
    assert "stranger" not in site.kubectl("logs", "server")


# At 80 and 53, and at 81 and 54, which are at ports of the node.
BOTH_SERVER = """
import socket, threading
def answer_calls(port):
    sock = socket.create_server(("", port), backlog=256)
    while True:
        connection, _ = sock.accept()
        connection.recv(999)
        connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\nserver")
        connection.close()
def answer_letters(port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("", port))
    while True:
        try:
            sock.sendto(b"server", sock.recvfrom(999)[1])
        except OSError:
            pass  # who asked is gone
for port in (80, 81):
    threading.Thread(target=answer_calls, args=(port,)).start()
for port in (53, 54):
    threading.Thread(target=answer_letters, args=(port,)).start()
print("ready", flush=True)
"""
HOST_PORTS = [
    {"containerPort": 81, "hostPort": 30081},
    {"containerPort": 54, "hostPort": 30054, "protocol": "UDP"},
]
# Asks again and again, with what nobody else should read: over sockets that block and such that do
# not; over one for each datagram, one for all, and one that is connected. Says when it has heard
# what of whom, by the clock of the machine that all nodes are on.
ASKS = """
import asyncio, json, socket, sys, threading, time
said = {}
def hear(how, words):
    said[f"{how} {words}"] = time.time()
def ask(host, port):
    while True:
        try:
            with socket.create_connection((host, port), 5) as sock:
                sock.sendall(b"GET / HTTP/1.0\\r\\nAuthorization: Bearer secret\\r\\n\\r\\n")
                hear(f"blocking {port}", sock.recv(999)[-6:].decode() or "closed")
        except OSError as error:
            hear(f"blocking {port}", type(error).__name__)
async def ask_at_once(host, port):
    loop = asyncio.get_running_loop()
    while True:
        with socket.socket() as sock:
            sock.setblocking(False)
            try:
                async with asyncio.timeout(5):
                    await loop.sock_connect(sock, (host, port))
                    await loop.sock_sendall(sock, b"Authorization: Bearer secret\\r\\n\\r\\n")
                    words = (await loop.sock_recv(sock, 999))[-6:].decode()
                    hear(f"at once {port}", words or "closed")
            except (OSError, TimeoutError) as error:
                hear(f"at once {port}", type(error).__name__)
def write(how, host, port):
    sock = None
    while True:
        time.sleep(0.02)
        if sock is None or how == "new":
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.settimeout(0.2)
        try:
            if how == "connected":
                try:
                    sock.getpeername()
                except OSError:
                    sock.connect((host, port))
                sock.send(b"secret")
            else:
                sock.sendto(b"secret", (host, port))
            hear(f"{how} {port}", sock.recv(999).decode())
        except OSError as error:
            hear(f"{how} {port}", type(error).__name__)
host = sys.argv[1]
calls, letters = ([int(word) for word in words.split(",") if word] for words in sys.argv[2:4])
for port in calls:
    threading.Thread(target=ask, args=(host, port), daemon=True).start()
    work = lambda port=port: asyncio.run(ask_at_once(host, port))
    threading.Thread(target=work, daemon=True).start()
for port in letters:
    for how in ("new", "kept", "connected"):
        threading.Thread(target=write, args=(how, host, port), daemon=True).start()
while True:
    time.sleep(0.2)
    print(json.dumps(said), flush=True)
"""
# Takes ports as soon as they are free. Says when it has them all; then what came there of TCP, and
# when the last of UDP came.
LURKS = """
import json, select, socket, sys, time
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
host, until = sys.argv[1], time.monotonic() + float(sys.argv[2])
wanted = [(kind, int(port)) for word in sys.argv[3:] for kind, port in [word.split(":")]]
listeners, letters, heard, came, last, open_ones = [], [], b"", 0, 0, []
while time.monotonic() < until:
    for kind, port in wanted[:]:
        sock = socket.socket(socket.AF_INET, KINDS[kind])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
            if kind == "tcp":
                sock.listen(512)
        except OSError:
            sock.close()
            continue
        (listeners if kind == "tcp" else letters).append(sock)
        wanted.remove((kind, port))
        if not wanted:
            print(time.time(), flush=True)
    if not listeners and not letters:
        time.sleep(0.0005)
        continue
    wait = 0.0005 if wanted else 0.1
    for sock in select.select([*listeners, *letters, *open_ones], [], [], wait)[0]:
        if sock in listeners:
            open_ones.append(sock.accept()[0])
            came += 1
            continue
        try:
            data, peer = sock.recvfrom(9999)
            if sock in letters:
                last = time.time()
                sock.sendto(b"stranger", peer)
                continue
        except OSError:
            data = b""
            if sock in letters:
                continue
        heard += data
        if not data:
            open_ones.remove(sock)
            sock.close()
print(json.dumps({"came": came, "heard": heard.decode(), "last": last}))
"""
# Seconds for which a datagram may go to, and be taken from, who has the port of a pod that is gone.
UDP_TIME = 4.0


def said_by(site: Site, name: str) -> dict[str, float]:
    """The last that a client has said, as soon as it has, and a control plane is there to ask."""
    argv = ("kubectl", "-n", site.namespace, "logs", name, "--tail=1")
    words = eventually(lambda: site.run(*argv, check=False).stdout, f"{name} says something", LONG)
    found: dict[str, float] = json.loads(words.splitlines()[-1])
    return found


def until_answered(site: Site, name: str) -> None:
    """All of a client's ways lead to the server."""

    def is_answered() -> bool:
        said = said_by(site, name)
        print(f"{name}: {sorted(said)}")
        return sum(key.endswith(" server") for key in said) == 10

    eventually(is_answered, f"{name} has answers", LONG)


def from_outside(site: Site, stack: ExitStack) -> subprocess.Popen[str]:
    """Who asks by the node ports of a service, at the control plane's host."""
    ports = [
        {"name": kind.lower(), "port": port, "protocol": kind}
        for kind, port in (("TCP", 80), ("UDP", 53))
    ]
    spec = {"type": "NodePort", "selector": {"app": "server"}, "ports": ports}
    site.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "way"}, "spec": spec})
    calls, letters = (str(one["nodePort"]) for one in site.get("service", "way")["spec"]["ports"])
    words = ["python3", "-c", ASKS, "127.0.0.1", calls, letters]
    pipes = {"stdout": subprocess.PIPE, "text": True}
    child = stack.enter_context(site.cluster.popen(HEAD, words, user=PLAIN_USER, **pipes))
    stack.callback(child.kill)

    def is_answered() -> bool:
        return sum(key.endswith(" server") for key in json.loads(line(child))) == 5

    eventually(is_answered, "the node ports lead there", LONG)
    return child


def serving(site: Site) -> tuple[str, list[str]]:
    """A pod that answers at four ports: its address, and where these really are on n1."""
    before = {kind: ports_on(site, "n1", f"-Hl{kind[0]}n") for kind in ("tcp", "udp")}
    server = python("server", "n1", "-c", BOTH_SERVER)
    server["spec"]["containers"][0]["ports"] = HOST_PORTS
    site.apply(server)
    (found,) = up(site, "server")

    def listening() -> list[str]:
        ports = [
            f"{kind}:{port}"
            for kind, known in before.items()
            for port in ports_on(site, "n1", f"-Hl{kind[0]}n") - known
        ]
        return ports if len(ports) == 2 else []

    ports = eventually(listening, "the server listens at both ports", LONG)
    return found["status"]["podIP"], [*ports, "tcp:30081", "udp:30054"]


def asking(site: Site, address: str) -> list[str]:
    """Clients on its node and on another, who have had answers."""
    names = ["client-n1", "client-n2"]
    for name in names:
        site.apply(python(name, name[-2:], "-c", ASKS, address, "80,81", "53,54"))
    up(site, *names)
    for name in names:
        until_answered(site, name)
    return names


@pytest.mark.parametrize("is_away", [False, True], ids=["told", "control plane dead"])
def test_a_user_at_the_ports_of_a_dead_pod_hears_and_says_nothing(
    own_site: Site, is_away: bool
) -> None:
    """The clients still know the dead pod by them, from this node, from another, from outside."""
    site = own_site
    address, ports = serving(site)
    names = asking(site, address)
    with ExitStack() as stack:
        outside = from_outside(site, stack) if not is_away else None
        lurking = stranger(site, "n1", LURKS, address_of(site, "n1"), 10.0, *ports)
        stack.enter_context(lurking)
        time.sleep(1)
        if is_away:
            site.kill()
        for pid in reversed(processes(site, "server")):
            os.kill(pid, signal.SIGKILL)
        began = float(line(lurking))  # the attack was made
        heard = json.loads(line(lurking))
        if outside is not None:
            outside.kill()
            assert_heard_no_stranger(json.loads(outside.communicate()[0].splitlines()[-1]), began)
    if is_away:
        site.up()
    assert heard["came"] > 0, "clients came to the dead pod's port"
    assert heard["heard"] == ""
    assert heard["last"] < began + UDP_TIME
    for name in names:
        assert_heard_no_stranger(said_by(site, name), began)


def assert_heard_no_stranger(said: dict[str, float], began: float) -> None:
    """Nobody took another's word for the pod's, but of UDP for a short time."""
    found = {how: when for how, when in said.items() if how.endswith("ranger")}
    assert all(when < began + UDP_TIME for when in found.values()), (began, found)
    assert not [how for how in found if "blocking" in how or "at once" in how]
