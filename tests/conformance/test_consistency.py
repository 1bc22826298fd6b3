"""What many clients at once may rely on, over the wire and over the server's death.

Any sequence of writes by concurrent clients: whoever listed and watched, from whatever moment,
believes exactly what is listed in the end; and nothing that was acknowledged is lost to kill -9.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from orlop import errors, pki
from orlop.api import kinds
from orlop.api.objects import Key, Obj, key_of
from orlop.client.https import HttpsApi
from tools.devroot import PROJECT

from .deaths import Client, all_work, config_map

NAMES = [f"n{n}" for n in range(6)]


class Server:
    """An API server that can be killed and started again in the same home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tools.apiserver", str(self.home)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
        assert self.process.stdout is not None
        self.url = f"https://127.0.0.1:{self.process.stdout.readline().strip()}"

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait(10)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[HttpsApi]:
        authority = pki.Pki(self.home / "pki")
        async with HttpsApi(self.url, tls=authority.client_context(authority.admin)) as api:
            yield api
        await asyncio.sleep(0.1)  # connections say goodbye in the background


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.end(signal.SIGTERM)
    assert server.process.returncode == 0


class Mirror:
    """A client's belief: a list, and every event since."""

    def __init__(self, api: HttpsApi) -> None:
        self._api = api
        self.state: dict[Key, Obj] = {}
        self.revision = 0

    async def follow(self) -> None:
        listed = await self._api.list(kinds.CONFIG_MAP, "default")
        self.state = {key_of(obj): obj for obj in listed.items}
        self.revision = int(listed.resource_version)
        async for event in self._api.watch(
            kinds.CONFIG_MAP, "default", resource_version=listed.resource_version
        ):
            self._see(event.type, event.object)

    def _see(self, kind: str, obj: Obj) -> None:
        revision = int(obj["metadata"]["resourceVersion"])
        assert revision > self.revision or kind == "BOOKMARK", "revisions never go back"
        self.revision = revision
        if kind == "DELETED":
            del self.state[key_of(obj)]
        elif kind in ("ADDED", "MODIFIED"):
            assert (kind == "ADDED") == (key_of(obj) not in self.state)
            self.state[key_of(obj)] = obj


async def writes(api: HttpsApi, seed: int, count: int) -> None:
    """Random creates, updates, patches and deletes; losing to another client is part of it."""
    rng = random.Random(seed)
    for step in range(count):
        key, value = Key("default", rng.choice(NAMES)), f"{seed}-{step}"
        try:
            match rng.choice(["create", "update", "patch", "delete"]):
                case "create":
                    await api.create(kinds.CONFIG_MAP, config_map(key.name, value))
                case "update":
                    current = await api.get(kinds.CONFIG_MAP, key)
                    await api.update(kinds.CONFIG_MAP, {**current, "data": {"v": value}})
                case "patch":
                    await api.patch(kinds.CONFIG_MAP, key, {"data": {f"k{seed}": value}})
                case "delete":
                    await api.delete(kinds.CONFIG_MAP, key)
        except (errors.Conflict, errors.NotFound, errors.AlreadyExists):
            pass


async def caught_up(mirrors: list[Mirror], revision: int) -> None:
    async with asyncio.timeout(10):
        while any(mirror.revision < revision for mirror in mirrors):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", range(2))
async def test_watchers_from_any_moment_believe_what_is_listed(server: Server, seed: int) -> None:
    async with server.client() as api, asyncio.TaskGroup() as tasks:
        mirrors, followers = [], []
        for start in range(6):
            mirrors.append(Mirror(api))
            followers.append(tasks.create_task(mirrors[-1].follow()))
            await asyncio.gather(*(writes(api, seed * 100 + start * 10 + n, 8) for n in range(8)))
        last = await api.create(kinds.CONFIG_MAP, config_map("last", "x"))
        await caught_up(mirrors, int(last["metadata"]["resourceVersion"]))
        listed = await api.list(kinds.CONFIG_MAP, "default")
        now = {key_of(obj): obj for obj in listed.items}
        for mirror, follower in zip(mirrors, followers, strict=True):
            named = {key: {**obj, "apiVersion": "v1", "kind": "ConfigMap"}
                     for key, obj in mirror.state.items()}  # fmt: skip
            assert named == now
            follower.cancel()


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(server: Server) -> None:
    await die_and_recover(server, deaths=3, seed=7)


async def die_and_recover(server: Server, deaths: int, seed: int) -> int:
    """Kill the server at random points, again and again; the writes that were acknowledged."""
    rng, clients = random.Random(seed), [Client(number, seed) for number in range(6)]
    for _ in range(deaths):
        async with server.client() as api:
            after = rng.uniform(0.1, 0.6)
            await all_work(api, clients, lambda: server.end(signal.SIGKILL), after)
        server.start()
        async with server.client() as api:
            for client in clients:
                await client.check(api)
    acknowledged = sum(client.acknowledged for client in clients)
    assert acknowledged > deaths, "there was something to lose"
    return acknowledged
