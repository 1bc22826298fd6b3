"""A home with a real API server behind its kubeconfig, for commands that only ask it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner

from orlop import pki
from orlop.api.kinds import Kind
from orlop.api.objects import Key, Obj, key_of
from orlop.apiserver import ApiServer
from orlop.cli.home import kubeconfig_file, record
from orlop.client.api import Api
from orlop.files import write_private
from orlop.settings import Paths
from orlop.store import Store

T = TypeVar("T")


@dataclass
class Home:
    """A home folder as `up` leaves it, but with nothing except the API server running."""

    paths: Paths
    api: Api
    loop: asyncio.AbstractEventLoop

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    def create(self, kind: Kind, obj: Obj, status: Obj | None = None) -> Obj:
        """An object, with its status as a component would have written it."""
        made = self.do(self.api.create(kind, obj))
        if status is None:
            return made
        patch = {"status": status}
        return self.do(self.api.patch(kind, key_of(made), patch, subresource="status"))

    def delete(self, kind: Kind, key: Key) -> None:
        self.do(self.api.delete(kind, key, grace=0))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    paths = Paths(tmp_path_factory.mktemp("home"))
    paths.run.mkdir()
    made = pki.ensure(paths.pki, ["127.0.0.1"])
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> tuple[Store, ApiServer, int]:
        store = await Store.open(paths.state)
        server = ApiServer(store, tls=made.server_context(made.apiserver))
        return store, server, await server.start("127.0.0.1", 0)

    async def stop() -> None:
        await server.stop()
        await store.close()

    store, server, port = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    url = f"https://127.0.0.1:{port}"
    files = (made.ca, made.admin.crt, made.admin.key)
    document = kubeconfig_file.document("orlop", url, *(file.read_bytes() for file in files))
    write_private(paths.kubeconfig, kubeconfig_file.dumped(document))
    record.write(paths, record.mine(url=url, port=port, engine="local"))
    yield Home(paths, server.client("system:tests", ["system:masters"]), loop)
    asyncio.run_coroutine_threadsafe(stop(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user of that home has set."""
    monkeypatch.setenv("ORLOP_HOME", str(home.paths.home))
    monkeypatch.setenv("KUBECONFIG", str(home.paths.kubeconfig))
    monkeypatch.setenv("HOME", str(home.paths.home))


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    paths = Paths(tmp_path / "orlop")
    monkeypatch.setenv("ORLOP_HOME", str(paths.home))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return paths


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()
