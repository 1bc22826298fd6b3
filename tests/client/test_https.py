"""The HTTPS transport against our own server: it must not be told from the in-process one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from orlop import errors, pki
from orlop.api.kinds import CONFIG_MAP, DEPLOYMENT, NAMESPACE, POD
from orlop.api.objects import Key, meta, uid_of
from orlop.api.schema import Schema
from orlop.apiserver import ApiServer
from orlop.client.https import PAGE, HttpsApi
from orlop.client.informer import Informers
from orlop.store import Limits, Store
from tests.controllers.world import pod, workload

KEPT = 10  # changes of a kind that can still be watched


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.ensure(tmp_path_factory.mktemp("pki"), ["localhost", "127.0.0.1"])


@pytest.fixture
def page() -> int:
    return PAGE


@pytest.fixture
async def api(
    tmp_path: Path, schema: Schema, authority: pki.Pki, page: int
) -> AsyncIterator[HttpsApi]:
    folder = authority.folder
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    tls.load_cert_chain(folder / "apiserver.crt", folder / "apiserver.key")
    tls.verify_mode = ssl.CERT_OPTIONAL
    mine = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    mine.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    store = await Store.open(tmp_path / "state.db", limits=Limits(KEPT))
    server = ApiServer(store, tls=tls, schema=schema)
    port = await server.start("127.0.0.1", 0)
    async with HttpsApi(f"https://127.0.0.1:{port}", tls=mine, page=page) as api:
        yield api
    await server.stop()
    await store.close()


def config(name: str, **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_an_object_is_made_read_changed_and_deleted(api: HttpsApi):
    made = await api.create(CONFIG_MAP, config("a", k="1"), namespace="default")
    key = Key("default", "a")
    assert await api.get(CONFIG_MAP, key) == made
    made["data"]["k"] = "2"
    assert (await api.update(CONFIG_MAP, made))["data"] == {"k": "2"}
    assert (await api.patch(CONFIG_MAP, key, {"data": {"l": "3"}}))["data"] == {"k": "2", "l": "3"}
    operations = [{"op": "remove", "path": "/data/k"}]
    patched = await api.patch(CONFIG_MAP, key, operations, patch_type="json")
    assert patched["data"] == {"l": "3"}
    await api.delete(CONFIG_MAP, key, uid=uid_of(made))
    with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
        await api.get(CONFIG_MAP, key)


async def test_a_strategic_patch_merges_containers_by_name(api: HttpsApi):
    await api.create(DEPLOYMENT, workload(DEPLOYMENT, "web"), namespace="default")
    containers = [{"name": "main", "workingDir": "/tmp"}]
    change = {"spec": {"template": {"spec": {"containers": containers}}}}
    patched = await api.patch(DEPLOYMENT, Key("default", "web"), change, patch_type="strategic")
    (container,) = patched["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["workingDir"]) == ("busybox", "/tmp")


async def test_subresources_have_their_own_paths(api: HttpsApi):
    await api.create(POD, pod("a"))
    key = Key("default", "a")
    binding = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n1"}}
    await api.create_subresource(POD, key, "binding", {**binding, "metadata": {"name": "a"}})
    status = {"status": {"phase": "Running"}}
    running = await api.patch(POD, key, status, subresource="status")
    assert (running["spec"]["nodeName"], running["status"]["phase"]) == ("n1", "Running")
    deleting = await api.delete(POD, key, grace=5)
    assert meta(deleting)["deletionGracePeriodSeconds"] == 5


@pytest.mark.parametrize("page", [3])
async def test_lists_are_read_page_by_page_and_items_say_what_they_are(api: HttpsApi, page: int):
    for number in range(8):
        await api.create(CONFIG_MAP, config(f"a{number}"), namespace="default")
    listed = await api.list(CONFIG_MAP, "default")
    names = [meta(one)["name"] for one in listed.items if meta(one)["name"].startswith("a")]
    assert names == [f"a{number}" for number in range(8)]
    assert {(one["apiVersion"], one["kind"]) for one in listed.items} == {("v1", "ConfigMap")}
    assert int(listed.resource_version) > 0
    one = await api.list(CONFIG_MAP, fields="metadata.name=a3")
    assert [meta(found)["name"] for found in one.items] == ["a3"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda api: api.get(POD, Key("default", "no")), errors.NotFound),
        (lambda api: api.create(CONFIG_MAP, config("A_"), namespace="default"), errors.Invalid),
        (lambda api: api.create(NAMESPACE, _namespace("default")), errors.AlreadyExists),
        (lambda api: api.update(NAMESPACE, _namespace("default", "1")), errors.Conflict),
        (lambda api: api.list(POD, labels="a in b"), errors.BadRequest),
    ],
    ids=["not found", "invalid", "already exists", "conflict", "bad request"],
)
async def test_failures_are_of_the_class_that_the_server_meant(api: HttpsApi, call, error):
    with pytest.raises(error):
        await call(api)


def _namespace(name: str, version: str = "") -> dict:
    metadata = {"name": name, **({"resourceVersion": version} if version else {})}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


async def test_a_watch_brings_changes_also_large_ones(api: HttpsApi):
    start = (await api.list(CONFIG_MAP)).resource_version
    large = "x" * 300_000
    await api.create(CONFIG_MAP, config("a", k=large), namespace="default")
    async with asyncio.timeout(5):
        async for event in api.watch(CONFIG_MAP, "default", resource_version=start):
            assert (event.type, meta(event.object)["name"]) == ("ADDED", "a")
            assert event.object["data"]["k"] == large
            break


async def test_an_informer_over_https_follows_like_one_in_process(api: HttpsApi):
    informers = Informers(api)
    task = asyncio.ensure_future(informers.run())
    informer = informers.informer(CONFIG_MAP)
    for number in range(5):
        await informer.seen(await api.create(CONFIG_MAP, config(f"a{number}"), namespace="default"))
    assert informer.get(Key("default", "a4")) is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_expired_revision_is_gone(api: HttpsApi):
    start = (await api.list(CONFIG_MAP)).resource_version
    for number in range(20):
        await api.create(CONFIG_MAP, config(f"a{number}"), namespace="default")
    watch = api.watch(CONFIG_MAP, resource_version=start)
    with pytest.raises(errors.Gone):
        await anext(watch)


async def test_nobody_there_is_unavailable():
    async with HttpsApi("https://127.0.0.1:1", timeout=2) as api:
        with pytest.raises(errors.Unavailable):
            await api.get(POD, Key("default", "a"))
        with pytest.raises(errors.Unavailable):
            async for _ in api.watch(POD, resource_version="1"):
                pass


@pytest.mark.parametrize(
    ("code", "body", "error"),
    [
        (502, "<html>bad gateway</html>", errors.InternalError),
        (503, "", errors.Unavailable),
        (401, "who?", errors.Unauthorized),
        (200, "not json", errors.InternalError),
        (410, '{"kind":"Status","reason":"Expired","code":410,"message":"old"}', errors.Gone),
    ],
)
async def test_what_a_proxy_on_the_way_says_is_understood(code, body, error):
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=code, text=body)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with HttpsApi(f"http://127.0.0.1:{port}", token="t") as api:
        with pytest.raises(error):
            await api.get(POD, Key("default", "a"))
    await runner.cleanup()
