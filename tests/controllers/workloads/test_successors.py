"""Pods of services are replaced before their time limit, and never fewer than there should be."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from orlop.api.kinds import EVENT, POD, POD_DISRUPTION_BUDGET, REPLICA_SET, STATEFUL_SET
from orlop.api.objects import annotations_of, is_active, is_ready, meta, uid_of
from orlop.api.times import parse, rfc3339
from orlop.client.clock import ManualClock
from orlop.controllers.disruption.poddisruptionbudget import DisruptionBudgets
from orlop.controllers.workloads.replicaset import ReplicaSets
from orlop.controllers.workloads.statefulset.controller import StatefulSets
from orlop.controllers.workloads.successors import Successors
from orlop.settings import WallTimeSettings
from orlop.wellknown import ALLOCATED, END_TIME, EXPIRING
from tests.controllers import world
from tests.controllers.world import Kubelet, World, pod, stays, workload

HOUR = 3600.0
SETTINGS = WallTimeSettings(lead=300.0, waits=2.0)


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """With the patience that a busy machine wants."""
    return await world.eventually(check, within=60.0)


def parts(cluster: World, settings: WallTimeSettings = SETTINGS, clock=None, **kubelet):
    api = cluster.api
    return (
        lambda informers: Successors(api, informers, settings=settings, clock=clock),
        lambda informers: ReplicaSets(api, informers),
        lambda informers: StatefulSets(api, informers),
        lambda informers: Kubelet(api, informers, **kubelet),
    )


async def active(cluster: World) -> list[dict]:
    return [one for one in await cluster.list(POD) if is_active(one)]


async def ready(cluster: World, number: int) -> list[dict]:
    found = await active(cluster)
    assert len(found) == number
    assert all(is_ready(one) for one in found)
    return found


async def give_end(cluster: World, name: str, left: float, ran: float = 10 * HOUR) -> None:
    """The pod ends in `left` seconds, after a run of `ran`."""
    now = parse(meta(await cluster.get(POD, name))["creationTimestamp"])
    allocated = {"type": ALLOCATED, "status": "True", "reason": "Running"}
    allocated["lastTransitionTime"] = rfc3339(now + left - ran)
    conditions = (await cluster.get(POD, name))["status"]["conditions"]
    status = {"status": {"conditions": [*conditions, allocated]}}
    await cluster.patch(POD, name, status, subresource="status")
    await cluster.patch(POD, name, {"metadata": {"annotations": {END_TIME: rfc3339(now + left)}}})


async def test_a_pod_near_its_limit_goes_when_another_is_ready(cluster):
    is_open = False
    old: set[str] = set()

    def says_ready(one) -> bool:
        return uid_of(one) in old or is_open or not old

    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=2))
    async with cluster.running(*parts(cluster, is_ready=says_ready)) as informers:
        first, second = await eventually(lambda: ready(cluster, 2))
        old |= {uid_of(first), uid_of(second)}
        await give_end(cluster, meta(first)["name"], 100.0)

        async def has_three() -> bool:
            return len(await active(cluster)) == 3

        await eventually(has_three)
        await stays(has_three)  # the third is not ready: nobody goes
        is_open = True
        third = next(one for one in await active(cluster) if uid_of(one) not in old)
        touch = {"metadata": {"annotations": {"touched": "yes"}}}
        await cluster.patch(POD, meta(third)["name"], touch)
        left = await eventually(lambda: ready(cluster, 2))
        assert {uid_of(one) for one in left} == {uid_of(second), uid_of(third)}
        assert informers is not None
        reasons = {event["reason"] for event in await cluster.list(EVENT)}
        assert "Expiring" in reasons


@pytest.mark.parametrize(
    ("left", "ran", "annotations", "is_due"),
    [
        (200.0, 10 * HOUR, {}, True),
        (400.0, 10 * HOUR, {}, False),
        (200.0, 300.0, {}, False),
        (100.0, 300.0, {}, True),
        (200.0, 10 * HOUR, {"slurm.orlop.dev/replace": "false"}, False),
        (200.0, 10 * HOUR, {"slurm.orlop.dev/replace": "90"}, False),
        (200.0, 300.0, {"slurm.orlop.dev/replace": "280"}, True),
        (280.0, 300.0, {"slurm.orlop.dev/replace": "280"}, False),
        (200.0, 10 * HOUR, {"slurm.orlop.dev/gang": "true"}, False),
        (200.0, 10 * HOUR, {"slurm.orlop.dev/gang": "false"}, True),
    ],
    ids=[
        "due",
        "early",
        "half of a short time",
        "the other half",
        "unwanted",
        "by its own word later",
        "by its own word",
        "never at once",
        "gang",
        "no gang by its own word",
    ],
)
async def test_when_a_pod_is_due(cluster, left, ran, annotations, is_due):
    wanted = workload(REPLICA_SET, "web", replicas=1)
    wanted["spec"]["template"]["metadata"]["annotations"] = annotations
    await cluster.create(REPLICA_SET, wanted)
    async with cluster.running(*parts(cluster)):
        [one] = await eventually(lambda: ready(cluster, 1))
        await give_end(cluster, meta(one)["name"], left, ran)

        async def is_there() -> bool:
            now = await cluster.find(POD, meta(one)["name"])
            return now is not None and EXPIRING not in annotations_of(now)

        async def is_replaced() -> bool:
            return await cluster.find(POD, meta(one)["name"]) is None

        await (eventually(is_replaced) if is_due else stays(is_there))


async def test_a_pod_of_a_built_in_group_is_left_to_its_limit(cluster):
    wanted = workload(REPLICA_SET, "web", replicas=1)
    wanted["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    await cluster.create(REPLICA_SET, wanted)
    async with cluster.running(*parts(cluster)):
        [one] = await eventually(lambda: ready(cluster, 1))
        await give_end(cluster, meta(one)["name"], 200.0, 10 * HOUR)

        async def is_there() -> bool:
            now = await cluster.find(POD, meta(one)["name"])
            return now is not None and EXPIRING not in annotations_of(now)

        await stays(is_there)


async def test_who_waited_long_is_followed_early(cluster):
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=2))
    async with cluster.running(*parts(cluster)):
        first, second = await eventually(lambda: ready(cluster, 2))
        # Made an hour before it ran, so two hours are wanted, and it has eleven.
        await give_end(cluster, meta(first)["name"], 12 * HOUR, ran=11 * HOUR)
        await give_end(cluster, meta(second)["name"], 1.9 * HOUR, ran=11 * HOUR)

        async def is_replaced() -> bool:
            return await cluster.find(POD, meta(second)["name"]) is None

        await eventually(is_replaced)
        assert await cluster.find(POD, meta(first)["name"]) is not None


async def test_time_alone_makes_a_pod_due(cluster):
    clock = ManualClock(time.time())
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=1))
    async with cluster.running(*parts(cluster, clock=clock)):
        [one] = await eventually(lambda: ready(cluster, 1))
        made = parse(meta(one)["creationTimestamp"])
        await give_end(cluster, meta(one)["name"], HOUR)

        async def is_replaced() -> bool:
            clock.advance(60.0)
            return await cluster.find(POD, meta(one)["name"]) is None

        await eventually(is_replaced)
        assert clock.now() >= made + HOUR - SETTINGS.lead


async def test_a_disruption_budget_is_kept(cluster):
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }
    await cluster.create(POD_DISRUPTION_BUDGET, budget)
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=1))
    budgets = lambda informers: DisruptionBudgets(cluster.api, informers)  # noqa: E731
    async with cluster.running(budgets, *parts(cluster)):
        [one] = await eventually(lambda: ready(cluster, 1))
        await give_end(cluster, meta(one)["name"], 100.0)

        async def is_replaced() -> bool:
            return await cluster.find(POD, meta(one)["name"]) is None

        await eventually(is_replaced)


async def test_a_copied_mark_means_nothing(cluster):
    wanted = workload(REPLICA_SET, "web", replicas=1)
    wanted["spec"]["template"]["metadata"]["annotations"] = {EXPIRING: "another"}
    await cluster.create(REPLICA_SET, wanted)
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: ready(cluster, 1))

        async def has_one() -> bool:
            return len(await active(cluster)) == 1

        await stays(has_one)


async def test_marked_pods_go_with_a_set_that_shrinks_to_nothing(cluster):
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=1))
    async with cluster.running(*parts(cluster, is_ready=lambda one: False)):

        async def runs() -> dict:
            [one] = await active(cluster)
            assert one["status"]["phase"] == "Running"
            return one

        one = await eventually(runs)
        await give_end(cluster, meta(one)["name"], 100.0)

        async def has(number: int) -> bool:
            return len(await active(cluster)) == number

        await eventually(lambda: has(2))
        await cluster.patch(REPLICA_SET, "web", {"spec": {"replicas": 0}})
        await eventually(lambda: has(0))


async def test_pods_of_a_stateful_set_go_one_at_a_time_the_last_first(cluster):
    await cluster.create(STATEFUL_SET, workload(STATEFUL_SET, "db", replicas=3))
    async with cluster.running(*parts(cluster)):
        before = {meta(one)["name"]: uid_of(one) for one in await eventually(
            lambda: ready(cluster, 3))}  # fmt: skip
        for name in before:
            await give_end(cluster, name, 500.0)

        async def uids() -> dict[str, str]:
            return {meta(one)["name"]: uid_of(one) for one in await ready(cluster, 3)}

        async def two_are_new() -> bool:
            now = await uids()
            return {name for name in now if now[name] != before[name]} == {"db-1", "db-2"}

        await eventually(two_are_new)

        async def the_first_stays() -> bool:
            now = await cluster.find(POD, "db-0")
            return now is not None and uid_of(now) == before["db-0"]

        await stays(the_first_stays)  # its turn is 300 s before its end


async def test_a_stateful_set_of_one_and_pods_of_nobody_are_left_alone(cluster):
    await cluster.create(STATEFUL_SET, workload(STATEFUL_SET, "db", replicas=1))
    await cluster.create(POD, pod("lone"))
    async with cluster.running(*parts(cluster)):
        before = {uid_of(one) for one in await eventually(lambda: ready(cluster, 2))}
        for name in ("db-0", "lone"):
            await give_end(cluster, name, 100.0)

        async def same() -> bool:
            return {uid_of(one) for one in await active(cluster)} == before

        await stays(same)
