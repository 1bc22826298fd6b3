"""StatefulSets keep order, names, data and revisions."""

from __future__ import annotations

import asyncio
import random

import pytest

from orlop.api.kinds import CONTROLLER_REVISION, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET
from orlop.api.objects import Key, is_active, is_ready, key_of, labels_of, meta, uid_of
from orlop.controllers.gc.garbage_collector import GarbageCollector
from orlop.controllers.storage.storage_protection import ClaimProtection
from orlop.controllers.workloads.statefulset.controller import StatefulSets
from tests.controllers.world import Kubelet, World, eventually, stays, workload

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def parts(cluster: World, **kubelet):
    return (
        lambda informers: StatefulSets(cluster.api, informers),
        lambda informers: ClaimProtection(cluster.api, informers),
        lambda informers: Kubelet(cluster.api, informers, **kubelet),
    )


def db(**spec) -> dict:
    return workload(STATEFUL_SET, "db", **{"replicas": 3, "serviceName": "db", **spec})


def image(name: str) -> dict:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


async def names(cluster: World) -> list[str]:
    return sorted(meta(one)["name"] for one in await cluster.list(POD) if is_active(one))


async def uids(cluster: World) -> dict[str, str]:
    """Of claims, by name."""
    found = await cluster.list(PERSISTENT_VOLUME_CLAIM)
    return {meta(one)["name"]: uid_of(one) for one in found}


async def is_up(cluster: World, replicas: int = 3) -> bool:
    found = await cluster.get(STATEFUL_SET, "db")
    status = found.get("status") or {}
    return (
        status.get("observedGeneration") == meta(found)["generation"]
        and status.get("replicas") == replicas
        and status.get("availableReplicas") == replicas
        and status.get("updatedReplicas", 0) == replicas
        and status.get("currentRevision") == status.get("updateRevision")
    )


async def images(cluster: World) -> dict[str, str]:
    pods = [one for one in await cluster.list(POD) if is_active(one)]
    return {meta(one)["name"]: one["spec"]["containers"][0]["image"] for one in pods}


async def test_pods_come_one_after_the_other_each_when_the_last_is_ready(cluster):
    held = {"db-1"}
    await cluster.create(STATEFUL_SET, db())
    is_ready = lambda one: meta(one)["name"] not in held  # noqa: E731
    async with cluster.running(*parts(cluster, is_ready=is_ready)):

        async def only_two():
            return await names(cluster) == ["db-0", "db-1"]

        await eventually(only_two)
        await stays(only_two, 0.15)
        held.clear()
        await cluster.patch(POD, "db-1", {"metadata": {"annotations": {"look": "again"}}})
        await eventually(lambda: is_up(cluster))
        pod = await cluster.get(POD, "db-2")
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-2", "db")
        labels = labels_of(pod)
        assert labels["statefulset.kubernetes.io/pod-name"] == "db-2"
        assert labels["apps.kubernetes.io/pod-index"] == "2"
        status = (await cluster.get(STATEFUL_SET, "db"))["status"]
        assert labels["controller-revision-hash"] == status["currentRevision"]


async def test_in_parallel_all_come_at_once(cluster):
    await cluster.create(STATEFUL_SET, db(podManagementPolicy="Parallel"))
    async with cluster.running(*parts(cluster, is_ready=lambda _: False)):

        async def all_there():
            return await names(cluster) == ["db-0", "db-1", "db-2"]

        await eventually(all_there)


async def test_ordinals_may_start_elsewhere(cluster):
    await cluster.create(STATEFUL_SET, db(replicas=2, ordinals={"start": 5}))
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_up(cluster, 2))
        assert await names(cluster) == ["db-5", "db-6"]


