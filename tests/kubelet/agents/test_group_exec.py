"""Commands in other pods of a group: who is reached, what passes, and what is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orlop.api.objects import Key, Obj
from orlop.client.clock import SystemClock
from orlop.client.informer import Informer
from orlop.kubelet.agents import group_exec
from orlop.kubelet.agents.group_exec import GroupCommands
from orlop.kubelet.agents.sessions import AgentErrand, AgentSession
from orlop.kubelet.pod.pods import Pods, PodState

WITHIN = 30.0


class Line:
    """An agent's connection: what it is told, and who hears what comes."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.sent: dict[int, bytes] = {}
        self.opened: list[AgentSession] = []

    def tell(self, message: dict[str, Any]) -> None:
        self.told.append(message)

    async def send(self, number: int, data: bytes) -> None:
        self.sent[number] = self.sent.get(number, b"") + data

    def drop(self, number: int, *, tell: bool) -> None:
        if tell:
            self.told.append({"type": "close", "stream": number})

    def open(self, kind: str, **fields: Any) -> AgentSession:
        self.tell({"type": kind, **fields})
        self.opened.append(AgentSession(self, 1))
        return self.opened[-1]

    def kinds(self) -> list[str]:
        return [message["type"] for message in self.told]


def pod(name: str, group: str, namespace: str = "ns", **status: Any) -> Obj:
    running = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "annotations": {"orlop.dev/group": group} if group else {},
        },
        "spec": {"hostname": f"{name}-host", "containers": [{"name": "main"}, {"name": "other"}]},
        "status": {"phase": "Running", "podIP": "10.1.2.3", **running, **status},
    }


class World:
    """The pods there are, each with the connection of its agent."""

    def __init__(self, *pods: Obj) -> None:
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}
        self.lines = {name: Line() for name in self.pods}
        self.states = {
            f"uid-{name}": SimpleNamespace(
                key=Key("ns", name),
                uid=f"uid-{name}",
                connection=self.lines[name],
            )
            for name in self.pods
        }
        self.names: dict[str, Any] = {}
        self.asking = Line()
        self.errand = AgentErrand(self.asking, 1 << 31)

    def get(self, key: Any) -> Any:
        return self.states.get(key) if isinstance(key, str) else self.pods.get(key.name)

    def list(self, namespace: str) -> list[Obj]:
        return [one for one in self.pods.values() if one["metadata"]["namespace"] == namespace]

    @asynccontextmanager
    async def begun(self, host: str, asker: str = "launcher") -> AsyncIterator[asyncio.Task[bool]]:
        async with asyncio.TaskGroup() as tasks:
            made: list[asyncio.Task[bool]] = []

            def spawn(work: Any, name: str) -> asyncio.Task[bool]:
                made.append(tasks.create_task(work, name=name))
                return made[-1]

            here = (cast("Pods", self), cast("Informer", self))
            commands = GroupCommands(
                *here, spawn, SystemClock(), lambda service, _: self.names.get(service)
            )
            state = cast("PodState", self.states[f"uid-{asker}"])
            commands.begin(state, self.errand, {"host": host, "command": "orted -x"})
            yield made[0]
            made[0].cancel()

    async def session(self, name: str) -> AgentSession:
        await until(lambda: self.lines[name].opened)
        return self.lines[name].opened[0]


async def until(is_so: Any) -> None:
    async with asyncio.timeout(WITHIN):
        while not is_so():  # noqa: ASYNC110 (of things that tell nobody)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("host", ["w-0", "w-0.job.ns.svc", "w-0-host.job", "10.1.2.3"])
async def test_a_command_runs_in_the_first_container_of_the_pod_that_is_named(host: str) -> None:
    world = World(pod("launcher", "g", podIP="10.9.9.9"), pod("w-0", "g"))
    async with world.begun(host) as task:
        session = await world.session("w-0")
        ask = world.lines["w-0"].told[0]
        assert (ask["container"], ask["argv"]) == ("main", ["/bin/sh", "-c", "orted -x"])
        session.on_message({"type": "opened"})
        await until(lambda: "opened" in world.asking.kinds())
        world.errand.feed(b"input")
        await until(lambda: world.lines["w-0"].sent.get(1) == b"input")
        session.feed(b"output")
        session.errors.feed(b"errors")
        session.on_message({"type": "closed", "code": 5})
        await task
    assert world.asking.sent == {1 << 31: b"output", (1 << 31) + 1: b"errors"}
    assert world.asking.told[-1] == {
        "type": "closed",
        "stream": 1 << 31,
        "code": 5,
        "error": "",
    }


