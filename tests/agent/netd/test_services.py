"""Services and names from inside a pod, with what the kubelet tells of them changing meanwhile."""

from __future__ import annotations

import collections
import subprocess

import pytest

from tools.devroot import PLAIN_USER

from ..pods import IS_ROOT, container
from .neighbourhood import NAMESERVER

VIP = "10.96.0.7"
NAMED = """
import socket, socketserver, sys
class Handler(socketserver.BaseRequestHandler):
    def handle(self): self.request.sendall(socket.gethostname().encode())
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, request_queue_size = True, 64
Server(("", 8080), Handler).serve_forever()
"""
ASK = """
import socket, sys
for _ in range(int(sys.argv[3])):
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as one:
        assert one.getpeername() == (sys.argv[1], int(sys.argv[2])), one.getpeername()
        print(one.recv(100).decode())
"""
ECHO = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 5353))
print("ready", flush=True)
while True:
    data, peer = server.recvfrom(9999)
    server.sendto(peer[0].encode() + b" " + data, peer)
"""
ASK_UDP = """
import socket, sys
to = (sys.argv[1], int(sys.argv[2]))
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.settimeout(5)
one.sendto(b"free", to)
data, source = one.recvfrom(99)
assert source == to, source
print(data.decode())
one.connect(to)
one.send(b"connected")
data, source = one.recvfrom(99)
assert (source, one.getpeername()) == (to, to), source
print(data.decode())
one.send(b"again")
print(one.recv(99).decode())
"""


def server(neighbourhood, script: str = NAMED, **options):
    return neighbourhood.add(
        container("c", "/usr/bin/python3", "-c", script), runtime="host", **options
    )


def ask(client, vip: str, port: int, count: int = 1, script: str = ASK) -> list[str]:
    return client.sh(f"/usr/bin/python3 -c '{script}' {vip} {port} {count}").splitlines()


@pytest.fixture
def client(neighbourhood):
    return neighbourhood.add(runtime="host")


def test_a_service_is_all_of_its_endpoints(neighbourhood, client):
    servers = [server(neighbourhood) for _ in range(2)]
    for one in servers:
        one.pod.wait_for(lambda one=one: "8080" in one.state["tcp"], 40)
    neighbourhood.serve(VIP, 80, *[(one, 8080) for one in servers])
    counts = collections.Counter(ask(client, VIP, 80, 60))
    assert set(counts) == {one.pod.folder.name for one in servers}
    assert min(counts.values()) > 10
    neighbourhood.serve(VIP, 80, (servers[1], 8080))
    client.pod.wait_for(lambda: set(ask(client, VIP, 80, 5)) == {servers[1].pod.folder.name})


def test_who_refuses_is_passed_over(neighbourhood, client):
    good = server(neighbourhood)
    bad = neighbourhood.add(runtime="host")
    bad.sh("""/usr/bin/python3 -c 'import socket; socket.create_server(("", 8080))'""")
    for one in (good, bad):
        one.pod.wait_for(lambda one=one: "8080" in one.state["tcp"], 40)
    neighbourhood.serve(VIP, 80, (bad, 8080), (good, 8080))
    assert ask(client, VIP, 80, 20) == [good.pod.folder.name] * 20


def test_a_service_without_endpoints_refuses(neighbourhood, client):
    neighbourhood.serve(VIP, 80)
    for port in (80, 81):
        code, _, errors = client.try_sh(f"/usr/bin/python3 -c '{ASK}' {VIP} {port} 1")
        assert code == 1
        assert "ConnectionRefusedError" in errors


def test_a_pod_reaches_itself_by_its_service(neighbourhood):
    own = server(neighbourhood)
    own.pod.wait_for(lambda: "8080" in own.state["tcp"], 40)
    neighbourhood.serve(VIP, 80, (own, 8080))
    assert ask(own, VIP, 80) == [own.pod.folder.name]


def test_datagrams_to_a_service_come_back_from_it(neighbourhood, client):
    one = server(neighbourhood, ECHO)
    one.pod.wait_for(lambda: "5353" in one.state["udp"], 40)
    neighbourhood.serve(VIP, 53, (one, 5353), protocol="udp")
    said = [f"{client.ip} free", f"{client.ip} connected", f"{client.ip} again"]
    assert ask(client, VIP, 53, script=ASK_UDP) == said
    assert ask(client, one.ip, 5353, script=ASK_UDP) == said


def test_names_are_answered_over_udp_and_tcp(neighbourhood, client):
    neighbourhood.names["web.default.svc.cluster.local"] = {"A": [VIP], "ttl": 5}
    look = "nslookup web.default.svc.cluster.local 10.96.0.10"
    busybox = neighbourhood.add(container(script="exec sleep 1000"), runtime="crun")
    assert f"Address: {VIP}" in busybox.sh(look)
    question = (
        "import socket; "
        "name = bytes([3]) + b'web' + bytes([7]) + b'default' + bytes([3]) + b'svc'; "
        "name += bytes([7]) + b'cluster' + bytes([5]) + b'local' + bytes([0]); "
        "q = bytes([18, 52, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + name + bytes([0, 1, 0, 1]); "
        "c = socket.create_connection(('10.96.0.10', 53), 5); "
        "c.sendall(len(q).to_bytes(2, 'big') + q); print(c.recv(999)[-4:].hex())"
    )
    assert client.sh(f'/usr/bin/python3 -c "{question}"').strip() == "0a600007"


# Asks a name server, by each protocol; says how much it hears.
STRANGER = """
import socket, struct, sys
host, port = sys.argv[1], int(sys.argv[2])
question = b"".join(bytes([len(w)]) + w for w in b"web.default.svc.cluster.local".split(b"."))
packet = struct.pack("!6H", 7, 256, 1, 0, 0, 0) + question + struct.pack("!B2H", 0, 1, 1)
with_length = bytes([0, len(packet)]) + packet
for kind, said in ((socket.SOCK_DGRAM, packet), (socket.SOCK_STREAM, with_length)):
    with socket.socket(socket.AF_INET, kind) as one:
        one.settimeout(2)
        heard = b""
        try:
            one.connect((host, port))
            one.send(said)
            heard = one.recv(999)
        except OSError as error:
            pass
        print(len(heard))
