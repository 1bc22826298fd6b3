"""Agents and kubelets: the line between them, journals, and what containers tell their agent."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from orlop.agent.connection.frames import Broken, Frames
from orlop.agent.connection.kubelet_connection import Identity, Uplink
from orlop.agent.connection.upgraded_connection import _upgrade
from orlop.agent.container.envfiles import values_in
from orlop.agent.exec.group_exec import Group
from orlop.agent.netd.relay import Carrier
from orlop.agent.pod.live_updates import Updates
from orlop.agent.probes import grpc_health
from orlop.agent.ranks.container_server import tasks_on
from orlop.agent.ranks.wire import Answer, Hello
from orlop.api import kinds
from orlop.client.informer import Informers
from orlop.kubelet.agents.connection import AgentConnection
from orlop.kubelet.agents.events import AgentEvents
from orlop.kubelet.agents.journal import JournalFile
from orlop.kubelet.network.endpoint_updates import Network
from orlop.kubelet.pod.folder import PodFolder
from orlop.kubelet.pod.pods import Pods, PodState
from orlop.kubelet.status.pod_status import pod_status
from orlop.network.addresses import PodAddresses
from orlop.network.ranges import Ranges
from orlop.settings import NetworkSettings, Paths
from orlop.wellknown import FRAME_HEADER

from ..target import Registry, Target, encoded
from .bodies import Writes, pod

target = Registry()
_HEADER = struct.Struct(FRAME_HEADER)
_RECORDS: list[dict[str, Any]] = [
    {"type": "started", "job": "17", "node": "n1", "addresses": ["192.0.2.1"], "runtime": "crun"},
    {"type": "container", "name": "a", "state": "running", "restart": 0, "startedAt": 1.7e9},
    {"type": "container", "name": "a", "state": "terminated", "exitCode": 1, "finishedAt": 1.7e9},
    {
        "type": "container",
        "name": "b",
        "state": "waiting",
        "reason": "CrashLoopBackOff",
        "restart": 2,
    },
    {"type": "health", "name": "a", "restart": 0, "started": True, "ready": False},
    {
        "type": "condition",
        "condition": "orlop.dev/X",
        "status": "True",
        "reason": "R",
        "message": "m",
    },
    {"type": "event", "kind": "Warning", "reason": "R", "message": "m", "container": "a"},
    {"type": "terminating", "why": "signal", "grace": 30.0},
    {"type": "finished", "phase": "Failed", "usage": {"elapsed": 1.0, "cpu": 2.0, "memory": 3}},
]
_RECORD_WORDS = encoded(
    (
        *(
            "seq",
            "type",
            "time",
            "name",
            "state",
            "restart",
            "reason",
            "message",
            "exitCode",
            "signal",
        ),
        *(
            "started",
            "container",
            "health",
            "event",
            "condition",
            "terminating",
            "finished",
            "phase",
        ),
        *(
            "Succeeded",
            "running",
            "terminated",
            "usage",
            "addresses",
            "startedAt",
            "1e300",
            "-1e300",
        ),
    )
)
_HELLO = {
    "type": "hello",
    "job": "17",
    "restart": 0,
    "node": "n1",
    "seq": 3,
    "streams": 2,
    "revision": 1,
}
_MESSAGES: list[list[dict[str, Any]]] = [
    [_HELLO, *({"type": "record", "record": {"seq": i + 1, "time": 1.7e9, **record}}
               for i, record in enumerate(_RECORDS))],
    [_HELLO,
     {"type": "net-state", "address": "192.0.2.1", "notice": 7, "tcp": {"80": 4711}, "udp": {}},
     {"type": "net-listen", "protocol": "tcp", "port": 81, "real": 4712, "address": "192.0.2.1"},
     {"type": "net-close", "protocol": "tcp", "port": 81},
     {"type": "net-ask", "keys": ["policy", "pod/10.244.0.9", "svc/10.96.0.1", "peer/10.244.0.9",
                                  "name/kubernetes.default.svc.cluster.local"]},
     {"type": "net-forget", "keys": ["policy"]}],
    [{"type": "opened", "stream": 1}, {"type": "credit", "stream": 1, "bytes": 9},
     {"type": "eof", "stream": 1}, {"type": "closed", "stream": 1, "error": "", "code": 0},
     {"type": "stats", "id": 4, "containers": {"a": {"cpu": 1, "memory": 2}}}],
    [{"type": "start", "stream": 1 << 31, "host": "h", "command": "c"},
     {"type": "close", "stream": 1 << 31}, {"type": "opened", "stream": 3, "size": 5}],
]  # fmt: skip
_MESSAGE_WORDS = encoded(
    (
        *("type", "stream", "keys", "hello", "record", "stats", "start", "opened", "closed", "eof"),
        *("credit", "close", "net-ask", "net-forget", "net-state", "net-listen", "net-close", "id"),
        *(
            "name/",
            "pod/",
            "svc/",
            "peer/",
            "policy/",
            "port",
            "real",
            "address",
            "tcp",
            "udp",
            "bytes",
        ),
    )
)


class Writer:
    """Takes what the kubelet says."""

    transport = SimpleNamespace(get_write_buffer_size=lambda: 0, abort=lambda: None)

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...


class Kubelets:
    """The kubelet, as far as agents reach it: its network is real, its workers are not."""

    def __init__(self) -> None:
        self.writes = Writes()
        self.loop = self.writes.loop
        self.loop.run(self._open)

    async def _open(self) -> None:
        home = Paths(Path(self.writes.folder.name))
        ranges = Ranges.of(NetworkSettings())
        client = self.writes.client
        informers = Informers(client)
        self.pods = Pods(home, PodAddresses(ranges.pods))
        self.network = Network(informers, self.pods, ranges)
        self._following = asyncio.create_task(informers.run())
        await self.network.begin()
        cached = informers.informer(kinds.POD)
        await cached.synced()
        self.pod = next(iter(cached.list("default")))
        self.state = self.pods.of(self.pod)
        self.state.pod_ip = "10.244.0.7"
        queue: Any = SimpleNamespace(add=lambda uid: None)
        live: Any = SimpleNamespace(
            on_hello=lambda state, revision: None, on_silence=lambda state: None
        )
        commands: Any = SimpleNamespace(
            begin=lambda state, errand, message: (str(message["host"]), str(message["command"]))
        )
        clock: Any = SimpleNamespace(now=lambda: 1.7e9)
        self.hears = AgentEvents(queue, live, self.network, commands, lambda: None, clock)

    def fresh(self) -> PodState:
        """The pod, of which nothing was heard yet."""
        state, file = self.state, JournalFile(Path("/nowhere"))
        known = PodState(state.uid, state.key, state.folder, file, pod_ip=state.pod_ip)
        self.pods._states[state.uid] = known
        return known

    async def hear(self, raw: bytes, line: str = "") -> None:
        state = self.fresh()
        reader = asyncio.StreamReader()
        reader.feed_data(raw)
        reader.feed_eof()
        connection = AgentConnection(state, reader, cast("Any", Writer()), line)
        state.connection = connection
        waiting = asyncio.ensure_future(connection.measure())
        log = connection.open_log("a", 0, 0, follow=True)
        session = connection.open("exec", container="a", argv=["ls"])
        await connection.serve(self.hears)
        if not line:
            self.hears.on_silence(state)
        for one in (waiting, session._closed, session._opened):
            if not one.cancel() and not one.cancelled():
                one.exception()
        log.close()
        msgspec.json.encode(pod_status(self.pod, state.observed(""), 1.7e9))


def _frames(messages: object) -> bytes:
    """Messages as they come over the line; what is no list is one message."""
    parts = []
    for message in messages if isinstance(messages, list) else [messages]:
        payload = json.dumps(message).encode()
        parts.append(_HEADER.pack(len(payload), 0) + payload)
    return b"".join(parts)


@target(
    "agent-messages",
    "kubelet/agents/connection.py, kubelet/network/endpoint_updates.py, "
    "kubelet/agents/journal.py, kubelet/status/pod_status.py: messages of an agent",
    "hostile pods",
)
def agent_messages() -> Target:
    kubelets = Kubelets()

    def run(data: bytes) -> None:
        try:
            messages = json.loads(data)
        except (ValueError, RecursionError):
            return
        raw = _frames(messages)
        kubelets.loop.run(lambda: kubelets.hear(raw))
        kubelets.loop.run(lambda: kubelets.hear(raw, "n2"))

    seeds = tuple(json.dumps(one).encode() for one in _MESSAGES)
    return Target(run, seeds, (*_MESSAGE_WORDS, *_RECORD_WORDS), is_json=True)


@target("agent-frames", "kubelet/agents/connection.py: bytes of an agent", "hostile pods")
def agent_frames() -> Target:
    kubelets = Kubelets()

    def run(data: bytes) -> None:
        kubelets.loop.run(lambda: kubelets.hear(data))

    seeds = (
        *(_frames(one) for one in _MESSAGES),
        _HEADER.pack(5, 1) + b"hello",
        _HEADER.pack(1 << 31, 0),
    )
    return Target(run, seeds, _MESSAGE_WORDS)


@target(
    "agent-journal",
    "kubelet/agents/journal.py: the file, which containers of the same user can write",
    "hostile pods",
)
def agent_journal() -> Target:
    folder = Path(tempfile.mkdtemp(prefix="orlop-fuzz-"))
    path, shown = folder / "journal", {**pod(), "status": {}}
    shown["metadata"]["uid"] = "u"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        state = PodState("u", kinds_key(shown), PodFolder(folder), JournalFile(path))
        state.read_journal()
        state.take_untold()
        msgspec.json.encode(pod_status(shown, state.observed(""), 1.7e9))

    lines = [json.dumps({"seq": i + 1, "time": 1.7e9, **one}) for i, one in enumerate(_RECORDS)]
    seeds = (
        "\n".join(lines) + "\n",
        "\n".join(lines[:3]) + "\n",
        lines[0] + "\n" + lines[-1] + "\n",
    )
    return Target(run, encoded(seeds), (*_RECORD_WORDS, b"\n"))


def kinds_key(obj: dict[str, Any]) -> Any:
    from orlop.api.objects import key_of

    return key_of(obj)


# The agent's side


@target(
    "kubelet-frames",
    "agent/connection/frames.py, agent/connection/upgraded_connection.py: "
    "bytes before the kubelet's are trusted",
    "the site's network",
)
def kubelet_frames() -> Target:
    def run(data: bytes) -> None:
        frames = Frames()
        try:
            for start in range(0, len(data), 256):
                frames.feed(data[start : start + 256])
                frames.take()
        except Broken:
            pass
        _upgrade(cast("Any", Spoken(data)), "/p", "t")

    answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"
    seeds = (answer + _frames(_MESSAGES[0]), _frames(_MESSAGES[1]), b"HTTP/1.1 401 no\r\n\r\n")
    return Target(run, seeds, (b"\r\n\r\n", b"HTTP/1.1 ", b" 101 "), (Broken,))


class Spoken:
    """A socket on which all has been said."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def recv(self, count: int) -> bytes:
        part = self._data[self._at : self._at + min(count, 1000)]
        self._at += len(part)
        return part

    def sendall(self, data: bytes) -> None: ...


