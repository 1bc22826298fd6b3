"""Cascading deletion in its three modes, and what must never be deleted."""

from __future__ import annotations

import pytest

from orlop.api.kinds import CLUSTER_ROLE, CONFIG_MAP, DEPLOYMENT, EVENT, NAMESPACE, POD, REPLICA_SET
from orlop.api.objects import Key, is_active, is_deleting, key_of, meta, uid_of
from orlop.controllers.gc.garbage_collector import FOREGROUND, GarbageCollector
from orlop.controllers.workloads.deployment.controller import Deployments
from orlop.controllers.workloads.replicaset import ReplicaSets
from tests.controllers.world import Kubelet, World, eventually, stays, workload


def collector(cluster: World):
    return lambda informers: GarbageCollector(cluster.api, informers)


def all_parts(cluster: World):
    return (
        lambda informers: Deployments(cluster.api, informers),
        lambda informers: ReplicaSets(cluster.api, informers),
        lambda informers: Kubelet(cluster.api, informers),
        collector(cluster),
    )


def config(name: str, *owners: dict, block: bool = True) -> dict:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": meta(owner)["name"],
            "uid": uid_of(owner),
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    metadata = {"name": name, "namespace": "default", "ownerReferences": references}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def make(cluster: World, name: str, *owners: dict, **options) -> dict:
    return await cluster.create(CONFIG_MAP, config(name, *owners, **options))


async def exists(cluster: World, *names: str) -> bool:
    found = {meta(one)["name"] for one in await cluster.list(CONFIG_MAP)}
    return set(names) <= found


async def only(cluster: World, *names: str) -> bool:
    return {meta(one)["name"] for one in await cluster.list(CONFIG_MAP)} == set(names)


async def running_deployment(cluster: World) -> None:
    await cluster.create(DEPLOYMENT, workload(DEPLOYMENT, "web", replicas=4))

    async def is_up():
        deployment = await cluster.get(DEPLOYMENT, "web")
        return (deployment.get("status") or {}).get("availableReplicas") == 4

    await eventually(is_up)


async def test_in_the_background_the_owner_goes_first_and_all_that_it_made_follows(cluster):
    async with cluster.running(*all_parts(cluster)):
        await running_deployment(cluster)
        await cluster.api.delete(DEPLOYMENT, Key("default", "web"), propagation="Background")
        assert await cluster.find(DEPLOYMENT, "web") is None

        async def is_empty():
            return not await cluster.list(REPLICA_SET) and not await cluster.list(POD)

        await eventually(is_empty)


async def test_in_the_foreground_the_owner_stays_until_all_that_it_made_is_gone(cluster):
    async with cluster.running(*all_parts(cluster)) as informers:
        await running_deployment(cluster)
        order: list[str] = []
        for kind in (DEPLOYMENT, REPLICA_SET, POD):
            informers.informer(kind).subscribe(
                lambda event, _: (
                    order.append(event.object["kind"]) if event.type == "DELETED" else None
                )
            )
        await cluster.api.delete(DEPLOYMENT, Key("default", "web"), propagation="Foreground")

        async def is_gone():
            return await cluster.find(DEPLOYMENT, "web") is None and len(order) == 6

        await eventually(is_gone)
    assert order == ["Pod"] * 4 + ["ReplicaSet", "Deployment"]


async def test_orphans_stay_and_lose_only_their_reference(cluster):
    async with cluster.running(*all_parts(cluster)):
        await running_deployment(cluster)
        before = {uid_of(one) for one in await cluster.list(POD)}
        await cluster.api.delete(DEPLOYMENT, Key("default", "web"), propagation="Orphan")

        async def is_orphaned():
            assert await cluster.find(DEPLOYMENT, "web") is None
            (replica_set,) = await cluster.list(REPLICA_SET)
            return not meta(replica_set).get("ownerReferences")

        await eventually(is_orphaned)

        async def all_there():
            pods = await cluster.list(POD)
            return {uid_of(one) for one in pods} == before and all(map(is_active, pods))

        await stays(all_there)


async def test_a_dependent_of_an_owner_that_never_was_is_deleted(cluster):
    ghost = {**config("ghost"), "metadata": {"name": "ghost", "uid": "no-such-uid"}}
    await make(cluster, "lost", ghost)
    await make(cluster, "free")
    async with cluster.running(collector(cluster)):
        await eventually(lambda: only(cluster, "free"))


async def test_an_owner_of_the_same_name_but_another_uid_is_another(cluster):
    former = await make(cluster, "owner")
    await cluster.api.delete(CONFIG_MAP, key_of(former))
    await make(cluster, "owner")
    await make(cluster, "lost", former)
    async with cluster.running(collector(cluster)):
        await eventually(lambda: only(cluster, "owner"))


