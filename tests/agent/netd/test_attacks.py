"""Another user of this very node at the ports of pods: takes them, answers there, listens there.

The pods run as an ordinary user and the attacker as this process. SO_REUSEADDR asks for no user, so
it is on wherever it helps an attacker.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..pods import IS_ROOT, container
from .test_harm import netd_is_another, netd_of

pytestmark = pytest.mark.skipif(not IS_ROOT, reason="needs a second user: root")
PYTHON = ("/usr/bin/python3", "-c")
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


def stranger_at(place: tuple[str, int], kind: str = "tcp") -> socket.socket:
    """Who has taken a port, if that can be had."""
    made = socket.socket(socket.AF_INET, KINDS[kind])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(place)
        if kind == "tcp":
            made.listen(64)
    except OSError:
        made.close()
        raise
    return made


def assert_is_kept(place: tuple[str, int], kind: str = "tcp") -> None:
    for ip in (place[0], "0.0.0.0"):
        with pytest.raises(OSError, match="in use") as refused:
            stranger_at((ip, place[1]), kind)
        assert refused.value.errno == errno.EADDRINUSE


@contextlib.contextmanager
def taken(place: tuple[str, int], kind: str = "tcp") -> Iterator[socket.socket]:
    """A port of a pod that is gone, in a stranger's hands as soon as that is possible."""
    until = time.monotonic() + 20
    while True:
        try:
            found = stranger_at(place, kind)
            break
        except OSError:
            assert time.monotonic() < until
    with found:
        found.settimeout(0.2)
        yield found


def kill(pod) -> None:
    """End a pod as its node would that goes down: nobody says goodbye."""
    words = ["pgrep", "-f", f"agent.pyz {pod.pod.folder}$"]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    for pid in sorted(map(int, found), reverse=True):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def lines(pod, count: int) -> list[str]:
    pod.pod.wait_for(lambda: len(pod.pod.lines()) >= count, 40)
    return pod.pod.lines()


# Uses its ports, has left them, has them again, uses them again: each until it is told to go on.
BY_STEPS = """
import os, socket, sys, time
def step(name):
    print(name, flush=True)
    while not os.path.exists(sys.argv[1] + name):
        time.sleep(0.02)
def bound(kind, place):
    sock = socket.socket(socket.AF_INET, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(place)
    return sock
def have():
    socks = [bound(socket.SOCK_STREAM, ("127.0.0.1", 8080)), bound(socket.SOCK_STREAM, ("", 80))]
    return socks, [bound(socket.SOCK_DGRAM, ("", 53)) for _ in range(2)]
def use(socks):
    for sock in socks:
        sock.listen()
tcp, udp = have()
use(tcp)
step("uses")
for sock in tcp + udp:
    sock.close()
step("left")
tcp, udp = have()
step("has")
use(tcp)
step("again")
"""


@pytest.mark.parametrize("is_netd_killed", [False, True], ids=["", "netd killed"])
def test_nobody_else_has_a_port_of_the_pod_while_that_does_not_use_it(
    neighbourhood, stage, is_netd_killed
):
    """The program's own SO_REUSEADDR, and netd's, are for sockets of the pod."""
    go = f"{stage.folder}/go-{time.monotonic_ns()}-"
    server = neighbourhood.add(container("c", *PYTHON, BY_STEPS, go), runtime="host")
    server.pod.wait_for(lambda: server.state["tcp"] and server.state["udp"], 40)
    host, here = server.state["address"], "127." + server.ip.partition(".")[2]
    for count, name in enumerate(("uses", "left", "has", "again"), 1):
        assert lines(server, count)[-1] == name
        if is_netd_killed:
            before = netd_of(server)
            os.kill(before, signal.SIGKILL)
            server.pod.wait_for(lambda before=before: netd_is_another(server, before), 40)
        assert_is_kept((host, server.state["tcp"]["80"]))
        assert_is_kept((host, server.state["udp"]["53"]), "udp")
        assert_is_kept((here, 8080))
        Path(go + name).touch()


# Comes and goes at the same ports, with SO_REUSEADDR as servers have it.
RESTARTS = """
import os, socket, sys, time
def have():
    socks = []
    for kind, place in ((1, ("", 80)), (1, ("127.0.0.1", 8080)), (2, ("", 53))):
        sock = socket.socket(socket.AF_INET, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
        if kind == 1:
            sock.listen()
        socks.append(sock)
    for sock in socks:
        sock.close()
have()
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
for _ in range(300):
    have()
print("done", flush=True)
"""
# Another user, who tries for ports without a pause, and tells which it has had.
SPINS = """
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
places = [(int(kind), (ip, int(port))) for kind, ip, port in (w.split(",") for w in sys.argv[1:])]
print("ready", flush=True)
while True:
    for kind, place in places:
        with socket.socket(socket.AF_INET, kind) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(place)
                if kind == 1:
                    sock.listen()
            except OSError:
                continue
            print("had", kind, *place, flush=True)
"""