STRANGERS = {
    "another group": [pod("launcher", "g"), pod("w-0", "other")],
    "no group": [pod("launcher", "g"), pod("w-0", "")],
    "another namespace": [pod("launcher", "g"), pod("w-0", "g", "elsewhere")],
    "nobody of the name": [pod("launcher", "g"), pod("w-1", "g", podIP="")],
}


@pytest.mark.parametrize("pods", STRANGERS.values(), ids=STRANGERS)
async def test_nobody_else_is_reached(pods: list[Obj], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_exec, "MISSING", 0.05)
    world = World(*pods)
    async with world.begun("w-0") as task:
        await task
    assert world.asking.told[-1]["code"] == 255
    assert "expected a pod of this pod's group" in world.asking.told[-1]["error"]
    assert not any(line.opened for line in world.lines.values())


async def test_a_pod_of_no_group_reaches_nobody() -> None:
    world = World(pod("launcher", ""), pod("w-0", ""))
    async with world.begun("w-0") as task:
        await task
    assert world.asking.told[-1]["error"] == "this pod is of no group"


async def test_a_pod_that_has_ended_fails_it_at_once() -> None:
    world = World(pod("launcher", "g"), pod("w-0", "g", phase="Failed"))
    async with world.begun("w-0") as task:
        await task
    assert world.asking.told[-1]["error"] == "pod ns/w-0 has ended"


async def test_a_pod_that_does_not_run_yet_is_waited_for() -> None:
    world = World(pod("launcher", "g"), pod("w-0", "g", phase="Pending", containerStatuses=[]))
    async with world.begun("w-0"):
        await asyncio.sleep(0.3)
        assert not world.lines["w-0"].opened
        world.pods["w-0"] = pod("w-0", "g")
        await world.session("w-0")


@pytest.mark.parametrize("before", [{"ttl": 5}, {"A": ["10.0.0.1"]}, "unknown"])
async def test_nothing_starts_before_the_pod_that_asks_can_be_found_by_its_name(
    before: Any,
) -> None:
    world = World(pod("launcher", "g", podIP="10.9.9.9"), pod("w-0", "g"))
    world.names["launcher-host"] = before
    async with world.begun("w-0"):
        await asyncio.sleep(0.3)
        assert not world.lines["w-0"].opened
        world.names["launcher-host"] = {"A": ["10.0.0.1", "10.9.9.9"]}
        await world.session("w-0")


async def test_whoever_goes_by_itself_has_its_command_ended() -> None:
    world = World(pod("launcher", "g"), pod("w-0", "g"))
    async with world.begun("w-0") as task:
        session = await world.session("w-0")
        session.on_message({"type": "opened"})
        await until(lambda: "opened" in world.asking.kinds())
        world.errand.on_message({"type": "close"})
        await task
    assert world.lines["w-0"].told[-1] == {"type": "close", "stream": 1}


@pytest.mark.parametrize("how", ["its line broke", "we stop"])
async def test_a_command_outlives_the_control_plane(how: str) -> None:
    world = World(pod("launcher", "g"), pod("w-0", "g"))
    async with world.begun("w-0") as task:
        session = await world.session("w-0")
        session.on_message({"type": "opened"})
        await until(lambda: "opened" in world.asking.kinds())
        if how == "we stop":
            task.cancel()
        else:
            world.errand.lost()
        await asyncio.wait((task,))
    assert {"type": "close", "stream": 1, "keep": True} in world.lines["w-0"].told
    assert {"type": "close", "stream": 1} not in world.lines["w-0"].told


async def test_a_pod_whose_line_breaks_fails_its_command() -> None:
    world = World(pod("launcher", "g"), pod("w-0", "g"))
    async with world.begun("w-0") as task:
        session = await world.session("w-0")
        session.on_message({"type": "opened"})
        await until(lambda: "opened" in world.asking.kinds())
        session.lost()
        await task
    assert world.asking.told[-1]["code"] == 255
    assert "broke" in world.asking.told[-1]["error"]
