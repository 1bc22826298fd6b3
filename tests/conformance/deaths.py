"""Clients that remember what a server has told them, over the server's death.

Used by the consistency test for a few deaths, and by the soak for hundreds. Each client has objects
of its own, so that it knows what must be there: what was acknowledged, or what was under way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key, Obj
from orlop.client.api import Api

GONE = "gone"
Known = dict[str, set[str]]  # name: values it may have now


class Client:
    """One client's objects, and what it knows of each."""

    def __init__(self, number: int, seed: int) -> None:
        self._names = [f"c{number}-{n}" for n in range(4)]
        self._rng = random.Random(seed * 1000 + number)
        self._step = 0
        self.known: Known = {name: {GONE} for name in self._names}
        self.newest = 0  # revision
        self.acknowledged = 0

    async def work_until_it_dies(self, api: Api) -> None:
        try:
            while True:
                await self._write(api, self._rng.choice(self._names))
        except errors.Unavailable:
            pass

    async def _write(self, api: Api, name: str) -> None:
        self._step += 1
        (there,) = self.known[name]
        value = f"v{self._step}"
        write: Callable[[], Awaitable[Obj]]
        if there == GONE:
            write = lambda: api.create(kinds.CONFIG_MAP, config_map(name, value))  # noqa: E731
        elif self._rng.random() < 0.3:
            value = GONE
            write = lambda: api.delete(kinds.CONFIG_MAP, Key("default", name))  # noqa: E731
        else:
            change = {"data": {"v": value}}
            write = lambda: api.patch(kinds.CONFIG_MAP, Key("default", name), change)  # noqa: E731
        self.known[name] = {there, value}  # until we hear of it, either may be
        answer = await write()
        self.known[name] = {value}
        self.acknowledged += 1
        self._see(answer)

    def _see(self, answer: Obj) -> None:
        version = answer.get("metadata", {}).get("resourceVersion")
        if version is not None:
            assert int(version) > self.newest, "revisions never go back"
            self.newest = int(version)

    async def check(self, api: Api) -> None:
        """Nothing acknowledged is lost; from here on we know what became of the rest."""
        listed = await api.list(kinds.CONFIG_MAP, "default")
        assert int(listed.resource_version) >= self.newest, "revisions never go back"
        found = {obj["metadata"]["name"]: obj["data"]["v"] for obj in listed.items if "data" in obj}
        for name, may in self.known.items():
            value = found.get(name, GONE)
            assert value in may, f"{name} is {value}, acknowledged was one of {may}"
            self.known[name] = {value}


def config_map(name: str, value: str) -> Obj:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"v": value}}


async def all_work(api: Api, clients: list[Client], kill: Callable[[], None], after: float) -> None:
    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(client.work_until_it_dies(api))
        await asyncio.sleep(after)
        kill()