def test_nobody_else_has_a_port_in_the_moment_of_a_restart(neighbourhood, stage):
    go = Path(f"{stage.folder}/go-{time.monotonic_ns()}")
    server = neighbourhood.add(container("c", *PYTHON, RESTARTS, str(go)), runtime="host")
    assert lines(server, 1) == ["ready"]
    host, here = server.state["address"], "127." + server.ip.partition(".")[2]
    tcp, udp = server.state["tcp"]["80"], server.state["udp"]["53"]
    places = (f"1,{host},{tcp}", f"1,0.0.0.0,{tcp}", f"1,{here},8080", f"2,{host},{udp}")
    command = [*PYTHON, SPINS, *places]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "ready\n"
        go.touch()
        assert lines(server, 2)[1:] == ["done"]
        stranger.kill()
        assert stranger.stdout.read() == ""


UDP_ECHO = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("", 53))
print("ready", flush=True)
while True:
    data, peer = sock.recvfrom(99)
    sock.sendto(b"server", peer)
"""
# Asks once, says from which port, and tells whatever it hears for some time.
HEARS = """
import socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
sock.sendto(b"hello", (sys.argv[1], 53))
print(sock.recvfrom(99)[0].decode(), sock.getsockname()[1], flush=True)
sock.settimeout(6)
try:
    print(sock.recvfrom(99)[0].decode(), flush=True)
except TimeoutError:
    print("nothing", flush=True)
"""


@pytest.fixture
def udp_server(neighbourhood):
    found = neighbourhood.add(container("c", *PYTHON, UDP_ECHO), runtime="host")
    found.pod.wait_for(lambda: "53" in found.state["udp"], 40)
    return found


def test_nobody_else_has_the_port_of_a_pods_udp_socket(neighbourhood, udp_server):
    """Nor when the kernel has chosen it."""
    words = container("c", *PYTHON, HEARS, udp_server.ip)
    client = neighbourhood.add(words, runtime="host")
    port = int(lines(client, 1)[0].split()[1])
    assert_is_kept((udp_server.state["address"], port), "udp")


def test_who_has_the_udp_port_of_a_dead_pod_does_not_answer_for_it(neighbourhood, udp_server):
    place = udp_server.state["address"], udp_server.state["udp"]["53"]
    client = neighbourhood.add(container("c", *PYTHON, HEARS, udp_server.ip), runtime="host")
    said, port = lines(client, 1)[0].split()
    assert said == "server"
    kill(udp_server)
    with taken(place, "udp") as stranger:
        until = time.monotonic() + 8
        while len(client.pod.lines()) < 2 and time.monotonic() < until:
            stranger.sendto(b"stranger", (place[0], int(port)))
            time.sleep(0.05)
    assert lines(client, 2)[1] == "nothing"


# Connected once, it sends for ever; says whoever answers, each when that changes.
CONNECTED = """
import socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((sys.argv[1], 53))
sock.settimeout(0.1)
last = None
while True:
    try:
        sock.send(b"secret")
        said = sock.recv(99).decode()
    except OSError as error:
        said = last if isinstance(error, TimeoutError) else "refused"
    if said != last:
        print(said, flush=True)
    last = said
    time.sleep(0.02)
"""


def test_a_connected_udp_socket_is_cut_off_from_a_dead_pods_port(neighbourhood, udp_server):
    """And leads to another endpoint of the service when there is one."""
    vip = "10.96.0.77"
    neighbourhood.serve(vip, 53, (udp_server, 53), protocol="udp")
    client = neighbourhood.add(container("c", *PYTHON, CONNECTED, vip), runtime="host")
    place = udp_server.state["address"], udp_server.state["udp"]["53"]
    assert lines(client, 1) == ["server"]
    kill(udp_server)
    with taken(place, "udp") as stranger:
        time.sleep(1.5)  # it was looked at once meanwhile
        stranger.setblocking(False)
        with contextlib.suppress(OSError):
            while True:
                stranger.sendto(b"stranger", stranger.recvfrom(99)[1])
        stranger.settimeout(2)
        with pytest.raises(TimeoutError):
            stranger.recv(99)
        assert client.pod.lines()[-1] == "refused"
        other = neighbourhood.add(container("c", *PYTHON, UDP_ECHO), runtime="host")
        other.pod.wait_for(lambda: "53" in other.state["udp"], 40)
        neighbourhood.serve(vip, 53, (other, 53), protocol="udp")
        client.pod.wait_for(lambda: client.pod.lines()[-1] == "server", 40)


# Holds up who comes: its queue is full, and nobody is accepted.
FULL = """
import socket, time
server = socket.socket()
server.bind(("", 80))
server.listen(0)
print("ready", flush=True)
time.sleep(600)
"""
# Connects while signals come all the time, by which the kernel asks again for the same call.
INTERRUPTED = """
import signal, socket, sys
held = []
for _ in range(3):
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex((sys.argv[1], 80))
    held.append(sock)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
sock = socket.socket()
print("connects", flush=True)
try:
    sock.connect((sys.argv[1], 80))
    sock.sendall(b"secret")
    print("sent", flush=True)
except OSError as error:
    print("refused", error.errno, flush=True)
