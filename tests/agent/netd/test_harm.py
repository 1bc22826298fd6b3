"""What harms nobody: netd killed at any moment, strangers at the door, hostile callers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from orlop.agent.linux.process import children
from orlop.agent.netd.sockets.sockaddr import AF_INET, Address, number

from ..pods import IS_ROOT, container
from .neighbourhood import other_netd

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
import os, socket, sys, time
ends = []
for number in range(int(sys.argv[2])):
    connection = socket.socket()
    connection.settimeout(10 if number % 2 else None)
    connection.connect((sys.argv[1], 80))
    assert os.get_blocking(connection.fileno()) == (number % 2 == 0), number
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
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    agents = {int(word) for word in found.stdout.split()}
    if not agents:
        ended = pod.pod.process.poll()
        assert ended is None, "\n".join(pod.pod.lines())
        raise ValueError("no agent is seen just now")
    below = {pid: [child for child in children(pid) if child in agents] for pid in agents}
    keeper = next(pid for pid in agents if not any(pid in some for some in below.values()))
    (supervisor,) = below[keeper]
    (netd,) = below[supervisor]
    return netd


@pytest.fixture
def server(neighbourhood):
    found = neighbourhood.add(container("c", "/usr/bin/python3", "-c", ECHO), runtime="host")
    found.pod.wait_for(lambda: "80" in found.state["tcp"] and "ready" in found.pod.lines(), 40)
    return found


def has_compiled_part(netd: int) -> bool:
    """Whether a netd answers by its compiled part, which is woken by an eventfd; Python has none.

    That the library is mapped says nothing: every fork of the agent has it, used or not.
    """
    for link in Path(f"/proc/{netd}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if "[eventfd]" in os.readlink(link):
                return True
    return False


def test_a_compiled_part_that_crashes_is_done_without(neighbourhood, server):
    client = neighbourhood.add(runtime="host")
    client.sh(f"/usr/bin/python3 -c '{PATIENT}' {server.ip} 3")
    crashed = {pod.ip: netd_of(pod) for pod in (client, server)}
    for netd in crashed.values():
        assert has_compiled_part(netd) == bool(neighbourhood.helper)
        os.kill(netd, signal.SIGSEGV)
    client.sh(f"/usr/bin/python3 -c '{PATIENT}' {server.ip} 3")
    for pod in (client, server):
        pod.pod.wait_for(lambda pod=pod: netd_is_another(pod, crashed[pod.ip]), 40)
        assert not has_compiled_part(netd_of(pod))


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


NAMES = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("", 53))
print("ready", flush=True)
while True:
    data, peer = sock.recvfrom(100)
    sock.sendto(peer[0].encode() + b" " + data, peer)
"""
CONNECTED = """
import socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((sys.argv[1], 53))
sock.settimeout(1)
def ask():
    for _ in range(40):
        try:
            sock.send(b"x")
            return sock.recv(100)
        except OSError:
            time.sleep(0.1)
for _ in range(2):
    print(ask().decode(), flush=True)
    sys.stdin.readline()
"""


def test_a_connected_udp_client_is_known_to_the_next_netd(neighbourhood):
    server = neighbourhood.add(container("c", "/usr/bin/python3", "-c", NAMES), runtime="host")
    server.pod.wait_for(lambda: "53" in server.state["udp"], 40)
    client = neighbourhood.add(runtime="host")
    go = client.pod.folder / "go"
    script = f"(until [ -e {go} ]; do sleep 0.1; done; echo; echo)"
    remote = client.remote
    words = f"{script} | /usr/bin/python3 -c '{CONNECTED}' {server.ip}"
    number = remote.exec("sh", "-c", words)
    client.pod.wait_for(lambda: remote.text(number).count(" x") == 1, 40)
    before = netd_of(server)
    os.kill(before, signal.SIGKILL)
    server.pod.wait_for(lambda: netd_is_another(server, before), 40)
    go.touch()
    assert remote.closed(number, 60)["code"] == 0, remote.text(number + 1)
    assert remote.text(number) == f"{client.ip} x\n" * 2


def netd_is_another(pod, before: int) -> bool:
    try:
        return netd_of(pod) != before
    except ValueError:
        return False


