"""Pods get their node at the real API server, or are told why not."""

from __future__ import annotations

import asyncio

import pytest

from orlop.api.kinds import EVENT, NODE, POD, PRIORITY_CLASS
from orlop.api.objects import Key, condition_of, meta
from orlop.scheduler import Scheduler
from tests.controllers.world import World, eventually, stays
from tests.scheduler.nodes import a_node, a_pod

PARTITION = "slurm.orlop.dev/partition"


def scheduler(cluster: World, **options):
    return lambda informers: Scheduler(cluster.api, informers, **options)


async def add_node(cluster: World, node: dict) -> None:
    await cluster.create(NODE, {key: value for key, value in node.items() if key != "status"})
    status = {"status": node["status"]}
    await cluster.api.patch(NODE, Key("", meta(node)["name"]), status, subresource="status")


async def node_of(cluster: World, name: str = "p") -> str:
    node = (await cluster.get(POD, name))["spec"].get("nodeName")
    assert node
    return node


async def test_a_pod_goes_to_the_default_partition(cluster):
    await add_node(cluster, a_node("alpha"))
    await add_node(cluster, a_node("main", default=True))
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod())
        assert await eventually(lambda: node_of(cluster)) == "main"
        scheduled = condition_of(await cluster.get(POD, "p"), "PodScheduled")
        assert scheduled["status"] == "True"

        async def told():
            (event,) = await cluster.list(EVENT)
            assert event["message"] == "Successfully assigned default/p to main"
            assert event["source"]["component"] == "default-scheduler"

        await eventually(told)


async def test_a_pod_goes_to_the_partition_it_names(cluster):
    await add_node(cluster, a_node("gpu"))
    await add_node(cluster, a_node("main", default=True))
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod(annotations={PARTITION: "gpu"}))
        assert await eventually(lambda: node_of(cluster)) == "gpu"


async def test_a_pod_that_fits_nowhere_is_told_and_scheduled_once_it_does(cluster):
    await add_node(cluster, a_node("main"))
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod(annotations={PARTITION: "gpu"}))

        async def told():
            scheduled = condition_of(await cluster.get(POD, "p"), "PodScheduled")
            assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
            assert "the partitions here are: main" in scheduled["message"]
            (event,) = await cluster.list(EVENT)
            assert (event["type"], event["reason"]) == ("Warning", "FailedScheduling")
            assert event["message"] == scheduled["message"]
            return event["count"]

        assert await eventually(told) == 1
        await stays(told)
        await add_node(cluster, a_node("gpu"))
        assert await eventually(lambda: node_of(cluster)) == "gpu"


async def test_a_heartbeat_of_a_node_tries_nothing_again(cluster):
    await add_node(cluster, a_node("main"))
    async with cluster.running(scheduler(cluster)) as informers:
        await cluster.create(POD, a_pod(nodeSelector={"a": "b"}))
        await eventually(lambda: _told(cluster, 1))
        beat = {"status": {"conditions": [{"type": "Ready", "status": "True", "message": "alive"}]}}
        written = await cluster.api.patch(NODE, Key("", "main"), beat, subresource="status")
        await informers.informer(NODE).seen(written)
        await stays(lambda: _told(cluster, 1))
        await cluster.api.patch(NODE, Key("", "main"), {"metadata": {"labels": {"a": "b"}}})
        assert await eventually(lambda: node_of(cluster)) == "main"


async def _told(cluster: World, times: int) -> None:
    (event,) = [one for one in await cluster.list(EVENT) if one["reason"] == "FailedScheduling"]
    assert event["count"] == times


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulerName": "other"},
        {"schedulingGates": [{"name": "example.com/wait"}]},
        {"nodeName": "elsewhere"},
    ],
    ids=["another scheduler's", "gated", "bound by hand"],
)
async def test_pods_that_are_not_ours_to_schedule_are_left_alone(cluster, spec):
    await add_node(cluster, a_node("main"))
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod(**spec))
        before = (await cluster.get(POD, "p"))["metadata"]["resourceVersion"]

        async def untouched():
            return (await cluster.get(POD, "p"))["metadata"]["resourceVersion"] == before

        await stays(untouched)