"""


def test_a_connect_that_is_interrupted_ends_at_no_stranger(neighbourhood):
    server = neighbourhood.add(container("c", *PYTHON, FULL), runtime="host")
    server.pod.wait_for(lambda: "80" in server.state["tcp"], 40)
    client = neighbourhood.add(container("c", *PYTHON, INTERRUPTED, server.ip), runtime="host")
    assert lines(client, 1) == ["connects"]
    time.sleep(0.3)
    kill(server)
    with taken((server.state["address"], server.state["tcp"]["80"])) as stranger:
        until = time.monotonic() + 15
        heard = b""
        while len(client.pod.lines()) < 2 and time.monotonic() < until:
            with contextlib.suppress(OSError), stranger.accept()[0] as one:
                one.settimeout(1)
                heard += one.recv(99)
    assert lines(client, 2)[1].startswith("refused")
    assert heard == b""


TCP_ECHO = """
import socket
server = socket.create_server(("", 80))
print("ready", flush=True)
while True:
    one, _ = server.accept()
    one.sendall(b"got " + one.recv(99))
    one.close()
"""
FAST = """
import socket, sys
TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_NO_COOKIE = 30, 34
sock = socket.socket()
for option in (TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_NO_COOKIE):
    sock.setsockopt(socket.IPPROTO_TCP, option, 1)
sock.settimeout(20 if sys.argv[2] == "patient" else None)
try:
    sock.connect((sys.argv[1], 80))
    sock.sendall(b"secret")
    print(sock.recv(99).decode())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("how", ["patient", "blocking"])
def test_nothing_is_sent_with_the_first_packet(neighbourhood, how):
    """By TCP_FASTOPEN_CONNECT data would be on its way before anything is proven."""
    server = neighbourhood.add(container("c", *PYTHON, TCP_ECHO), runtime="host")
    server.pod.wait_for(lambda: "80" in server.state["tcp"], 40)
    client = neighbourhood.add(runtime="host")
    ask = f"/usr/bin/python3 -c '{FAST}' {server.ip} {how}"
    assert client.sh(ask) == "got secret\n"
    place = server.state["address"], server.state["tcp"]["80"]
    kill(server)
    with taken(place) as stranger:
        assert client.sh(ask) == "ConnectionRefusedError\n"
        with contextlib.suppress(OSError), stranger.accept()[0] as one:
            one.settimeout(1)
            assert one.recv(99) == b""


# Has a port of the kernel's choice, tells it, and leaves it when it is told to.
LEAVES = """
import os, socket, sys, time
sock = socket.socket()
sock.bind(("", 0))
sock.listen()
print(sock.getsockname()[1], flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
sock.close()
print("left", flush=True)
time.sleep(1000)
"""


def test_a_forwarded_port_that_a_program_has_left_leads_to_no_stranger(neighbourhood, stage):
    """A port that was the kernel's choice is nobody's once its program has left it."""
    go = Path(f"{stage.folder}/go-{time.monotonic_ns()}")
    server = neighbourhood.add(container("c", *PYTHON, LEAVES, str(go)), runtime="host")
    port = int(lines(server, 1)[0])
    server.pod.wait_for(lambda: str(port) in server.state["tcp"], 40)
    go.touch()
    assert lines(server, 2)[1] == "left"
    place = server.state["address"], server.state["tcp"][str(port)]
    with stranger_at(place) as stranger:
        stranger.settimeout(2)
        closed = server.remote.closed(server.remote.open("forward", port=port))
        assert closed["error"] == "connection refused"
        with stranger.accept()[0] as one:
            one.settimeout(2)
            assert one.recv(99) == b""


def test_a_forwarded_port_leads_to_no_stranger(neighbourhood):
    """Anybody may be at the pod's loopback address, where nobody of the pod is."""
    pod = neighbourhood.add(runtime="host")
    pod.sh("true")
    with stranger_at(("127." + pod.ip.partition(".")[2], 8080)) as stranger:
        stranger.settimeout(0.2)
        closed = pod.remote.closed(pod.remote.open("forward", port=8080))
        assert closed["error"] == "connection refused"
        with pytest.raises(TimeoutError):
            stranger.accept()


# Serves one client at a port and is gone, again and again.
SERVES_ONE = """
import socket, sys
for port in range(7000, 7060):
    with socket.create_server(("", port)) as listener:
        print(port, flush=True)
        connection, _ = listener.accept()
        listener.close()
        connection.sendall(b"hello")
        connection.close()
"""
HEARS_EACH = """
import socket, sys, time
for port in range(7000, 7060):
    until = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection((sys.argv[1], port), 10) as one:
                heard = one.recv(99)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < until, port
            time.sleep(0.005)
    print(port, heard.decode(), flush=True)
"""


def test_a_server_that_is_gone_as_soon_as_it_has_answered_is_heard(neighbourhood):
    """It has left no owner at its end when netd looks whose that is."""
    server = neighbourhood.add(container("c", *PYTHON, SERVES_ONE), runtime="host")
    client = neighbourhood.add(container("c", *PYTHON, HEARS_EACH, server.ip), runtime="host")
    assert lines(client, 60) == [f"{port} hello" for port in range(7000, 7060)]