# Who is of the pod itself, and cannot have been expected by the netd that is asked.
SELF = """
import os, socket, sys, time
here, far, go = sys.argv[1:]
public = socket.create_server(("", 80))
private = socket.create_server(("127.0.0.1", 81))
ends = []
def connect(to, *, port=0, server=public):
    client = socket.socket()
    if port:
        client.bind(("", port))
    client.connect(to)
    ends.append((client, server))
connect(("127.0.0.1", 80))
connect((here, 80))
connect((far, 8080))
connect((here, 80), port=5000)
connect(("127.0.0.1", 81), port=5001, server=private)
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.02)
for client, server in ends:
    server.settimeout(20)
    one, peer = server.accept()
    assert peer == client.getsockname() == one.getpeername(), (peer, client.getsockname())
    print(peer[0], peer[1] if peer[1] < 9999 else "", *one.getsockname(), flush=True)
time.sleep(1000)
"""


def test_connections_of_a_pod_to_itself_are_known_to_the_next_netd(neighbourhood, stage):
    vip, go = "10.96.0.77", stage.folder / f"go-{time.monotonic_ns()}"
    ip = neighbourhood.next_ip
    argv = ["/usr/bin/python3", "-c", SELF, ip, vip, str(go)]
    pod = neighbourhood.add(container("c", *argv), runtime="host")
    neighbourhood.serve(vip, 8080, (pod, 80))
    pod.pod.wait_for(lambda: "ready" in pod.pod.lines(), 40)
    os.kill(netd_of(pod), signal.SIGKILL)
    go.touch()
    expected = [
        "ready",
        "127.0.0.1  127.0.0.1 80",
        f"{ip}  {ip} 80",
        f"{ip}  {ip} 80",
        f"{ip} 5000 {ip} 80",
        "127.0.0.1 5001 127.0.0.1 81",
    ]
    pod.pod.wait_for(
        lambda: len(pod.pod.lines()) == len(expected) or pod.pod.records_of("terminated"), 60
    )
    assert pod.pod.lines() == expected


# Is interrupted in nearly every accept, while it is made sure who comes.
RESTLESS = """
import signal, socket
signal.signal(signal.SIGALRM, lambda *args: None)
server = socket.create_server(("", 80), backlog=128)
print("ready", flush=True)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while True:
    one, _ = server.accept()
    one.sendall(b"hello")
    one.close()
"""
# Programs of the user's that are in no pod are let in, though not at once.
CROWD = """
import socket, sys
ends = [socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) for _ in range(40)]
print(*{one.recv(100).decode() for one in ends})
"""


def test_nobody_is_lost_when_signals_interrupt_accept(neighbourhood):
    script = ["/usr/bin/python3", "-c", RESTLESS]
    server = neighbourhood.add(container("c", *script), runtime="host")
    server.pod.wait_for(lambda: "80" in server.state["tcp"], 40)
    words = [
        "/usr/bin/python3",
        "-c",
        CROWD,
        server.state["address"],
        str(server.state["tcp"]["80"]),
    ]
    if IS_ROOT:
        words = ["setpriv", "--reuid", server.pod.user, "--clear-groups", *words]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=90, cwd="/")
    assert said.stdout == "hello\n"


PATIENT_SERVER = """
import os, socket, sys, time
server = socket.create_server(("", 80))
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
while True:
    one, peer = server.accept()
    print(peer[0], one.recv(100).decode(), flush=True)
"""


@pytest.fixture
def closed_server(neighbourhood, stage):
    """A server that accepts nobody yet, and what it waits for."""
    go = stage.folder / f"go-{time.monotonic_ns()}"
    script = ["/usr/bin/python3", "-c", PATIENT_SERVER, str(go)]
    server = neighbourhood.add(container("c", *script), runtime="host")
    server.pod.wait_for(lambda: "80" in server.state["tcp"], 40)
    return server, go


def come_and_go(server, words: bytes) -> Address:
    """Connect, as what address; one who has closed its end cannot be known by its socket."""
    place = server.state["address"], server.state["tcp"]["80"]
    with socket.create_connection(place, 10) as client:
        client.sendall(words)
        return Address(AF_INET, number(client.getsockname()[0]), client.getsockname()[1])


def announce(server, real: Address, pod: str) -> None:
    """As the netd of a pod on another node does."""
    to = (number(server.ip), 80, server.state["tcp"]["80"])
    with other_netd(pod, server.state["address"]) as other:
        notice = other.notice("tcp", (real, 5000), to, 1)
        other.send(notice, (server.state["address"], server.state["notice"]))


