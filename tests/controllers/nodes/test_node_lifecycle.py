"""Nodes that fall silent lose their pods in time; whoever was away itself takes nothing amiss."""

from __future__ import annotations

import asyncio

from orlop.api.kinds import LEASE, NODE, POD
from orlop.api.objects import Key, condition_of, is_deleting, is_ready
from orlop.api.times import rfc3339_micro
from orlop.client.clock import ManualClock
from orlop.client.informer import Informers
from orlop.controllers.nodes.node_lifecycle import LEASES, NodeLifecycle
from orlop.controllers.nodes.taint_eviction import TaintEviction
from orlop.wellknown import ENGINE_LABEL
from tests.controllers.world import World, eventually, pod, running, stays

P = "node.kubernetes.io/"


def both(cluster: World, clock: ManualClock):
    return (
        lambda informers: NodeLifecycle(cluster.api, informers, clock=clock),
        lambda informers: TaintEviction(cluster.api, informers, clock=clock),
    )


async def make_node(cluster: World, name: str, clock: ManualClock, **metadata) -> None:
    await cluster.create(NODE, {"metadata": {"name": name, **metadata}})
    await beat(cluster, name, clock)
    await say(cluster, name, "True", clock)


async def say(cluster: World, name: str, ready: str, clock: ManualClock) -> None:
    said = {"type": "Ready", "status": ready, "lastHeartbeatTime": _now(clock)}
    patch = {"status": {"conditions": [said]}}
    await cluster.api.patch(NODE, Key("", name), patch, subresource="status")


def _now(clock: ManualClock) -> str:
    return rfc3339_micro(clock.now()).partition(".")[0] + "Z"


async def beat(cluster: World, name: str, clock: ManualClock) -> dict:
    spec = {"renewTime": rfc3339_micro(clock.now()), "holderIdentity": name,
            "leaseDurationSeconds": 40}  # fmt: skip
    key = Key(LEASES, name)
    if await cluster.find(LEASE, name, LEASES) is None:
        body = {"metadata": {"name": name, "namespace": LEASES}, "spec": spec}
        return await cluster.api.create(LEASE, body, namespace=LEASES)
    return await cluster.api.patch(LEASE, key, {"spec": spec})


async def make_pod(cluster: World, name: str, node: str, **spec) -> None:
    await cluster.create(POD, pod(name, nodeName=node, **spec))
    status = running("10.0.0.1", ready=True, now=0)
    await cluster.patch(POD, name, {"status": status}, subresource="status")


async def taints(cluster: World, name: str) -> list[str]:
    found = (await cluster.get(NODE, name))["spec"].get("taints") or []
    return sorted(f"{one['key'].removeprefix(P)}:{one['effect']}" for one in found)


async def has_taints(cluster: World, name: str, *expected: str) -> bool:
    return await taints(cluster, name) == sorted(expected)


