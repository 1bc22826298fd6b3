"""Pods that nobody else would remove."""

from __future__ import annotations

from orlop.api.kinds import NODE, POD
from orlop.api.objects import Key, meta
from orlop.client.clock import ManualClock
from orlop.controllers.gc.podgc import PodGc
from tests.controllers.world import World, eventually, pod, stays


def node(name: str) -> dict:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def podgc(cluster: World, **options):
    return lambda informers: PodGc(cluster.api, informers, **options)


async def names(cluster: World) -> list[str]:
    return sorted(meta(one)["name"] for one in await cluster.list(POD))


async def test_pods_of_a_node_that_stays_away_are_given_up_after_a_while(cluster):
    clock = ManualClock()
    await cluster.create(NODE, node("n1"))
    await cluster.create(NODE, node("n2"))
    await cluster.create(POD, pod("a", nodeName="n1"))
    await cluster.create(POD, pod("b", nodeName="n2"))
    async with cluster.running(podgc(cluster, clock=clock)) as informers:
        await informers.synced()
        await cluster.api.delete(NODE, Key("", "n1"))
        both = lambda: _equal(names(cluster), ["a", "b"])  # noqa: E731
        await stays(both, 0.1)
        clock.advance(30)
        await stays(both, 0.1)
        clock.advance(11)
        await eventually(lambda: _equal(names(cluster), ["b"]))


async def _equal(found, expected) -> bool:
    return await found == expected


async def test_a_node_that_comes_back_keeps_its_pods(cluster):
    clock = ManualClock()
    await cluster.create(POD, pod("a", nodeName="n1"))
    async with cluster.running(podgc(cluster, clock=clock)) as informers:
        await informers.synced()
        clock.advance(30)
        await informers.informer(NODE).seen(await cluster.create(NODE, node("n1")))
        clock.advance(30)
        await stays(lambda: _equal(names(cluster), ["a"]), 0.1)


async def test_ended_pods_beyond_the_threshold_go_oldest_first(cluster):
    now = [1_700_000_000.0]
    cluster.server.registry.now = lambda: now[0]
    for number in range(6):
        now[0] += 60
        await cluster.create(POD, pod(f"p{number}", nodeName="n1"))
        ended = {"status": {"phase": "Succeeded"}}
        await cluster.patch(POD, f"p{number}", ended, subresource="status")
    await cluster.create(POD, pod("alive"))
    await cluster.create(NODE, node("n1"))
    async with cluster.running(podgc(cluster, threshold=2)):
        await eventually(lambda: _equal(names(cluster), ["alive", "p4", "p5"]))


async def test_a_node_out_of_service_does_not_hold_what_is_to_go(cluster):
    lost = node("n1")
    await cluster.create(NODE, lost)
    for name in ("going", "staying"):
        await cluster.create(POD, pod(name, nodeName="n1"))
    async with cluster.running(podgc(cluster)) as informers:
        await informers.synced()
        await cluster.api.delete(POD, Key("default", "going"))
        both = lambda: _equal(names(cluster), ["going", "staying"])  # noqa: E731
        await stays(both, 0.1)
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        await cluster.api.patch(NODE, Key("", "n1"), {"spec": {"taints": [taint]}})
        await eventually(lambda: _equal(names(cluster), ["staying"]))
