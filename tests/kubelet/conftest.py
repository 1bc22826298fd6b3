"""A kubelet in this process, over a real API server and store, with an engine that tests drive."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from orlop import pki
from orlop.api.kinds import EVENT, NODE, POD
from orlop.api.objects import Key
from orlop.api.schema import load
from orlop.apiserver import ApiServer
from orlop.client.informer import Informers
from orlop.errors import NotFound
from orlop.kubelet import (
    Kubelet,
    KubeletConfiguration,
    KubeletCredentials,
    KubeletDependencies,
    NodePrograms,
    wire,
)
from orlop.kubelet.node import health
from orlop.kubelet.planning.live_plan import TokenRenewal
from orlop.kubelet.pod import job_ending, job_poller, reporter
from orlop.kubelet.start.backoff import Backoffs
from orlop.settings import Paths, Settings, SlurmSettings
from orlop.store import Store

from .fakes import FakeAgent, FakeEngine, FakeImages
from .objects import a_container


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return pki.ensure(tmp_path_factory.mktemp("pki"), ["localhost", "127.0.0.1"])


@pytest.fixture(scope="session")
def schema():
    return load(None)


async def eventually(probe, what="it", timeout=5.0):
    """The first true answer of `probe`, which may be a coroutine."""
    answer = None
    try:
        async with asyncio.timeout(timeout):
            while True:
                answer = probe()
                answer = await answer if asyncio.iscoroutine(answer) else answer
                if answer:
                    return answer
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"after {timeout} s still not: {what}; last: {answer!r}") from None


class Site:
    """Everything a test of the kubelet touches."""

    def __init__(self, api, paths, authority, engine, images, settings):
        self.api = api
        self.paths = paths
        self.authority = authority
        self.engine = engine
        self.images = images
        self.settings = settings
        self._stack = AsyncExitStack()
        self.delays = {}
        self.parts = None
        self.kubelet = None

    async def start(self):
        """A kubelet, as a new control plane would start it."""
        informers = Informers(self.api)
        configuration = KubeletConfiguration(
            self.settings,
            self.paths,
            api_server="https://192.0.2.1:6443",
            **self.delays,
        )
        credentials = KubeletCredentials(
            self.authority.server_context(self.authority.kubelet), self.authority.token_key
        )
        self.parts = wire(
            KubeletDependencies(self.api, informers, self.engine, self.images),
            configuration,
            credentials,
            NodePrograms(self.paths.run / "agent.pyz"),
        )
        self.kubelet = Kubelet(self.parts, configuration, credentials.tls)
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(_running(informers.run(), self.kubelet.run()))
        await eventually(self.paths.endpoint.exists, "the kubelet listens")

    async def stop(self):
        await self._stack.aclose()
        self.paths.endpoint.unlink(missing_ok=True)

    async def restart(self, renewal=None, **backoffs):
        """A kubelet that waits as long as that before it tries again, or renews tokens."""
        self.delays = {"backoffs": Backoffs(**backoffs), "renewal": renewal or TokenRenewal()}
        await self.stop()
        await self.start()

    async def create(self, name="web", *containers, **spec):
        """A pod, bound to the node main unless it says otherwise; its uid."""
        metadata = spec.pop("metadata", {})
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {
                "nodeName": "main",
                "containers": list(containers) or [a_container(command=["true"])],
                **spec,
            },
        }
        created = await self.api.create(POD, pod, namespace="default")
        return created["metadata"]["uid"]

    async def pod(self, name="web"):
        return await self.api.get(POD, Key("default", name))

    async def until(self, probe, name="web", timeout=5.0):
        """The pod, once `probe(pod)` is true."""

        async def seen():
            pod = await self.pod(name)
            return pod if probe(pod) else None

        return await eventually(seen, f"pod {name} as expected", timeout)

    async def until_phase(self, phase, name="web"):
        return await self.until(lambda pod: pod["status"].get("phase") == phase, name)

    async def is_gone(self, name="web"):
        try:
            await self.pod(name)
        except NotFound:
            return True
        return False

    async def submitted(self, name="web"):
        """The pod, once it has a job."""
        return await self.until(lambda pod: "slurm.orlop.dev/job-id" in _notes(pod), name)

    def folder(self, name="web"):
        [found] = self.paths.pods.glob(f"default_{name}_*")
        return found

    async def events(self, name="web"):
        found = await self.api.list(EVENT, "default")
        about = [item for item in found.items if item["involvedObject"]["name"] == name]
        return [(item["type"], item["reason"], item["message"]) for item in about]

    async def told(self, reason, name="web"):
        """The events with that reason."""
        return [event for event in await self.events(name) if event[1] == reason]

    def silent_agent(self, name="web"):
        """One that has no line, and writes to its journal only."""
        return FakeAgent(self.folder(name))

    async def node(self, name="main"):
        return await self.api.get(NODE, Key("", name))

    async def agent(self, name="web"):
        """An agent of the pod that is connected and welcome."""
        job = (await self.submitted(name))["metadata"]["annotations"]["slurm.orlop.dev/job-id"]
        agent = FakeAgent(self.folder(name), job)
        answer = await agent.dial(self.authority.client_context())
        assert answer == "HTTP/1.1 101 Switching Protocols"
        await agent.hello()
        return agent


def _notes(pod):
    return pod["metadata"].get("annotations") or {}


def condition(obj, kind):
    found = [c for c in obj["status"].get("conditions", []) if c["type"] == kind]
    return found[0] if found else {}


def waiting(pod):
    statuses = pod["status"].get("containerStatuses") or [{}]
    return statuses[0].get("state", {}).get("waiting", {})


@asynccontextmanager
async def _running(*works):
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
        for task in tasks:
            assert not task.done() or task.exception() is None, task.exception()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def quick(monkeypatch):
    """Waits that are meant for people and file systems, shortened."""
    monkeypatch.setattr(job_poller, "SOON", 0.01)
    monkeypatch.setattr(job_poller, "SPACING", 0.02)
    monkeypatch.setattr(reporter, "LAST_WORD", 0.1)
    monkeypatch.setattr(job_ending, "RETRY", 0.05)
    monkeypatch.setattr(health, "TOLD_AFTER", 0.05)


@pytest.fixture
def settings():
    return Settings(listen="127.0.0.1", slurm=SlurmSettings(busy_tick=0.05, idle_tick=0.2))


@pytest.fixture
def signing_key():
    """Without one there are no tokens, and nothing is mounted into pods by itself."""
    return


@pytest.fixture
async def bare_site(tmp_path, authority, schema, settings, quick, signing_key):
    """A site whose kubelet has not been started."""
    paths = Paths(tmp_path / "home")
    for folder in (paths.pods, paths.run):
        folder.mkdir(parents=True)
    paths.cluster_uid.write_text("cluster-1\n")
    (paths.home / "pki").symlink_to(authority.ca.parent)
    store = await Store.open(tmp_path / "state.db")
    server = ApiServer(store, schema=schema, signing_key=signing_key)
    await server.prepare()
    api = server.client("system:test", ["system:masters"])
    site = Site(api, paths, authority, FakeEngine(), FakeImages(), settings)
    yield site
    await site.stop()
    FakeAgent.cut_all()
    await server.stop()
    await store.close()


@pytest.fixture
async def site(bare_site):
    await bare_site.start()
    await eventually(lambda: _has_nodes(bare_site), "the nodes are registered")
    return bare_site


async def _has_nodes(site):
    return len((await site.api.list(NODE)).items) == 2