def test_who_is_announced_late_is_let_in_though_others_wait(closed_server):
    """As from a busy node."""
    server, go = closed_server

    def come_late(attempt: int) -> bool:
        """Whether both are let in; this process may itself be held up for too long."""
        first, second = (come_and_go(server, b"%d" % attempt) for _ in range(2))
        announce(server, second, "10.244.0.10")
        go.touch()
        time.sleep(0.08)  # longer than a server is kept that would not wait
        announce(server, first, "10.244.0.9")
        expected = [f"10.244.0.9 {attempt}", f"10.244.0.10 {attempt}"]
        until = time.monotonic() + 5
        while expected[1] not in server.pod.lines() and time.monotonic() < until:
            time.sleep(0.02)
        return server.pod.lines()[-2:] == expected

    assert any(come_late(attempt) for attempt in range(8))


def test_who_is_behind_strangers_is_let_in_and_they_are_not(closed_server):
    server, go = closed_server
    for _ in range(3):
        come_and_go(server, b"stranger")
    announce(server, come_and_go(server, b"hello"), "10.244.0.9")
    go.touch()
    server.pod.wait_for(lambda: server.pod.lines(), 40)
    assert server.pod.lines() == ["10.244.0.9 hello"]


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
            one.settimeout(40)
            with contextlib.suppress(ConnectionError):
                one.sendall(b"x")
                assert one.recv(100) == b""


KNOCK_AT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as one:
    one.settimeout(10)
    try:
        one.sendall(b"x")
        print(one.recv(99).decode() or "closed")
    except OSError as error:
        print("closed")
"""


@pytest.mark.parametrize("policy", [None, []], ids=["open", "closed"])
def test_a_pod_that_goes_to_a_real_port_is_held_by_ingress_policies(neighbourhood, server, policy):
    """To the server it is a program of the user's own; so is one that runs outside of all pods."""
    neighbourhood.restrict(server, ingress=policy, egress=None)
    client = neighbourhood.add(runtime="host")
    place = f"{server.state['address']} {server.state['tcp']['80']}"
    inside = client.sh(f"/usr/bin/python3 -c '{KNOCK_AT}' {place}").strip()
    words = ["/usr/bin/python3", "-c", KNOCK_AT, *place.split()]
    if IS_ROOT:
        words = ["setpriv", "--reuid", server.pod.user, "--clear-groups", *words]
    options = {"capture_output": True, "text": True, "check": True, "timeout": 60, "cwd": "/"}
    outside = subprocess.run(words, **options).stdout.strip()
    assert (inside == "closed", outside == "closed") == (policy is not None,) * 2


# Hears datagrams without asking from whom, by each call there is; says what, and goes on.
DEAF = """
import os, socket, sys
calls = {
    "recv": lambda sock: sock.recv(99),
    "recv into": lambda sock: sock.recv(99, socket.MSG_PEEK) and sock.recv(99),
    "read": lambda sock: os.read(sock.fileno(), 99),
    "readv": lambda sock: os.readv(sock.fileno(), [room := bytearray(99)]) and room.strip(bytes(1)),
}
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("", 53))
print("ready", flush=True)
while True:
    print(calls[sys.argv[1]](sock).decode(), flush=True)
"""
SPEAK = "import socket; socket.socket(2, 2).sendto(b'pod', ('{}', 53))"