async def test_scaling_down_ends_the_highest_first_and_one_at_a_time(cluster):
    await cluster.create(STATEFUL_SET, db(replicas=4))
    async with cluster.running(*parts(cluster)) as informers:
        await eventually(lambda: is_up(cluster, 4))
        gone: list[str] = []
        informers.informer(POD).subscribe(
            lambda event, _: (
                gone.append(meta(event.object)["name"]) if event.type == "DELETED" else None
            )
        )
        await cluster.patch(STATEFUL_SET, "db", {"spec": {"replicas": 1}})
        await eventually(lambda: is_up(cluster, 1))
    assert gone == ["db-3", "db-2", "db-1"]


async def test_a_deleted_pod_comes_back_under_its_name_with_its_claim(cluster):
    await cluster.create(STATEFUL_SET, db(volumeClaimTemplates=[CLAIM]))
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_up(cluster))
        claims = {
            meta(one)["name"]: uid_of(one) for one in await cluster.list(PERSISTENT_VOLUME_CLAIM)
        }
        assert sorted(claims) == ["data-db-0", "data-db-1", "data-db-2"]
        first = await cluster.get(POD, "db-1")
        (volume,) = [one for one in first["spec"]["volumes"] if one["name"] == "data"]
        assert volume["persistentVolumeClaim"]["claimName"] == "data-db-1"
        await cluster.api.delete(POD, Key("default", "db-1"))

        async def is_back():
            return uid_of(await cluster.get(POD, "db-1")) != uid_of(first) and await is_up(cluster)

        await eventually(is_back)
        now = {
            meta(one)["name"]: uid_of(one) for one in await cluster.list(PERSISTENT_VOLUME_CLAIM)
        }
        assert now == claims


async def test_a_pod_that_ended_is_made_anew(cluster):
    await cluster.create(STATEFUL_SET, db(replicas=1))
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_up(cluster, 1))
        first = uid_of(await cluster.get(POD, "db-0"))
        await cluster.patch(POD, "db-0", {"status": {"phase": "Failed"}}, subresource="status")

        async def is_new():
            return uid_of(await cluster.get(POD, "db-0")) != first and await is_up(cluster, 1)

        await eventually(is_new)


async def test_a_new_template_is_rolled_from_the_highest_down(cluster):
    await cluster.create(STATEFUL_SET, db())
    async with cluster.running(*parts(cluster)) as informers:
        await eventually(lambda: is_up(cluster))
        order: list[str] = []
        low = [3]

        def watch(event, previous):
            pods = informers.informer(POD).list()
            low[0] = min(low[0], sum(is_active(one) and is_ready(one) for one in pods))
            if event.type == "DELETED":
                order.append(meta(event.object)["name"])

        informers.informer(POD).subscribe(watch)
        await cluster.patch(STATEFUL_SET, "db", image("busybox:2"))
        await eventually(lambda: is_up(cluster))
    assert order == ["db-2", "db-1", "db-0"]
    assert low[0] == 2
    assert set((await images(cluster)).values()) == {"busybox:2"}
    revisions = sorted(await cluster.list(CONTROLLER_REVISION), key=lambda one: one["revision"])
    assert [one["revision"] for one in revisions] == [1, 2]
    assert revisions[1]["data"]["spec"]["template"]["$patch"] == "replace"


async def test_a_partition_keeps_the_lower_ordinals_as_they_were(cluster):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await cluster.create(STATEFUL_SET, db(updateStrategy=strategy))
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_up(cluster))
        await cluster.patch(STATEFUL_SET, "db", image("busybox:2"))

        async def is_split():
            return await images(cluster) == {
                "db-0": "busybox",
                "db-1": "busybox",
                "db-2": "busybox:2",
            }

        await eventually(is_split)
        await stays(is_split, 0.2)
        await cluster.api.delete(POD, Key("default", "db-0"))
        await eventually(is_split)
        status = (await cluster.get(STATEFUL_SET, "db"))["status"]
        assert status["currentRevision"] != status["updateRevision"]