@target(
    "kubelet-messages",
    "agent/connection/kubelet_connection.py, agent/pod/live_updates.py, agent/netd/relay.py: "
    "messages of a kubelet",
    "the kubelet",
)
def kubelet_messages() -> Target:
    plan: Any = SimpleNamespace(revision=1, containers=[SimpleNamespace(name="a")], kubelet={})
    volumes: Any = SimpleNamespace(update=lambda name, files: [one["data"] for one in files])
    updates = Updates(plan, volumes, lambda what: None)
    link: Any = SimpleNamespace(tell=lambda message: json.dumps(message), send=lambda *words: None)
    uplink = Uplink.__new__(Uplink)
    uplink._plan, uplink._folder = plan, tempfile.mkdtemp(prefix="orlop-fuzz-")
    uplink._identity = Identity("17", 0, "n1")
    uplink._journal = cast("Any", SimpleNamespace(seq=3, since=lambda seq: []))
    uplink._post = lambda event: None
    uplink._is_log_open = lambda name, run: False
    uplink._sessions = cast("Any", SimpleNamespace(on_message=_session_message))
    uplink._stats = cast("Any", SimpleNamespace(measure=lambda: {"containers": {}}))
    uplink._updates, uplink._carrier = updates, Carrier()
    uplink._told = uplink._acked = 0

    def run(data: bytes) -> None:
        uplink._readers = {}
        try:
            uplink._on_payload(link, data)
        except Exception as error:
            # As Uplink._serve: it says so and dials again; what is no Exception would end it.
            str(error)
        for reader in uplink._readers.values():
            reader.close()

    seeds = [
        {"type": "welcome", "acked": 3}, {"type": "terminate", "grace": 30.0}, {"type": "ping"},
        {"type": "logs", "stream": 1, "container": "a", "restart": 0, "follow": True, "offset": 0},
        {"type": "volume-files", "volume": "v", "files": [{"path": "a", "data": "YQ=="}]},
        {"type": "environment", "container": "a", "argv": ["a"], "env": [["A", "b"]]},
        {"type": "plan-revision", "revision": 2}, {"type": "close", "stream": 1},
        {"type": "net-tell", "key": "svc/10.96.0.1", "value": {"ports": []}},
    ]  # fmt: skip
    made = tuple(json.dumps(one).encode() for one in seeds)
    words = encoded(("type", "logs", "restart", "../..", "container", "append", "files", "net-"))
    return Target(run, made, words, is_json=True)