@pytest.mark.skipif(not IS_ROOT, reason="needs a second user: root")
@pytest.mark.parametrize("call", ["recv", "recv into", "read", "readv"])
def test_another_users_datagrams_are_heard_by_no_call(neighbourhood, call):
    script = ["/usr/bin/python3", "-c", DEAF, call]
    server = neighbourhood.add(container("c", *script), runtime="host")
    server.pod.wait_for(lambda: "53" in server.state["udp"], 40)
    client = neighbourhood.add(runtime="host")
    place = server.state["address"], server.state["udp"]["53"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for _ in range(3):
            stranger.sendto(b"stranger", place)
            client.sh(f'/usr/bin/python3 -c "{SPEAK.format(server.ip)}"')
            stranger.sendto(b"stranger", place)
    server.pod.wait_for(lambda: len(server.pod.lines()) >= 4, 40)
    assert server.pod.lines() == ["ready", "pod", "pod", "pod"]


@pytest.mark.skipif(not IS_ROOT, reason="needs a second user: root")
def test_another_user_is_let_in_where_configuration_says_so(neighbourhood):
    server = neighbourhood.add(
        container("c", "/usr/bin/python3", "-c", ECHO), runtime="host", allow_outside=True
    )
    server.pod.wait_for(lambda: "80" in server.state["tcp"] and "ready" in server.pod.lines(), 40)
    with socket.create_connection((server.state["address"], server.state["tcp"]["80"])) as one:
        one.settimeout(40)
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


ABSTRACT = """
import os, socket, sys
mine = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
mine.bind("\\0" + sys.argv[2])
if sys.argv[1] == "wait":
    print("bound", flush=True)
    while True:
        print(mine.recv(99), flush=True)
other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
other.sendto(b"sendto", "\\0" + sys.argv[2])
other.sendmsg([b"sendmsg"], [], 0, "\\0" + sys.argv[2])
other.connect("\\0" + sys.argv[2])
other.send(b"connect")
print([mine.recv(99).decode() for _ in range(3)])
"""


@pytest.mark.parametrize("name", ["mailbox", "cafe1"])  # the second as the kernel gives them
def test_two_pods_of_a_node_have_the_same_abstract_name_each_for_itself(neighbourhood, name):
    command = ("/usr/bin/python3", "-c", ABSTRACT)
    one = neighbourhood.add(container("c", *command, "wait", name), runtime="host")
    one.pod.wait_for_line("bound")
    two = neighbourhood.add(container("c", *command, "write", name), runtime="host")
    two.pod.wait_for_line("['sendto', 'sendmsg', 'connect']")
    assert [line for line in one.pod.lines() if line != "bound"] == []


BAD_RIGHTS = """
import errno, socket, struct
server, client = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in "sc")
server.bind("\\0mailbox")
whole = struct.pack("<3i", 0, 0, 777)
for rights, code in [(whole, "EBADF"), (whole[:5], "EINVAL")] * 50:
    try:
        client.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], 0, "\\0mailbox")
    except OSError as error:
        assert errno.errorcode[error.errno] == code, (error, code)
    else:
        raise AssertionError(code)
"""


def test_descriptors_that_are_none_leave_nothing_behind(neighbourhood):
    client = neighbourhood.add(runtime="host")
    client.sh(f"/usr/bin/python3 -c '{BAD_RIGHTS}'")
    folder = f"/proc/{netd_of(client)}/fd"
    before = len(os.listdir(folder))
    client.sh(f"/usr/bin/python3 -c '{BAD_RIGHTS}'")
    assert len(os.listdir(folder)) < before + 50  # not the two good ones of each time


@pytest.mark.parametrize("protocol", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_a_network_policy_holds_for_addresses_of_the_other_family(neighbourhood, protocol):
    client = neighbourhood.add(runtime="host")
    neighbourhood.restrict(client, ingress=None, egress=[])
    script = f"import socket; socket.socket(10, socket.{protocol}).connect(('2001:db8::1', 80))"
    code, _, errors = client.try_sh(f'/usr/bin/python3 -c "{script}"')
    assert code == 1
    assert "No route to host" in errors


KNOCK = """
import socket, sys, time
while True:
    said = []
    for ip in sys.argv[1:]:
        try:
            with socket.create_connection((ip, 80), 5) as one:
                one.sendall(b"x")
                said.append(one.recv(100).decode()[-1:] or "closed")
        except OSError as error:
            said.append("closed")
    print(*said, flush=True)
    time.sleep(0.2)
"""


def real_port(pod) -> int | None:
    """Where the pod listens, as the kernel says: it has nobody to tell."""
    below = {pod.process.pid}
    while not below.issuperset(more := {child for pid in below for child in children(pid)}):
        below |= more
    for line in subprocess.check_output(["ss", "-Hltnp"], text=True).splitlines():
        if any(f"pid={pid}," in line for pid in below):
            return int(line.split()[3].rpartition(":")[2])
    return None


@pytest.mark.parametrize("outside", [False, True])
def test_nobody_is_taken_for_the_pod_that_had_its_port_before(neighbourhood, server, outside):
    """While the control plane is away nobody can tell a client that the pod it knows is gone."""
    nowhere = {**neighbourhood.kubelet.plan, "endpointFile": "/no/such/file"}
    command = container("c", "/usr/bin/python3", "-c", ECHO)
    alone = neighbourhood.add(
        command, runtime="host", plan={"kubelet": nowhere}, allow_outside=outside
    )
    alone.pod.wait_for_line("ready")
    gone = neighbourhood.add(runtime="host")
    gone.sh("true")
    port = alone.pod.wait_for(lambda: real_port(alone.pod))
    gone.state = {**server.state, "tcp": {"80": port}, "notice": 9}  # where nobody hears
    knock = ("/usr/bin/python3", "-c", KNOCK, server.ip, gone.ip)
    client = neighbourhood.add(container("c", *knock), runtime="host")
    client.pod.wait_for(lambda: "x closed" in client.pod.lines(), 40)
    assert "x x" not in client.pod.lines()