async def test_several_schedulers_live_side_by_side(cluster):
    await add_node(cluster, a_node("main"))
    async with cluster.running(scheduler(cluster), scheduler(cluster, name="second")):
        await cluster.create(POD, a_pod("one"))
        await cluster.create(POD, a_pod("two", schedulerName="second"))
        for name in ("one", "two"):
            await eventually(lambda n=name: node_of(cluster, n))

        async def both_told():
            sources = {one["source"]["component"] for one in await cluster.list(EVENT)}
            return sources == {"default-scheduler", "second"}

        await eventually(both_told)


async def test_a_gate_that_is_lifted_lets_the_pod_go(cluster):
    await add_node(cluster, a_node("main"))
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod(schedulingGates=[{"name": "example.com/wait"}]))
        await cluster.patch(POD, "p", {"spec": {"schedulingGates": None}})
        assert await eventually(lambda: node_of(cluster)) == "main"


async def test_a_restart_schedules_what_waits_and_binds_nothing_twice(cluster):
    await add_node(cluster, a_node("main"))
    for number in range(30):
        await cluster.create(POD, a_pod(f"p{number}"))
    for pause in (0.0, 0.005, 0.01, 0.02):
        async with cluster.running(scheduler(cluster)):
            await asyncio.sleep(pause)
    async with cluster.running(scheduler(cluster)):
        for number in range(30):
            await eventually(lambda n=number: node_of(cluster, f"p{n}"))


@pytest.mark.timeout(300)  # with idle cores it is a few seconds
async def test_a_thousand_pods_leave_the_loop_to_others(cluster):
    await add_node(cluster, a_node("main", default=True))
    await add_node(cluster, a_node("gpu"))
    await asyncio.gather(*(cluster.create(POD, a_pod(f"p{n}")) for n in range(1000)))
    turns = 0
    async with cluster.running(scheduler(cluster)) as informers, asyncio.timeout(240):
        pods = informers.informer(POD)
        pods.add_index("spec.nodeName", lambda pod: (pod["spec"].get("nodeName") or "",))
        while pods.count_by_index("spec.nodeName", "main") < 1000:
            await asyncio.sleep(0)
            turns += 1
    assert turns > 100  # whoever else is there has a turn for every few pods


def counted(name: str = "n", cpu: str = "4") -> dict:
    return a_node(name, partition=None, cpu=cpu)


async def important(cluster: World, value: int) -> dict:
    """What a pod of that priority says of itself; its class is made here."""
    name = f"class-{value}"
    await cluster.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
    return {"priorityClassName": name, "priority": value}


async def test_the_most_important_goes_first(cluster):
    names = ["low", "high", "mid"]
    for name, priority in zip(names, (1, 100, 50), strict=True):
        rank = await important(cluster, priority)
        await cluster.create(POD, a_pod(name, requests={"cpu": "3"}, **rank))
    await add_node(cluster, counted())
    async with cluster.running(scheduler(cluster)):
        assert await eventually(lambda: node_of(cluster, "high")) == "n"
        await eventually(lambda: _told_about(cluster, "low"))
        await eventually(lambda: _told_about(cluster, "mid"))


async def _told_about(cluster: World, name: str) -> None:
    scheduled = condition_of(await cluster.get(POD, name), "PodScheduled")
    assert scheduled["reason"] == "Unschedulable"


async def test_a_pod_waits_until_another_has_gone(cluster):
    await add_node(cluster, counted())
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod("first", requests={"cpu": "3"}))
        await eventually(lambda: node_of(cluster, "first"))
        await cluster.create(POD, a_pod("second", requests={"cpu": "3"}))
        await eventually(lambda: _told_about(cluster, "second"))
        await cluster.api.delete(POD, Key("default", "first"), grace=0)
        assert await eventually(lambda: node_of(cluster, "second")) == "n"


async def test_what_cannot_help_tries_nothing_again(cluster):
    await add_node(cluster, counted())
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod("picky", nodeSelector={"a": "b"}))
        await eventually(lambda: _told_about(cluster, "picky"))
        before = (await cluster.get(POD, "picky"))["metadata"]["resourceVersion"]
        for number in range(5):
            await cluster.create(POD, a_pod(f"other-{number}"))
            await eventually(lambda number=number: node_of(cluster, f"other-{number}"))
            await cluster.api.delete(POD, Key("default", f"other-{number}"), grace=0)
        assert (await cluster.get(POD, "picky"))["metadata"]["resourceVersion"] == before
        await eventually(lambda: _told(cluster, 1))


