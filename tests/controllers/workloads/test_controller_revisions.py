"""Past templates are kept, found again, and forgotten in order."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api.kinds import CONTROLLER_REVISION, STATEFUL_SET
from orlop.api.objects import meta, uid_of
from orlop.controllers.workloads.controller_revisions import History, data_of, template_of
from orlop.controllers.workloads.deployment.revisions import template_hash
from tests.controllers.world import World, workload


async def owner(cluster: World, **spec) -> dict:
    return await cluster.create(
        STATEFUL_SET, workload(STATEFUL_SET, "db", serviceName="db", **spec)
    )


async def tagged(cluster: World, tag: str) -> dict:
    containers = [{"name": "main", "image": f"busybox:{tag}"}]
    change = {"spec": {"template": {"spec": {"containers": containers}}}}
    return await cluster.patch(STATEFUL_SET, "db", change)


async def test_a_template_has_one_revision_however_often_it_is_asked_for(cluster):
    made = await owner(cluster)
    async with cluster.running() as informers:
        history = History(cluster.api, informers, STATEFUL_SET)
        await informers.synced()
        first = await history.sync(made, 0)
        again = await history.sync(made, 0)
    assert uid_of(first.update) == uid_of(again.update)
    assert (first.update["revision"], len(again.all)) == (1, 1)
    assert template_of(first.update) == made["spec"]["template"]
    assert first.named(meta(first.update)["name"]) is first.update
    assert first.named("other") is None


async def test_what_comes_back_becomes_the_latest(cluster):
    await owner(cluster)
    async with cluster.running() as informers:
        history = History(cluster.api, informers, STATEFUL_SET)
        await informers.synced()
        numbers = []
        for tag in ("1", "2", "3", "1"):
            revisions = await history.sync(await tagged(cluster, tag), 0)
            numbers.append(revisions.update["revision"])
    assert numbers == [1, 2, 3, 4]
    assert sorted(one["revision"] for one in revisions.all) == [2, 3, 4]


async def test_the_oldest_that_nobody_uses_go_first(cluster):
    made = await owner(cluster, revisionHistoryLimit=1)
    async with cluster.running() as informers:
        history = History(cluster.api, informers, STATEFUL_SET)
        await informers.synced()
        names = []
        for tag in ("1", "2", "3", "4"):
            revisions = await history.sync(await tagged(cluster, tag), 0)
            names.append(meta(revisions.update)["name"])
        await history.trim(made, revisions, {names[0], names[3]})
        left = {meta(one)["name"] for one in await cluster.list(CONTROLLER_REVISION)}
    assert left == {names[0], names[2], names[3]}


async def test_a_stranger_of_the_same_name_is_a_collision(cluster):
    made = await owner(cluster)
    stranger = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": f"db-{template_hash(data_of(made))}", "namespace": "default"},
        "data": {"else": 1},
        "revision": 1,
    }
    await cluster.create(CONTROLLER_REVISION, stranger)
    async with cluster.running() as informers:
        history = History(cluster.api, informers, STATEFUL_SET)
        await informers.synced()
        with pytest.raises(errors.AlreadyExists):
            await history.sync(made, 0)
        revisions = await history.sync(made, 1)
    assert meta(revisions.update)["name"] != stranger["metadata"]["name"]


async def test_the_data_is_a_patch_that_brings_the_template_back(cluster):
    made = await owner(cluster)
    await tagged(cluster, "2")
    patched = await cluster.patch(STATEFUL_SET, "db", data_of(made), patch_type="strategic")
    assert patched["spec"]["template"] == made["spec"]["template"]