"""


@pytest.mark.parametrize("who", ["another user", "the same user"])
def test_names_are_told_to_nobody_outside_of_the_pod(neighbourhood, client, who):
    neighbourhood.names["web.default.svc.cluster.local"] = {"A": [VIP], "ttl": 5}
    heard = client.sh(f"/usr/bin/python3 -c '{STRANGER}' {NAMESERVER} 53").split()
    assert [int(length) > 40 for length in heard] == [True, True]
    loopback = "127." + client.ip.partition(".")[2]
    shown = subprocess.run(["ss", "-Hlun"], capture_output=True, text=True, check=True).stdout
    (port,) = {line.split()[3].split(":")[1] for line in shown.splitlines() if loopback in line}
    words = ["/usr/bin/python3", "-c", STRANGER, loopback, port]
    if IS_ROOT:
        user = PLAIN_USER if who == "another user" else client.pod.user
        words = ["setpriv", "--reuid", user, "--clear-groups", *words]
    said = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/").stdout
    assert said.split() == ["0", "0"]


def test_a_connection_made_while_nothing_is_known_yet_waits_for_the_answer(neighbourhood, client):
    """And holds up nobody: a pod's other calls go on."""
    neighbourhood.is_silent = True
    client.sh("true")
    script = f"""
import socket, threading, time
begun = time.monotonic()
slow = threading.Thread(target=lambda: socket.create_connection(("{VIP}", 80), 30))
slow.daemon = True
slow.start()
time.sleep(0.2)
server = socket.create_server(("127.0.0.1", 9090))
for _ in range(5):
    socket.create_connection(("127.0.0.1", 9090)).getpeername()
print(slow.is_alive())
"""
    assert client.sh(f"/usr/bin/python3 -c '{script}'").strip() == "True"
