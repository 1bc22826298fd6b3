"""Controllers and scheduler as strangers: over HTTPS, as they would be at any Kubernetes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orlop import pki
from orlop.api.kinds import DEPLOYMENT, JOB, NAMESPACE, NODE, POD, STATEFUL_SET
from orlop.api.objects import Key, condition_of
from orlop.api.schema import Schema
from orlop.apiserver import ApiServer
from orlop.client.https import HttpsApi
from orlop.controllers.framework.manager import ControllerManager
from orlop.scheduler import Scheduler
from orlop.store import Limits, Store
from tests.controllers.world import Kubelet, Quota, World, eventually, job, workload
from tests.scheduler.nodes import a_node

pytestmark = pytest.mark.timeout(300)
_PATIENCE = 120.0  # seconds; with idle cores each wait is over within two


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.ensure(tmp_path_factory.mktemp("pki"), ["localhost", "127.0.0.1"])


@pytest.fixture
async def remote(tmp_path: Path, schema: Schema, authority: pki.Pki) -> AsyncIterator[World]:
    """A world whose only way in is HTTPS, and which forgets its past quickly."""
    store = await Store.open(tmp_path / "state.db", limits=Limits(events=200))
    server = ApiServer(store, tls=authority.server_context(authority.apiserver), schema=schema)
    port = await server.start("127.0.0.1", 0)
    tls = authority.client_context(authority.admin)
    async with HttpsApi(f"https://127.0.0.1:{port}", tls=tls) as api:
        yield World(store, server, api, Quota())
    await server.stop()
    await store.close()


def parts(remote: World):
    return (
        lambda informers: ControllerManager(remote.api, informers, root_ca="PEM"),
        lambda informers: Scheduler(remote.api, informers),
        lambda informers: Kubelet(remote.api, informers, binds=False),
    )


async def add_node(remote: World) -> None:
    node = a_node("main", default=True)
    await remote.create(NODE, {key: value for key, value in node.items() if key != "status"})
    status = {"status": node["status"]}
    await remote.api.patch(NODE, Key("", "main"), status, subresource="status")


async def test_workloads_live_and_die_over_https(remote: World):
    await add_node(remote)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}}
    await remote.create(NAMESPACE, namespace)
    async with remote.running(*parts(remote)):
        await remote.create(JOB, job("work", completions=10, parallelism=4))
        await remote.create(DEPLOYMENT, workload(DEPLOYMENT, "web", replicas=4))
        data = workload(STATEFUL_SET, "db", replicas=2, serviceName="db")
        data["metadata"]["namespace"] = "room"
        await remote.create(STATEFUL_SET, data, "room")

        async def all_up():
            complete = condition_of(await remote.get(JOB, "work"), "Complete")
            assert complete is not None
            web = (await remote.get(DEPLOYMENT, "web"))["status"]
            data = (await remote.get(STATEFUL_SET, "db", "room"))["status"]
            return web["availableReplicas"] == 4 and data["availableReplicas"] == 2

        await eventually(all_up, within=_PATIENCE)
        assert (await remote.get(JOB, "work"))["status"]["succeeded"] == 10
        await remote.api.delete(DEPLOYMENT, Key("default", "web"), propagation="Foreground")
        await remote.api.delete(NAMESPACE, Key("", "room"))

        async def all_gone():
            assert await remote.find(DEPLOYMENT, "web") is None
            assert await remote.find(NAMESPACE, "room") is None
            return len(await remote.list(POD)) == 10

        await eventually(all_gone, within=_PATIENCE)


async def test_a_server_that_restarts_in_the_middle_is_followed_again(
    tmp_path: Path, schema: Schema, authority: pki.Pki
):
    async def serve(port: int) -> tuple[Store, ApiServer, int]:
        store = await Store.open(tmp_path / "state.db")
        tls = authority.server_context(authority.apiserver)
        server = ApiServer(store, tls=tls, schema=schema)
        return store, server, await server.start("127.0.0.1", port)

    served = [await serve(0)]
    store, server, port = served[0]
    tls = authority.client_context(authority.admin)
    async with HttpsApi(f"https://127.0.0.1:{port}", tls=tls, timeout=5) as api:
        remote = World(store, server, api, Quota())
        await add_node(remote)
        try:
            async with remote.running(*parts(remote)):
                await remote.create(JOB, job("work", completions=40, parallelism=4))

                async def has_begun():
                    return (await remote.get(JOB, "work"))["status"]["succeeded"] > 0

                await eventually(has_begun, within=_PATIENCE)
                await server.stop()
                await store.close()
                served[0] = await serve(port)
                remote.store = served[0][0]

                async def is_complete():
                    return condition_of(await remote.get(JOB, "work"), "Complete") is not None

                await eventually(is_complete, within=_PATIENCE)
                assert (await remote.get(JOB, "work"))["status"]["succeeded"] == 40
                assert len(await remote.list(POD)) == 40
        finally:
            await served[0][1].stop()
            await served[0][0].close()