async def pass_time(
    cluster: World, informers: Informers, clock: ManualClock, seconds: float, *alive: str
) -> None:
    """Time goes by in small steps, in which the living nodes renew their leases."""
    for _ in range(int(seconds // 5)):
        for name in alive:
            await informers.informer(LEASE).seen(await beat(cluster, name, clock))
        await asyncio.sleep(0.02)
        clock.advance(5)
    await asyncio.sleep(0.05)


async def is_gone(cluster: World, name: str) -> bool:
    found = await cluster.find(POD, name)
    return found is None or is_deleting(found)


async def test_a_new_node_is_open_once_it_is_ready(cluster):
    clock = ManualClock()
    cluster.keeps_new_taint = True
    async with cluster.running(*both(cluster, clock)):
        await cluster.create(NODE, {"metadata": {"name": "n1"}})
        assert await taints(cluster, "n1") == ["not-ready:NoSchedule"]
        await say(cluster, "n1", "True", clock)
        await eventually(lambda: has_taints(cluster, "n1"))


async def test_a_silent_node_is_unknown_then_tainted_and_its_pods_go_in_time(cluster):
    clock = ManualClock()
    for name in ("n1", "n2"):
        await make_node(cluster, name, clock)
    await make_pod(cluster, "lost", "n1")
    await make_pod(cluster, "patient", "n1", tolerations=[{"operator": "Exists"}])
    for_ever = {"operator": "Exists"}
    brief = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    both_said = [
        for_ever,
        brief | {"tolerationSeconds": 5},
    ]  # of two for one taint the first counts
    await make_pod(cluster, "stays", "n1", tolerations=both_said)
    await make_pod(cluster, "safe", "n2")
    async with cluster.running(*both(cluster, clock)) as informers:
        await informers.synced()
        await pass_time(cluster, informers, clock, 30, "n1", "n2")
        assert await taints(cluster, "n1") == []
        await pass_time(cluster, informers, clock, 45, "n2")
        marks = ("unreachable:NoExecute", "unreachable:NoSchedule")
        await eventually(lambda: has_taints(cluster, "n1", *marks))
        told = condition_of(await cluster.get(NODE, "n1"), "Ready")
        assert (told["status"], told["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert not is_ready(await cluster.get(POD, "lost"))
        assert is_ready(await cluster.get(POD, "safe"))
        await pass_time(cluster, informers, clock, 250, "n2")
        assert not await is_gone(cluster, "lost")
        await pass_time(cluster, informers, clock, 100, "n2")
        await eventually(lambda: is_gone(cluster, "lost"))
        target = condition_of(await cluster.get(POD, "lost"), "DisruptionTarget")
        assert target["reason"] == "DeletionByTaintManager"
        assert not await is_gone(cluster, "patient")
        assert not await is_gone(cluster, "stays")
        assert not await is_gone(cluster, "safe")


async def test_a_node_that_comes_back_keeps_its_pods(cluster):
    clock = ManualClock()
    for name in ("n1", "n2"):
        await make_node(cluster, name, clock)
    await make_pod(cluster, "p", "n1")
    async with cluster.running(*both(cluster, clock)) as informers:
        await informers.synced()
        await pass_time(cluster, informers, clock, 60, "n2")
        await eventually(lambda: has_taints(cluster, "n1", "unreachable:NoExecute",
                                            "unreachable:NoSchedule"))  # fmt: skip
        await say(cluster, "n1", "True", clock)
        await eventually(lambda: has_taints(cluster, "n1"))
        await pass_time(cluster, informers, clock, 400, "n1", "n2")
        assert not await is_gone(cluster, "p")


async def test_where_all_are_lost_nobody_is_given_up(cluster):
    clock = ManualClock()
    for name in ("n1", "n2"):
        await make_node(cluster, name, clock)
    await make_pod(cluster, "p", "n1", tolerations=[])
    async with cluster.running(*both(cluster, clock)) as informers:
        await informers.synced()
        await pass_time(cluster, informers, clock, 120)
        await eventually(lambda: has_taints(cluster, "n1", "unreachable:NoSchedule"))
        await pass_time(cluster, informers, clock, 400)
        assert not await is_gone(cluster, "p")


async def test_who_was_away_itself_waits_for_signs(cluster):
    """Stopped and started again, or suspended: old leases mean nothing."""
    clock = ManualClock()
    for name in ("n1", "n2"):
        await make_node(cluster, name, clock)
    await make_pod(cluster, "p", "n1")
    clock.advance(3600)  # nobody ran
    async with cluster.running(*both(cluster, clock)) as informers:
        await informers.synced()
        await pass_time(cluster, informers, clock, 10, "n2")
        assert await taints(cluster, "n1") == []
        await pass_time(cluster, informers, clock, 10, "n1", "n2")
        clock.oversleep(3600)
        await stays(lambda: has_taints(cluster, "n1"), 0.1)
        await pass_time(cluster, informers, clock, 30, "n1", "n2")
        assert await taints(cluster, "n1") == []
        assert not await is_gone(cluster, "p")


async def test_our_own_kubelet_knows_better_what_becomes_of_its_pods(cluster):
    """A partition that is down: its jobs are Slurm's."""
    clock = ManualClock()
    await make_node(cluster, "n1", clock, labels={ENGINE_LABEL: "slurm"})
    await make_node(cluster, "n2", clock)
    await make_node(cluster, "n3", clock)
    await make_pod(cluster, "ours", "n1")
    await make_pod(cluster, "theirs", "n2")
    async with cluster.running(*both(cluster, clock)) as informers:
        await informers.synced()
        for name in ("n1", "n2"):
            await say(cluster, name, "False", clock)
        await eventually(lambda: has_taints(cluster, "n1", "not-ready:NoSchedule"))
        await eventually(
            lambda: has_taints(cluster, "n2", "not-ready:NoSchedule", "not-ready:NoExecute")
        )
        await pass_time(cluster, informers, clock, 400, "n1", "n2", "n3")
        await eventually(lambda: is_gone(cluster, "theirs"))
        assert is_ready(await cluster.get(POD, "ours"))
        assert not await is_gone(cluster, "ours")


async def test_nodes_are_given_up_one_after_the_other(cluster):
    clock = ManualClock()
    for name in ("n1", "n2", "n3"):
        await make_node(cluster, name, clock)
    async with cluster.running(*both(cluster, clock)) as informers:
        await informers.synced()
        for name in ("n1", "n2"):
            await say(cluster, name, "False", clock)

        async def given_up() -> int:
            found = [await taints(cluster, name) for name in ("n1", "n2")]
            return sum("not-ready:NoExecute" in one for one in found)

        async def is_one() -> bool:
            return await given_up() == 1

        async def is_two() -> bool:
            return await given_up() == 2

        await eventually(is_one)
        await stays(is_one, 0.2)
        clock.advance(10)
        await eventually(is_two)
        assert await taints(cluster, "n3") == []
