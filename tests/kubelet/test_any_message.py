"""Whatever an agent says, the kubelet goes on: for that pod and for all others."""

from __future__ import annotations

import asyncio
import json
import random
import struct

import pytest

from orlop.engine import JobState
from orlop.kubelet.agents.connection import AgentConnection

from .objects import exited, finished, running, started

KINDS = [
    "hello", "record", "stats", "opened", "closed", "eof", "credit", "net-ask", "net-forget",
    "net-state", "net-listen", "net-close", "net-", "ping", "",
]  # fmt: skip
KEYS = [
    "job", "streams", "revision", "record", "id", "stream", "error", "code", "bytes", "keys", "tcp",
    "udp", "protocol", "port", "real", "address", "notice", "seq", "containers",
]  # fmt: skip
RECORD_KEYS = [
    "seq", "time", "name", "restart", "state", "reason", "message", "exitCode", "startedAt",
    "finishedAt", "node", "addresses", "runtime", "condition", "status", "phase", "why", "kind",
    "container", "started", "ready", "init", "signal", "grace", "usage",
]  # fmt: skip
RECORD_TYPES = ["started", "container", "health", "event", "condition", "terminating", "finished"]
STATES = ["waiting", "running", "terminated"]


def anything(chance: random.Random, depth: int = 3):
    """Any JSON, odd numbers above all."""
    kind = chance.randrange(12 if depth else 9)
    if kind >= 10:
        return {chance.choice(KEYS): anything(chance, depth - 1) for _ in range(3)}
    if kind >= 9:
        return [anything(chance, depth - 1) for _ in range(2)]
    return [
        None, True, 0, -1, chance.choice([1, 17, 2**31, 2**63 - 1, 2**70, -(2**63)]),
        chance.choice([0.5, 1e300, -1e300]), "",
        chance.choice(["1", "x", "tcp", "\0", "\ud800", "a" * 999]),
        chance.choice(["pod/default/web", "policy", "services", "main"]),
    ][kind]  # fmt: skip


def a_message(chance: random.Random) -> bytes:
    kind = chance.choice(KINDS)
    message = {"type": kind}
    for key in chance.sample(KEYS, chance.randint(0, 9)):
        message[key] = anything(chance)
    if kind == "record" and chance.random() < 0.9:
        record = {key: anything(chance, 1) for key in chance.sample(RECORD_KEYS, 9)}
        record["type"] = chance.choice(RECORD_TYPES)
        sound = {"seq": chance.randint(1, 50), "name": "main", "state": chance.choice(STATES),
                 "time": 1.8e9, "restart": 0}  # fmt: skip
        record.update({key: sound[key] for key in sound if chance.random() < 0.8})
        message["record"] = record
    if chance.random() < 0.05:
        return b"[" * 50_000
    data = json.dumps(message).encode()
    if chance.random() < 0.2:
        at = chance.randrange(len(data))
        data = data[:at] + chance.randbytes(2) + data[at + chance.randint(0, 3) :]
    return data


class Writer:
    """Takes what the kubelet answers."""

    transport = None

    def is_closing(self):
        return False

    def write(self, data):
        pass

    def close(self):
        pass


async def hear(state, hears, payload):
    """One message, as if it had come over the network; then the line ends."""
    reader = asyncio.StreamReader()
    reader.feed_data(struct.pack(">II", len(payload), 0) + payload)
    reader.feed_eof()
    await AgentConnection(state, reader, Writer()).serve(hears)


@pytest.mark.parametrize("seed", range(3))
async def test_no_message_of_an_agent_ends_anything_but_its_own_connection(site, caplog, seed):
    await site.create("web")
    await site.submitted("web")
    site.engine.set("17", JobState.RUNNING)
    [state] = list(site.parts.shared.cache.pods)
    chance = random.Random(seed)
    for number in range(400):
        await hear(state, site.parts.serving.agents, a_message(chance))
        if number % 40 == 0:
            await asyncio.sleep(0)
    await site.create("two")
    agent = await site.agent("two")
    site.engine.set("18", JobState.RUNNING)
    await agent.say(started(), running(), exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded", "two")
    await agent.hang_up()
    assert "Traceback" not in caplog.text
