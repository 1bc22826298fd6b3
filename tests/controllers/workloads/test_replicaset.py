"""ReplicaSets keep their number of pods, whatever happens to the pods or to the controller."""

from __future__ import annotations

import pytest

from orlop.api.kinds import EVENT, POD, REPLICA_SET
from orlop.api.objects import condition_of, controller_of, is_active, key_of, meta, phase_of, uid_of
from orlop.client.clock import ManualClock
from orlop.controllers.workloads.replicaset import ReplicaSets
from tests.controllers.world import Kubelet, World, eventually, pod, stays, workload


def sets(cluster: World):
    return lambda informers: ReplicaSets(cluster.api, informers)


def kubelet(cluster: World, **options):
    return lambda informers: Kubelet(cluster.api, informers, **options)


async def active(cluster: World) -> list[dict]:
    return [one for one in await cluster.list(POD) if is_active(one)]


async def has(cluster: World, number: int) -> bool:
    return len(await active(cluster)) == number


async def runs(cluster: World, number: int) -> bool:
    return [phase_of(one) for one in await active(cluster)] == ["Running"] * number


async def test_it_makes_its_pods_and_tells_their_number(cluster):
    made = await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=5))
    async with cluster.running(sets(cluster), kubelet(cluster)):

        async def all_available():
            status = (await cluster.get(REPLICA_SET, "web"))["status"]
            assert {**status, "observedGeneration": 1} == {
                "replicas": 5,
                "fullyLabeledReplicas": 5,
                "readyReplicas": 5,
                "availableReplicas": 5,
                "observedGeneration": 1,
            }

        await eventually(all_available)
        for one in await active(cluster):
            assert controller_of(one)["uid"] == uid_of(made)
            assert meta(one)["name"].startswith("web-")


@pytest.mark.parametrize(("before", "after"), [(2, 6), (6, 2), (3, 0)])
async def test_it_follows_a_new_size(cluster, before, after):
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=before))
    async with cluster.running(sets(cluster), kubelet(cluster)):
        await eventually(lambda: has(cluster, before))
        await cluster.patch(REPLICA_SET, "web", {"spec": {"replicas": after}})
        await eventually(lambda: has(cluster, after))
        await stays(lambda: has(cluster, after))


async def test_a_pod_that_is_deleted_or_fails_is_replaced(cluster):
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=3))
    async with cluster.running(sets(cluster), kubelet(cluster)):
        await eventually(lambda: runs(cluster, 3))  # else the kubelet may yet say Running
        first, second, _ = await active(cluster)
        await cluster.api.delete(POD, key_of(first))
        failed = {"status": {"phase": "Failed"}}
        await cluster.patch(POD, meta(second)["name"], failed, subresource="status")
        gone = {uid_of(first), uid_of(second)}

        async def replaced():
            now = await active(cluster)
            return len(now) == 3 and not gone & {uid_of(one) for one in now}

        await eventually(replaced)


async def test_no_pod_too_many_is_ever_made(cluster):
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=20))
    async with cluster.running(sets(cluster)):
        await eventually(lambda: has(cluster, 20))
        await stays(lambda: has(cluster, 20))
    async with cluster.running(sets(cluster)):
        await stays(lambda: has(cluster, 20))


async def test_a_matching_orphan_is_adopted_and_counts(cluster):
    await cluster.create(POD, pod("stray", labels={"app": "web"}))
    await cluster.create(POD, pod("other", labels={"app": "else"}))
    made = await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=2))
    async with cluster.running(sets(cluster)):

        async def adopted():
            stray = await cluster.get(POD, "stray")
            return controller_of(stray) is not None and controller_of(stray)["uid"] == uid_of(made)

        await eventually(adopted)
        await eventually(lambda: has(cluster, 3))
        assert controller_of(await cluster.get(POD, "other")) is None


async def test_a_pod_whose_labels_no_longer_match_is_released_and_replaced(cluster):
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=2))
    async with cluster.running(sets(cluster)):
        await eventually(lambda: has(cluster, 2))
        name = meta((await active(cluster))[0])["name"]
        await cluster.patch(POD, name, {"metadata": {"labels": {"app": "debug"}}})

        async def released():
            return controller_of(await cluster.get(POD, name)) is None

        await eventually(released)
        await eventually(lambda: has(cluster, 3))


async def test_of_several_pods_the_unready_one_goes_first(cluster):
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=3))
    slow: set[str] = set()
    async with cluster.running(
        sets(cluster), kubelet(cluster, is_ready=lambda one: meta(one)["name"] not in slow)
    ):
        await eventually(lambda: has(cluster, 3))
        names = sorted(meta(one)["name"] for one in await active(cluster))
        ready = {"conditions": [{"type": "Ready", "status": "False"}]}
        slow.add(names[1])
        await cluster.patch(POD, names[1], {"status": ready}, subresource="status")
        await cluster.patch(REPLICA_SET, "web", {"spec": {"replicas": 2}})
        await eventually(lambda: has(cluster, 2))
        assert sorted(meta(one)["name"] for one in await active(cluster)) == [names[0], names[2]]


async def test_a_refused_pod_is_told_on_the_replica_set_and_tried_again(cluster):
    cluster.quota.pods_left = 2
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=5))
    async with cluster.running(sets(cluster)):

        async def told():
            failure = condition_of(await cluster.get(REPLICA_SET, "web"), "ReplicaFailure")
            assert failure is not None
            assert (failure["status"], failure["reason"]) == ("True", "FailedCreate")
            assert "exceeded quota" in failure["message"]
            assert "FailedCreate" in {one["reason"] for one in await cluster.list(EVENT)}
            return await has(cluster, 2)

        await eventually(told)
        cluster.quota.pods_left = None
        await eventually(lambda: has(cluster, 5))

        async def forgotten():
            return condition_of(await cluster.get(REPLICA_SET, "web"), "ReplicaFailure") is None

        await eventually(forgotten)


async def test_min_ready_seconds_delay_availability(cluster):
    clock = ManualClock()
    made = workload(REPLICA_SET, "web", replicas=1, minReadySeconds=30)
    await cluster.create(REPLICA_SET, made)
    async with cluster.running(
        lambda informers: ReplicaSets(cluster.api, informers, clock=clock),
        kubelet(cluster, clock=clock),
    ):

        async def counts(ready, available):
            status = (await cluster.get(REPLICA_SET, "web")).get("status") or {}
            found = (status.get("readyReplicas"), status.get("availableReplicas"))
            return found == (ready, available)

        await eventually(lambda: counts(1, None))
        clock.advance(29)
        await stays(lambda: counts(1, None), 0.1)
        clock.advance(1)
        await eventually(lambda: counts(1, 1))