def _session_message(link: Any, message: dict[str, Any]) -> None:
    int(message.get("stream") or 0)


# Containers and servers that speak to their agent


@target(
    "group-ring",
    "agent/exec/group_exec.py: what containers write into the ring and their wishes",
    "hostile pods",
)
def group_ring() -> Target:
    folder = tempfile.mkdtemp(prefix="orlop-fuzz-")
    group = Group(folder)
    told: list[dict[str, Any]] = []
    link: Any = SimpleNamespace(tell=told.append)

    def run(data: bytes) -> None:
        ring = os.open(f"{folder}/ring", os.O_WRONLY | os.O_NONBLOCK)
        try:
            with open(f"{folder}/3.ask", "wb") as file:
                file.write(data[:1000])
            os.write(ring, data[:4096])
        finally:
            os.close(ring)
        group.listen()
        for errand in group.begin(link):
            errand.on_answer({"type": "closed", "error": "no", "code": 1})
            errand.close(is_lost=True)
        for message in told:
            json.dumps(message)
        told.clear()

    seeds = (b"3\n", b"3\n3\n0\n", b"99\n-1\nx\n", b"host\ncommand 'a b'\n3\n")
    return Target(run, seeds, (b"\n", b"3\n", b"0"))


@target("group-words", "agent/ranks/wire.py: what ranks and their door say", "hostile pods")
def group_words() -> Target:
    def run(data: bytes) -> None:
        for read in (Hello.decoded, Answer.decoded):
            try:
                read(data).encoded()
            except (ValueError, IndexError, UnicodeError):
                pass  # as the door, and as a starter that ends
        try:
            tasks_on(data.decode(errors="replace"), 0)
        except ValueError:
            pass

    hello = Hello(1, 4711, "17.0", "2(x3),1", 0, ("/run/pmi",)).encoded()
    answer = Answer(["a", "b"], {"A": "b"}, "/w", True, (1, 2, [3]), (4,), b"filter").encoded()
    return Target(
        run, (hello, answer, answer[4:]), (b"\0", b"exec\0", b"terminal\0", b"(x", b"1 2 3")
    )


