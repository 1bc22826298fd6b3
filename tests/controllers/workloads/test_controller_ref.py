"""Who controls what, also when several want it."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api import selectors
from orlop.api.kinds import POD, REPLICA_SET
from orlop.api.objects import controller_of, is_active, key_of, meta, owner_reference, uid_of
from orlop.controllers.framework.controller import BY_CONTROLLER, by_controller, without_controller
from orlop.controllers.workloads.controller_ref import Claims
from tests.controllers.world import World, pod, workload

HOLD = "example.com/hold"


@pytest.fixture
async def owner(cluster: World) -> dict:
    return await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web"))


class Claiming:
    """Claims on a running informer."""

    def __init__(self, cluster: World, informers, **options) -> None:
        self.pods = informers.informer(POD)
        self.pods.add_index(BY_CONTROLLER, by_controller)
        self.claims = Claims(cluster.api, self.pods, REPLICA_SET, **options)

    async def __call__(self, owner: dict, **options) -> list[str]:
        await self.pods.synced()
        selector = selectors.from_structure(owner["spec"]["selector"])
        found = await self.claims.claim(owner, selector, **options)
        return sorted(meta(one)["name"] for one in found)


def owned(name: str, owner: dict, label: str = "web", **metadata) -> dict:
    made = pod(name, labels={"app": label})
    made["metadata"] |= {"ownerReferences": [owner_reference(owner)], **metadata}
    return made


async def test_mine_strangers_and_orphans(cluster, owner):
    other = await cluster.create(REPLICA_SET, workload(REPLICA_SET, "other"))
    await cluster.create(POD, owned("mine", owner))
    await cluster.create(POD, owned("theirs", other))
    await cluster.create(POD, pod("orphan", labels={"app": "web"}))
    await cluster.create(POD, pod("stranger", labels={"app": "else"}))
    async with cluster.running() as informers:
        assert await Claiming(cluster, informers)(owner) == ["mine", "orphan"]
    assert controller_of(await cluster.get(POD, "orphan"))["uid"] == uid_of(owner)
    assert controller_of(await cluster.get(POD, "stranger")) is None
    assert controller_of(await cluster.get(POD, "theirs"))["uid"] == uid_of(other)


async def test_what_no_longer_matches_is_released_with_its_finalizer(cluster, owner):
    await cluster.create(POD, owned("astray", owner, "else", finalizers=[HOLD, "example.com/else"]))
    async with cluster.running() as informers:
        assert await Claiming(cluster, informers, finalizer=HOLD)(owner) == []
    released = await cluster.get(POD, "astray")
    assert controller_of(released) is None
    assert meta(released)["finalizers"] == ["example.com/else"]


async def test_an_adopted_one_is_held_where_its_owner_holds_its_own(cluster, owner):
    await cluster.create(POD, pod("orphan", labels={"app": "web"}))
    async with cluster.running() as informers:
        await Claiming(cluster, informers, finalizer=HOLD)(owner)
    assert meta(await cluster.get(POD, "orphan"))["finalizers"] == [HOLD]


async def test_an_owner_that_is_going_adopts_and_releases_nothing(cluster, owner):
    await cluster.create(POD, pod("orphan", labels={"app": "web"}))
    await cluster.create(POD, owned("astray", owner, "else"))
    leaving = {**owner, "metadata": {**meta(owner), "deletionTimestamp": "now"}}
    async with cluster.running() as informers:
        assert await Claiming(cluster, informers)(leaving) == ["astray"]
    assert controller_of(await cluster.get(POD, "orphan")) is None


async def test_an_owner_that_is_gone_though_the_cache_does_not_know_adopts_nothing(cluster, owner):
    await cluster.create(POD, pod("orphan", labels={"app": "web"}))
    await cluster.api.delete(REPLICA_SET, key_of(owner))
    async with cluster.running() as informers:
        claim = Claiming(cluster, informers)
        with pytest.raises(errors.NotFound):
            await claim(owner)
        await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web"))
        assert await claim(owner) == []
    assert controller_of(await cluster.get(POD, "orphan")) is None


async def test_an_orphan_that_another_took_meanwhile_is_theirs(cluster, owner):
    made = await cluster.create(POD, pod("orphan", labels={"app": "web"}))
    other = await cluster.create(REPLICA_SET, workload(REPLICA_SET, "other"))
    async with cluster.running() as informers:
        claim = Claiming(cluster, informers)
        await claim.pods.seen(made)
        taken = {"metadata": {"ownerReferences": [owner_reference(other)]}}
        await cluster.patch(POD, "orphan", taken)
        if claim.pods.by_index(BY_CONTROLLER, without_controller("default")):
            with pytest.raises(errors.Conflict):
                await claim(owner)
    assert controller_of(await cluster.get(POD, "orphan"))["uid"] == uid_of(other)


async def test_only_what_is_wanted_is_looked_at(cluster, owner):
    await cluster.create(POD, owned("alive", owner))
    await cluster.create(POD, owned("ended", owner, "else"))
    await cluster.patch(POD, "ended", {"status": {"phase": "Failed"}}, subresource="status")
    async with cluster.running() as informers:
        assert await Claiming(cluster, informers)(owner, wanted=is_active) == ["alive"]
    assert controller_of(await cluster.get(POD, "ended")) is not None
