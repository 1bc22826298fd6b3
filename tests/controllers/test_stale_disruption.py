"""A disruption that was announced and did not come."""

from __future__ import annotations

from orlop.api.kinds import POD
from orlop.api.objects import condition_of
from orlop.api.times import rfc3339
from orlop.client.clock import ManualClock
from orlop.controllers.stale_disruption import TARGET, StaleDisruptions
from tests.controllers.world import World, eventually, pod, stays


async def announced(cluster: World, name: str, clock: ManualClock, phase: str) -> None:
    await cluster.create(POD, pod(name, nodeName="n1"))
    told = {"type": TARGET, "status": "True", "lastTransitionTime": rfc3339(clock.now())}
    status = {"phase": phase, "conditions": [told]}
    await cluster.patch(POD, name, {"status": status}, subresource="status")


async def test_it_is_taken_back_from_pods_that_live_on(cluster):
    clock = ManualClock()
    await announced(cluster, "alive", clock, "Running")
    await announced(cluster, "ended", clock, "Failed")

    async def said(name: str) -> str:
        return condition_of(await cluster.get(POD, name), TARGET)["status"]

    async def is_alive_told(status: str) -> bool:
        return await said("alive") == status

    loop = lambda informers: StaleDisruptions(cluster.api, informers, clock=clock)  # noqa: E731
    async with cluster.running(loop) as informers:
        await informers.synced()
        clock.advance(100)
        await stays(lambda: is_alive_told("True"), 0.1)
        clock.advance(30)
        await eventually(lambda: is_alive_told("False"))
        assert await said("ended") == "True"
