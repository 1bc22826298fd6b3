"""Ranks that ask for names of the cluster: filtered by either starter, answered on their node."""

from __future__ import annotations

import itertools
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from orlop.agent.linux.process import children
from orlop.agent.ranks import networking as module
from orlop.agent.ranks.networking import Reach

from .conftest import TOLD, serve

VIP = "10.96.0.3"
NETWORK = {
    "podIP": "10.244.3.7",
    "podCIDR": "10.244.0.0/16",
    "serviceCIDR": "10.96.0.0/16",
    "key": "00" * 32,
    "dns": {},
    "onNode": True,
    "policy": None,
}
# Connects as often as lines come in, and says what it hears.
CLIENT = """
import socket, sys
for line in sys.stdin:
    host, port = line.split()
    with socket.create_connection((host, int(port)), timeout=60) as one:
        print(one.recv(99).decode(), one.getpeername()[0], flush=True)
"""


@pytest.fixture
def server():
    """Greets everybody, at a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_greet, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _greet(listener):
    try:
        while True:
            line, _ = listener.accept()
            line.sendall(b"hello")
            line.close()
    except OSError:
        pass


@pytest.fixture
def asking(opened, stage, kubelet, tmp_path, monkeypatch):
    """A door for ranks that ask, on a node whose line home leads to the kubelet."""
    monkeypatch.setattr(sys, "argv", [str(stage.agent)])
    (tmp_path / "token").write_text("t")
    command = [sys.executable, "-c", CLIENT]
    return opened(command, {"network": NETWORK}, {"kubelet": kubelet.plan})


def answer(kubelet, port):
    """Be the kubelet for whoever dials next; the request it came by, later."""
    found = []

    def be():
        try:
            agent = kubelet.agent(60)
        except queue.Empty:
            return  # nobody had to dial
        found.append(agent.request)
        while f"svc/{VIP}" not in agent.hear("net-ask", 60)["keys"]:
            pass
        ends = [["127.0.0.1", port, "n1"]]
        ports = [{"protocol": "tcp", "port": 80, "name": "", "endpoints": ends}]
        value = {"ports": ports, "affinity": 0, "internalPolicy": "Cluster"}
        agent.tell(type="net-tell", key="policy", value=None)
        agent.tell(type="net-tell", key=f"svc/{VIP}", value=value)

    threading.Thread(target=be, daemon=True).start()
    return found


def ask(door, rank, host, port):
    """What a rank hears there, while the door is attended to."""
    heard = []
    rank.stdin.write(f"{host} {port}\n".encode())
    rank.stdin.flush()
    reader = threading.Thread(target=lambda: heard.append(rank.stdout.readline()), daemon=True)
    reader.start()
    serve(door, lambda: heard)
    return heard[0].decode().split()


def test_a_rank_reaches_a_service_that_the_kubelet_knows(asking, start, kubelet, server):
    dialled = answer(kubelet, server)
    with start(0) as rank:
        assert ask(asking, rank, VIP, 80) == ["hello", VIP]
        rank.stdin.close()
    assert dialled[0].startswith("GET /orlop/v1/agents/d/p/u/lines/n1 ")


def test_ranks_that_speak_with_each_other_alone_need_no_kubelet(asking, start, kubelet, server):
    kubelet.stop()
    with start(0) as rank:
        assert ask(asking, rank, "127.0.0.1", server) == ["hello", "127.0.0.1"]
        assert ask(asking, rank, "localhost", server) == ["hello", "127.0.0.1"]
        rank.stdin.close()


@pytest.mark.parametrize("victim", ["attendant", "netd"])
def test_whoever_answers_may_be_killed(asking, start, kubelet, server, victim):
    answer(kubelet, server)
    with start(0) as rank:
        assert ask(asking, rank, VIP, 80) == ["hello", VIP]
        attendant = asking._reach._attendant
        [netd] = children(attendant)
        if victim == "attendant":
            answer(kubelet, server)
            # Together: a netd alone may still connect the rank, and take the name of that with it.
            os.kill(attendant, signal.SIGSTOP)
            os.kill(netd, signal.SIGKILL)
            os.kill(attendant, signal.SIGKILL)
        else:
            os.kill(netd, signal.SIGKILL)
        assert ask(asking, rank, VIP, 80) == ["hello", VIP]
        assert ask(asking, rank, "127.0.0.1", server) == ["hello", "127.0.0.1"]
        rank.stdin.close()


class Clock:
    """As much of the module as is used."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


def no_processes(*_):
    raise BlockingIOError(11, "Resource temporarily unavailable")


def ends_at_once(body, streams):
    return os.posix_spawn("/bin/true", ["true"], {})


@pytest.mark.parametrize("spawn", [no_processes, ends_at_once])
def test_an_attendant_that_cannot_start_is_tried_less_and_less_often(tmp_path, monkeypatch, spawn):
    tries, clock = [], Clock()

    def counted(*words):
        tries.append(clock.now)
        return spawn(*words)

    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "spawn", counted)
    monkeypatch.setattr(module, "ask_again", lambda *_: [])
    reach = Reach(str(tmp_path))
    listener, end = os.pipe()  # a pipe stands for it
    reach.take(17, listener)
    while len(tries) < 12:
        if reach.fileno() >= 0:
            reach.on_end()
        clock.now += (reach.timeout() or 0) / 1000
        reach.tick()
    pauses = [after - before for before, after in itertools.pairwise(tries)]
    assert pauses[:4] == pytest.approx([0, 0.2, 0.4, 0.8], abs=0.01)
    assert [max(pauses), pauses[-1]] == pytest.approx([module.LONGEST_PAUSE] * 2, abs=0.01)
    reach.close()
    os.close(end)


def test_listeners_of_ranks_that_are_gone_are_let_go_of(asking, start, server):
    for number in (0, 1):
        with start(number) as rank:
            assert ask(asking, rank, "127.0.0.1", server)
            rank.stdin.close()
    asking._reach._let_go_of_the_dead()
    assert asking._reach._listeners == []


def test_a_command_beside_a_rank_reaches_what_that_does(asking, start, kubelet, server):
    answer(kubelet, server)
    with start(0) as rank:
        serve(asking, lambda: asking.runs(0))
        with start(1, "0", sys.executable, "-c", CLIENT) as beside:
            assert ask(asking, beside, VIP, 80) == ["hello", VIP]
            beside.stdin.close()
        rank.stdin.close()


def test_a_command_of_the_agents_reaches_what_the_ranks_of_its_node_do(
    asking, start, kubelet, server, tmp_path
):
    """As `kubectl exec` without a rank, which comes by no starter."""
    answer(kubelet, server)
    argv = [sys.executable, "-c", CLIENT]
    imported = "import os; from orlop.agent.ranks.starter import asking"
    body = f"lambda: os.execv({argv[0]!r}, {argv!r})"
    script = f"{imported}; asking({body}, {str(tmp_path / 'm')!r})()"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(0) as rank:
        serve(asking, lambda: asking.runs(0))
        with subprocess.Popen([sys.executable, "-c", script], env=TOLD, **pipes) as beside:
            assert ask(asking, beside, VIP, 80) == ["hello", VIP]
            beside.stdin.close()
        rank.stdin.close()


def test_the_attendant_ends_with_its_door(asking, start, server):
    with start(0) as rank:
        assert ask(asking, rank, "127.0.0.1", server)
        rank.stdin.close()
    attendant = asking._reach._attendant
    asking._reach.close()
    until = time.monotonic() + 60
    while not os.waitpid(attendant, os.WNOHANG)[0]:
        assert time.monotonic() < until
        time.sleep(0.01)