async def test_with_one_of_two_owners_left_a_dependent_stays_without_the_other(cluster):
    one, other = await make(cluster, "one"), await make(cluster, "other")
    await make(cluster, "child", one, other)
    async with cluster.running(collector(cluster)):
        await cluster.api.delete(CONFIG_MAP, key_of(one))

        async def has_one_owner():
            (left,) = meta(await cluster.get(CONFIG_MAP, "child"))["ownerReferences"]
            return left["uid"] == uid_of(other)

        await eventually(has_one_owner)
        await cluster.api.delete(CONFIG_MAP, key_of(other))
        await eventually(lambda: only(cluster))


async def test_a_dependent_that_does_not_block_is_deleted_after_its_owner(cluster):
    owner = await make(cluster, "owner")
    await make(cluster, "child", owner, block=False)
    async with cluster.running(collector(cluster)):
        await cluster.api.delete(CONFIG_MAP, key_of(owner), propagation="Foreground")
        await eventually(lambda: only(cluster))


async def test_a_held_dependent_holds_its_owner(cluster):
    owner = await make(cluster, "owner")
    child = config("child", owner)
    child["metadata"]["finalizers"] = ["example.com/hold"]
    await cluster.create(CONFIG_MAP, child)
    async with cluster.running(collector(cluster)):
        await cluster.api.delete(CONFIG_MAP, key_of(owner), propagation="Foreground")

        async def both_wait():
            found = await cluster.get(CONFIG_MAP, "child")
            assert meta(await cluster.get(CONFIG_MAP, "owner"))["finalizers"] == [FOREGROUND]
            return is_deleting(found)

        await eventually(both_wait)
        await stays(both_wait)
        await cluster.patch(CONFIG_MAP, "child", {"metadata": {"finalizers": None}})
        await eventually(lambda: only(cluster))


async def test_a_circle_of_owners_can_be_deleted_in_the_foreground(cluster):
    one = await make(cluster, "one")
    other = await make(cluster, "other", one)
    back = config("one", other)["metadata"]["ownerReferences"]
    await cluster.patch(CONFIG_MAP, "one", {"metadata": {"ownerReferences": back}})
    async with cluster.running(collector(cluster)):
        await cluster.api.delete(CONFIG_MAP, key_of(one), propagation="Foreground")
        await eventually(lambda: only(cluster))


async def test_chains_are_deleted_to_their_end(cluster):
    parent = await make(cluster, "c0")
    for number in range(1, 6):
        parent = await make(cluster, f"c{number}", parent)
    async with cluster.running(collector(cluster)):
        await cluster.api.delete(CONFIG_MAP, Key("default", "c0"))
        await eventually(lambda: only(cluster))


async def test_an_owner_in_another_namespace_is_no_owner(cluster):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    await cluster.create(NAMESPACE, namespace)
    owner = {**config("owner"), "metadata": {"name": "owner", "namespace": "other"}}
    owner = await cluster.create(CONFIG_MAP, owner, "other")
    await make(cluster, "child", owner)
    async with cluster.running(collector(cluster)):
        await eventually(lambda: only(cluster))
        reasons = [one["reason"] for one in await cluster.list(EVENT)]
        assert "OwnerRefInvalidNamespace" in reasons
        assert await cluster.find(CONFIG_MAP, "owner", "other") is not None


async def test_a_cluster_scoped_object_with_a_namespaced_owner_is_left_alone(cluster):
    owner = await make(cluster, "owner")
    references = config("x", owner)["metadata"]["ownerReferences"]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "role", "ownerReferences": references},
        "rules": [],
    }
    await cluster.create(CLUSTER_ROLE, role)
    async with cluster.running(collector(cluster)):

        async def told():
            reasons = [one["reason"] for one in await cluster.list(EVENT)]
            return "OwnerRefInvalidNamespace" in reasons

        await eventually(told)
        await stays(lambda: cluster.get(CLUSTER_ROLE, "role"), 0.1)


async def test_an_owner_of_an_unknown_kind_protects_its_dependents(cluster):
    unknown = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "uid": "u"},
    }
    await make(cluster, "child", unknown)
    async with cluster.running(collector(cluster)):
        await stays(lambda: exists(cluster, "child"))


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_what_was_left_half_deleted_is_finished_after_a_restart(cluster, propagation):
    owner = await make(cluster, "owner")
    for number in range(20):
        await make(cluster, f"child{number}", owner)
    await cluster.api.delete(CONFIG_MAP, key_of(owner), propagation=propagation)
    for _ in range(3):
        async with cluster.running(collector(cluster)):
            pass
    async with cluster.running(collector(cluster)):
        await eventually(lambda: only(cluster))
