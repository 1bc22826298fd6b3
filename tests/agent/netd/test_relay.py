"""What the network process and the kubelet say to each other passes through the agent unchanged."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from orlop.agent import plan
from orlop.agent.connection.frames import Broken
from orlop.agent.connection.kubelet_connection import Identity, Uplink
from orlop.agent.container.stats import Stats
from orlop.agent.exec.processes import Execs
from orlop.agent.exec.sessions import Sessions
from orlop.agent.netd.relay import MAX_BACKLOG, Line, Relay
from orlop.agent.pod.journal import Journal
from orlop.agent.pod.live_updates import Updates

from ..kubelet_double import KubeletDouble

PLAN = {
    "version": 1,
    "pod": {"namespace": "default", "name": "p", "uid": "u"},
    "containers": [{"name": "c", "argv": ["true"]}],
}


@pytest.fixture
def kubelet():
    folder = Path(tempfile.mkdtemp(prefix="orlop-kubelet-", dir="/tmp"))
    double = KubeletDouble(folder)
    yield double
    double.stop()
    shutil.rmtree(folder)


@pytest.fixture
def uplink(kubelet, tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps({**PLAN, "kubelet": kubelet.plan}))
    (tmp_path / "token").write_text("s3cret")
    nobody = SimpleNamespace()
    made = Uplink(
        plan.read(str(tmp_path / "plan.json")),
        Identity("17", 0, "n1"),
        str(tmp_path),
        Journal(str(tmp_path / "journal")),
        lambda wish: None,
        lambda name, restart: False,
        Sessions(nobody, Execs(lambda name: None, lambda: 0.0)),
        Stats(list, lambda: 0.0),
        Updates(SimpleNamespace(revision=0), nobody, lambda what: None),
    )
    made.start()
    yield made
    made.finish(0.0)


@pytest.fixture
def pair(uplink):
    """Makes network processes: their end of the line."""
    made = []

    def make():
        ours, its = socket.socketpair()
        relay, line = Relay(ours), Line(its)
        made.extend((line, relay))
        its.settimeout(10)
        uplink.carry(relay)
        return line

    yield make
    for end in made:
        end.close()


def heard(line):
    return [json.loads(payload) for payload in line.receive()]


def welcomed(kubelet):
    agent = kubelet.agent()
    agent.hear("hello")
    agent.tell(type="welcome", acked=0)
    return agent


def test_messages_pass_both_ways_once_the_kubelet_has_welcomed_us(pair, kubelet):
    line = pair()
    agent = welcomed(kubelet)
    assert heard(line) == [{"type": "net-connected"}]
    line.send({"type": "net-ask", "keys": ["pod/10.244.0.7"]})
    assert agent.hear("net-ask") == {"type": "net-ask", "keys": ["pod/10.244.0.7"]}
    large = {"address": "x" * 300_000}
    agent.tell(type="net-tell", key="pod/10.244.0.7", value=large)
    assert heard(line) == [{"type": "net-tell", "key": "pod/10.244.0.7", "value": large}]


def test_a_network_process_hears_when_the_line_breaks_and_is_back(pair, kubelet):
    line = pair()
    agent = welcomed(kubelet)
    assert heard(line) == [{"type": "net-connected"}]
    agent.close()
    assert heard(line) == [{"type": "net-disconnected"}]
    welcomed(kubelet)
    assert heard(line) == [{"type": "net-connected"}]


def test_a_new_network_process_takes_the_place_of_one_that_has_ended(pair, kubelet):
    agent = welcomed(kubelet)
    first = pair()
    assert heard(first) == [{"type": "net-connected"}]
    first._sock.close()
    second = pair()
    assert heard(second) == [{"type": "net-connected"}]
    second.send({"type": "net-listen", "protocol": "tcp", "port": 80, "real": 4, "address": "a"})
    assert agent.hear("net-listen")["port"] == 80


def test_a_network_process_that_does_not_read_is_given_up():
    ours, its = socket.socketpair()
    relay = Relay(ours)
    with pytest.raises(Broken, match="does not read"):
        relay.send(b"x" * MAX_BACKLOG)
    its.close()
    relay.close()


def test_a_new_network_process_is_told_what_the_last_one_knew(pair, kubelet):
    first, agent = pair(), welcomed(kubelet)
    assert heard(first) == [{"type": "net-connected"}]
    for key in ("pod/10.244.0.7", "pod/10.244.0.8"):
        agent.tell(type="net-tell", key=key, value={"address": key})
        heard(first)
    first.send({"type": "net-forget", "keys": ["pod/10.244.0.8"]})
    agent.hear("net-forget")
    kubelet.stop()
    agent.close()
    assert heard(first) == [{"type": "net-disconnected"}]
    second = pair()
    assert [message["key"] for message in heard(second)] == ["pod/10.244.0.7"]