async def test_on_delete_only_deleted_pods_are_of_the_new_template(cluster):
    await cluster.create(STATEFUL_SET, db(updateStrategy={"type": "OnDelete"}))
    async with cluster.running(*parts(cluster)):

        async def has_all():
            return (
                len(await names(cluster)) == 3
                and (await cluster.get(STATEFUL_SET, "db"))["status"].get("readyReplicas") == 3
            )

        await eventually(has_all)
        await cluster.patch(STATEFUL_SET, "db", image("busybox:2"))
        await cluster.api.delete(POD, Key("default", "db-1"))

        async def is_mixed():
            return await images(cluster) == {
                "db-0": "busybox",
                "db-1": "busybox:2",
                "db-2": "busybox",
            }

        await eventually(is_mixed)
        await stays(is_mixed, 0.2)


async def test_going_back_makes_the_old_revision_the_latest(cluster):
    await cluster.create(STATEFUL_SET, db(replicas=1))
    async with cluster.running(*parts(cluster)):
        for tag in ("busybox", "busybox:2", "busybox"):
            await cluster.patch(STATEFUL_SET, "db", image(tag))
            await eventually(lambda: is_up(cluster, 1))
        revisions = await cluster.list(CONTROLLER_REVISION)
        assert sorted(one["revision"] for one in revisions) == [2, 3]


@pytest.mark.parametrize(
    ("policy", "after_scaling", "after_deletion"),
    [
        ({}, 3, 3),
        ({"whenScaled": "Delete"}, 1, 1),
        ({"whenDeleted": "Delete"}, 3, 0),
        ({"whenScaled": "Delete", "whenDeleted": "Delete"}, 1, 0),
    ],
    ids=["retained", "scaled away", "with the set", "both"],
)
async def test_claims_are_kept_or_deleted_as_told(cluster, policy, after_scaling, after_deletion):
    spec = {"volumeClaimTemplates": [CLAIM], "persistentVolumeClaimRetentionPolicy": policy}
    await cluster.create(STATEFUL_SET, db(**spec))

    async def claims(number: int) -> bool:
        return len(await cluster.list(PERSISTENT_VOLUME_CLAIM)) == number

    collector = lambda informers: GarbageCollector(cluster.api, informers)  # noqa: E731
    async with cluster.running(*parts(cluster), collector):
        await eventually(lambda: is_up(cluster))
        await cluster.patch(STATEFUL_SET, "db", {"spec": {"replicas": 1}})
        await eventually(lambda: is_up(cluster, 1))
        await eventually(lambda: claims(after_scaling))
        await cluster.api.delete(STATEFUL_SET, Key("default", "db"), propagation="Background")

        async def is_gone():
            return not await cluster.list(POD) and await claims(after_deletion)

        await eventually(is_gone)


@pytest.mark.parametrize("seed", range(3))
async def test_crashes_make_no_pod_twice_and_break_no_order(cluster, seed):
    rng = random.Random(seed)
    ran: list[list[str]] = []

    async def lives():
        for _ in range(15):
            async with cluster.running(lambda informers: StatefulSets(cluster.api, informers)):
                await asyncio.sleep(rng.uniform(0, 0.05))
        async with cluster.running(lambda informers: StatefulSets(cluster.api, informers)):
            await asyncio.get_running_loop().create_future()

    def kubelet(informers):
        made = Kubelet(cluster.api, informers)
        ran.append(made.ran)
        return made

    task = asyncio.ensure_future(lives())
    async with cluster.running(kubelet):
        await cluster.create(STATEFUL_SET, db(replicas=5))
        await eventually(lambda: is_up(cluster, 5))
        assert len(ran[0]) == 5
        await cluster.patch(STATEFUL_SET, "db", image("busybox:2"))
        await eventually(lambda: is_up(cluster, 5))
        assert len(ran[0]) == 10
        assert [key_of(one).name for one in await cluster.list(POD)] == [
            f"db-{n}" for n in range(5)
        ]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
