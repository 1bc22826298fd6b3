"""Whatever the kubelet says, the agent keeps its pod and its line."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from orlop.agent.connection.frames import frame

from .kubelet_double import KubeletDouble
from .pods import container

WAITING = "echo ready; trap 'exit 0' TERM; while :; do sleep 0.05; done"
KINDS = [
    "welcome", "ack", "ping", "logs", "stats", "volume-files", "environment", "plan-revision",
    "close", "exec", "attach", "forward", "add", "resize", "credit", "eof", "net-tell", "", "odd",
]  # fmt: skip
KEYS = [
    "acked", "seq", "stream", "container", "restart", "offset", "follow", "id", "volume", "files",
    "argv", "env", "revision", "port", "width", "height", "bytes", "tty", "stdin", "key", "value",
]  # fmt: skip


@pytest.fixture
def kubelet():
    folder = Path(tempfile.mkdtemp(prefix="orlop-kubelet-", dir="/tmp"))
    double = KubeletDouble(folder)
    yield double
    double.stop()
    shutil.rmtree(folder)


def anything(chance: random.Random, depth: int = 2):
    kind = chance.randrange(11 if depth else 8)
    if kind >= 9:
        return {chance.choice(KEYS): anything(chance, depth - 1) for _ in range(2)}
    if kind >= 8:
        return [anything(chance, depth - 1) for _ in range(2)]
    return [
        None, True, chance.choice([0, -1, 1, 2**33, 2**70, 1e300]), float("nan"), "",
        "main", chance.choice(["x", "\0", "../..", "a" * 999]), 7,
    ][kind]  # fmt: skip


def a_message(chance: random.Random) -> bytes:
    message = {"type": chance.choice(KINDS), "container": "main", "stream": chance.randint(1, 9)}
    message["argv"] = ["true"]
    for key in chance.sample(KEYS, chance.randint(0, 8)):
        message[key] = anything(chance)
    data = json.dumps(message).encode()
    if chance.random() < 0.1:
        at = chance.randrange(len(data))
        data = data[:at] + chance.randbytes(3) + data[at + 1 :]
    return data


def test_no_message_of_a_kubelet_ends_the_pod_or_the_line(make_pod, kubelet):
    chance = random.Random(5)
    pod = make_pod(container("main", script=WAITING), plan={"kubelet": kubelet.plan})
    (pod.folder / "token").write_text("t")
    pod.start()
    for _ in range(15):
        agent = kubelet.agent()
        agent.hear("hello")
        for _ in range(12):
            try:
                agent._sock.sendall(frame(0, a_message(chance)))
                agent._sock.sendall(frame(chance.choice([1, 2**31]), b"?"))
            except OSError:
                break  # it has hung up: it dials again
        agent.close()
    agent = kubelet.agent()
    agent.hear("hello")
    agent.tell(type="welcome", acked=0)
    agent.tell(type="ping")
    agent.hear("pong")
    for grace in (float("nan"), "soon", -1):
        agent.tell(type="terminate", grace=grace)
        agent = kubelet.agent()
    agent.hear("hello")
    agent.tell(type="welcome", acked=0)
    agent.tell(type="terminate", grace=5)
    last = agent.records_until("finished")[-1]
    agent.tell(type="ack", seq=last["seq"])
    pod.wait()
    assert pod.status("main")["exitCode"] == 0