@target(
    "probe-grpc", "agent/probes/grpc_health.py: what a server answers to a probe", "hostile pods"
)
def probe_grpc() -> Target:
    def run(data: bytes) -> None:
        grpc_health.check(cast("Any", Spoken(data)), "s", "h")

    frame = grpc_health._frame
    body = b"\0\0\0\0\2\x08\1"
    start = frame(grpc_health.SETTINGS, 0, 0, b"") + frame(grpc_health.HEADERS, 4, 1, b"\x88")
    seeds = (
        start + frame(grpc_health.DATA, 1, 1, body),
        start + frame(grpc_health.DATA, 8, 1, b"\3" + body + b"\0\0\0"),
        frame(grpc_health.PING, 0, 0, b"12345678") + frame(grpc_health.GOAWAY, 0, 0, bytes(8)),
    )
    return Target(run, seeds, (b"\0\0\0\4\1\0\0\0\0",), (grpc_health.NotHealth,))


@target(
    "env-files",
    "agent/container/envfiles.py: files of variables, which the pod has written",
    "hostile pods",
)
def env_files() -> Target:
    def run(data: bytes) -> None:
        values_in(data.decode(errors="surrogateescape"))

    seeds = (b"A='b'\n# c\nD = plain # x\n", b"A='two\nlines'\n", b"=\n")
    return Target(run, seeds, (b"'", b"=", b"\n", b" ", b"\t", b"#"), (ValueError,))