async def test_an_important_pod_drives_a_lesser_one_out(cluster):
    await add_node(cluster, counted())
    async with cluster.running(scheduler(cluster)):
        await cluster.create(
            POD, a_pod("low", requests={"cpu": "3"}, **await important(cluster, 1))
        )
        await eventually(lambda: node_of(cluster, "low"))
        high = a_pod("high", requests={"cpu": "3"}, **await important(cluster, 100))
        await cluster.create(POD, high)

        async def leaving():
            low = await cluster.get(POD, "low")
            assert "deletionTimestamp" in meta(low)
            target = condition_of(low, "DisruptionTarget")
            assert target["reason"] == "PreemptionByScheduler"

        await eventually(leaving)
        assert (await cluster.get(POD, "high"))["status"]["nominatedNodeName"] == "n"
        late = a_pod("late", requests={"cpu": "3"}, **await important(cluster, 2))
        await cluster.create(POD, late)
        await eventually(lambda: _told_about(cluster, "late"))
        await cluster.api.delete(POD, Key("default", "low"), grace=0)
        assert await eventually(lambda: node_of(cluster, "high")) == "n"
        await _told_about(cluster, "late")
        reasons = {one["reason"] for one in await cluster.list(EVENT)}
        assert "Preempted" in reasons


async def test_a_gate_that_opens_lets_its_pod_go(cluster):
    await add_node(cluster, a_node("main"))
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod(schedulingGates=[{"name": "example.com/wait"}]))
        gated = condition_of(await cluster.get(POD, "p"), "PodScheduled")
        assert gated["reason"] == "SchedulingGated"
        await cluster.patch(POD, "p", {"spec": {"schedulingGates": None}})
        assert await eventually(lambda: node_of(cluster)) == "main"


async def test_many_pods_never_take_more_than_there_is(cluster):
    await add_node(cluster, counted("a", "4"))
    await add_node(cluster, counted("b", "4"))
    async with cluster.running(scheduler(cluster)):
        for number in range(12):
            await cluster.create(POD, a_pod(f"p{number}", requests={"cpu": "1"}))

        async def full():
            pods = await cluster.list(POD)
            nodes = [pod["spec"].get("nodeName") for pod in pods]
            assert (nodes.count("a"), nodes.count("b")) == (4, 4)

        await eventually(full)
        await stays(full)


async def test_slurm_is_told_by_annotations_of_the_binding(cluster):
    await add_node(cluster, a_node("main"))
    term = {
        "labelSelector": {"matchLabels": {"app": "db"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod(affinity=anti))
        await eventually(lambda: node_of(cluster))
        notes = meta(await cluster.get(POD, "p"))["annotations"]
        assert notes["slurm.orlop.dev/exclusive"] == "true"

        async def told():
            (event,) = [one for one in await cluster.list(EVENT) if "Passed" in one["reason"]]
            assert "--exclusive" in event["message"]

        await eventually(told)


GANG = "slurm.orlop.dev/gang"


async def test_members_of_a_gang_go_where_the_first_of_them_is(cluster):
    await add_node(cluster, a_node("gpu"))
    await add_node(cluster, a_node("main", default=True))
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod("first", annotations={PARTITION: "gpu", GANG: "g"}))
        assert await eventually(lambda: node_of(cluster, "first")) == "gpu"
        await cluster.create(POD, a_pod("second", annotations={GANG: "g"}))
        assert await eventually(lambda: node_of(cluster, "second")) == "gpu"


async def test_a_member_that_cannot_go_where_its_gang_is_is_told_so(cluster):
    await add_node(cluster, a_node("gpu"))
    await add_node(cluster, a_node("main", default=True))
    async with cluster.running(scheduler(cluster)):
        await cluster.create(POD, a_pod("first", annotations={PARTITION: "gpu", GANG: "g"}))
        assert await eventually(lambda: node_of(cluster, "first")) == "gpu"
        await cluster.create(POD, a_pod("other", annotations={PARTITION: "main", GANG: "g"}))

        async def told():
            found = condition_of(await cluster.get(POD, "other"), "PodScheduled")
            assert "didn't have the other members of its gang" in found["message"]

        await eventually(told)
