"""A disruption that was announced and did not come."""

from __future__ import annotations

from orlop.api.kinds import POD
from orlop.api.objects import Key, condition_of
from orlop.api.times import rfc3339
from orlop.client.clock import ManualClock
from orlop.controllers.disruption.stale_disruption import TARGET, StaleDisruptions
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


class Interrupted:
    """An API before whose first patch the kubelet says something else of the pod."""

    def __init__(self, cluster: World) -> None:
        self._cluster = cluster
        self._is_first = True

    def __getattr__(self, name):
        return getattr(self._cluster.api, name)

    async def patch(self, kind, key: Key, patch, **more):
        if self._is_first:
            self._is_first = False
            conditions = (await self._cluster.get(POD, key.name))["status"]["conditions"]
            ready = {"type": "Ready", "status": "True"}
            said = {"status": {"conditions": [*conditions, ready]}}
            await self._cluster.patch(POD, key.name, said, subresource="status")
        return await self._cluster.api.patch(kind, key, patch, **more)


async def test_what_the_kubelet_says_meanwhile_is_kept(cluster):
    clock = ManualClock()
    await announced(cluster, "alive", clock, "Running")
    clock.advance(130)
    loop = lambda informers: StaleDisruptions(Interrupted(cluster), informers, clock=clock)  # noqa: E731
    async with cluster.running(loop):

        async def is_told():
            clock.advance(1)  # for the next try
            pod = await cluster.get(POD, "alive")
            assert condition_of(pod, TARGET)["status"] == "False"
            return pod

        pod = await eventually(is_told)
    assert condition_of(pod, "Ready")["status"] == "True"
