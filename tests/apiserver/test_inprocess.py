"""The in-process client: the same interface, fresh copies, no way to harm the store."""

from __future__ import annotations

import asyncio

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key

A = Key("default", "a")


async def test_objects_that_come_out_belong_to_the_caller(local, config_map) -> None:
    made = await local.create(kinds.CONFIG_MAP, config_map("a", {"k": "v"}))
    for obj in (
        made,
        await local.get(kinds.CONFIG_MAP, A),
        (await local.list(kinds.CONFIG_MAP)).items[0],
    ):
        obj["data"]["k"] = "changed"
        obj["metadata"]["labels"] = {"x": "y"}
    found = await local.get(kinds.CONFIG_MAP, A)
    assert found["data"] == {"k": "v"}
    assert "labels" not in found["metadata"]


async def test_objects_that_go_in_stay_the_callers(local, config_map) -> None:
    made = await local.create(kinds.CONFIG_MAP, config_map("a"))
    made["data"] = {"new": "1"}
    sent = {**made, "data": dict(made["data"])}
    await local.update(kinds.CONFIG_MAP, made)
    assert made == sent
    made["data"]["later"] = "2"
    assert (await local.get(kinds.CONFIG_MAP, A))["data"] == {"new": "1"}
    patch = {"data": {"new": None}}
    await local.patch(kinds.CONFIG_MAP, A, patch)
    assert patch == {"data": {"new": None}}


async def test_a_namespace_may_be_in_the_object_or_beside_it(local) -> None:
    await local.create(kinds.CONFIG_MAP, {"metadata": {"name": "a"}}, namespace="default")
    await local.create(kinds.CONFIG_MAP, {"metadata": {"name": "b", "namespace": "default"}})
    found = await local.list(kinds.CONFIG_MAP, "default")
    assert [obj["metadata"]["name"] for obj in found.items] == ["a", "b"]


async def test_lists_and_watches_are_selected(local, config_map) -> None:
    listed = await local.list(kinds.CONFIG_MAP, "default", labels="on", fields="metadata.name=b")
    assert listed.items == []
    events = local.watch(
        kinds.CONFIG_MAP, "default", resource_version=listed.resource_version, labels="on"
    )
    await local.create(kinds.CONFIG_MAP, config_map("a"))
    await local.create(kinds.CONFIG_MAP, config_map("b", labels={"on": "1"}))
    async with asyncio.timeout(5):
        event = await anext(events)
    assert (event.type, event.object["metadata"]["name"]) == ("ADDED", "b")
    await events.aclose()


async def test_a_watch_that_is_left_is_closed(site, local) -> None:
    events = local.watch(kinds.POD, resource_version=str(site.store.revision))
    task = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0.01)
    assert len(site.server.registry.watches) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(site.server.registry.watches) == 0


async def test_a_watch_ends_with_the_server(site, local) -> None:
    async def read() -> None:
        async for _ in local.watch(kinds.POD, resource_version=str(site.store.revision)):
            pass

    reader = asyncio.ensure_future(read())
    await asyncio.sleep(0.01)
    await site.server.stop()
    await asyncio.wait_for(reader, 2)


@pytest.mark.parametrize("subresource", ["exec", "none", "status"])
async def test_what_cannot_be_posted_is_not_found(local, pod, subresource) -> None:
    await local.create(kinds.POD, pod("a"))
    with pytest.raises(errors.NotFound):
        await local.create_subresource(kinds.POD, A, subresource, {})


async def test_a_scale_is_updated_and_patched(local) -> None:
    template = {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await local.create(kinds.REPLICA_SET, {"metadata": {"name": "a", "namespace": "default"},
                                           "spec": spec})  # fmt: skip
    scaled = await local.patch(kinds.REPLICA_SET, A, {"spec": {"replicas": 3}}, subresource="scale")
    assert (scaled["kind"], scaled["spec"]["replicas"]) == ("Scale", 3)
    scaled["spec"]["replicas"] = 4
    await local.update(kinds.REPLICA_SET, scaled, subresource="scale")
    assert (await local.get(kinds.REPLICA_SET, A))["spec"]["replicas"] == 4


async def test_components_are_not_asked_whether_they_may(site, config_map) -> None:
    """They are part of the control plane; who acts is known to admission all the same."""
    nobody = site.server.client("system:kubelet")
    assert (await nobody.create(kinds.CONFIG_MAP, config_map("a")))["metadata"]["uid"]
