"""All controllers together; killed at any moment they lose nothing and do nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time

import pytest

from orlop.api.kinds import CONFIG_MAP, DEPLOYMENT, JOB, POD, REPLICA_SET, SERVICE_ACCOUNT
from orlop.api.objects import Key, condition_of, is_active, meta, phase_of
from orlop.client.clock import ManualClock
from orlop.client.informer import Informers
from orlop.controllers.framework.manager import ControllerManager
from orlop.controllers.workloads.job.indexes import index_of
from orlop.controllers.workloads.job.view import is_tracked
from tests.controllers.world import Kubelet, World, eventually, job, workload


def manager(cluster: World, **options):
    return lambda informers: ControllerManager(cluster.api, informers, **options)


def kubelet(cluster: World, **options):
    return lambda informers: Kubelet(cluster.api, informers, **options)


@contextlib.asynccontextmanager
async def killed_at_random(cluster: World, rng: random.Random, times: int = 12):
    """Managers one after the other, each killed with all it has under way; the last lives."""

    async def lives() -> None:
        for _ in range(times):
            async with cluster.running(manager(cluster)):
                await asyncio.sleep(rng.uniform(0.0, 0.08))
        async with cluster.running(manager(cluster)):
            await asyncio.get_running_loop().create_future()

    task = asyncio.ensure_future(lives())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def is_complete(cluster: World, name: str = "work") -> bool:
    return condition_of(await cluster.get(JOB, name), "Complete") is not None


async def is_rolled_out(cluster: World, replicas: int) -> bool:
    deployment = await cluster.get(DEPLOYMENT, "web")
    status = deployment.get("status") or {}
    return status.get("observedGeneration") == meta(deployment)["generation"] and all(
        status.get(name, 0) == replicas
        for name in ("replicas", "updatedReplicas", "availableReplicas")
    )


async def test_everything_runs_side_by_side(cluster):
    async with cluster.running(manager(cluster, root_ca="PEM"), kubelet(cluster)):
        await cluster.create(JOB, job("work", completions=20, parallelism=8))
        await cluster.create(DEPLOYMENT, workload(DEPLOYMENT, "web", replicas=6))
        await eventually(lambda: is_complete(cluster))
        await eventually(lambda: is_rolled_out(cluster, 6))
        assert await cluster.find(SERVICE_ACCOUNT, "default") is not None
        assert await cluster.find(CONFIG_MAP, "kube-root-ca.crt") is not None


@pytest.mark.parametrize("seed", range(4))
async def test_a_job_counts_exactly_through_any_number_of_crashes(cluster, seed):
    rng = random.Random(seed)
    nodes: list[Kubelet] = []

    def node(informers):
        nodes.append(Kubelet(cluster.api, informers))
        return nodes[0]

    async with cluster.running(node), killed_at_random(cluster, rng):
        await cluster.create(JOB, job("work", completions=30, parallelism=6))
        await eventually(lambda: is_complete(cluster), within=30)
        status = (await cluster.get(JOB, "work"))["status"]
    assert (status["succeeded"], status.get("failed")) == (30, None)
    assert status["uncountedTerminatedPods"] == {}
    pods = await cluster.list(POD)
    assert len(pods) == 30
    assert len(nodes[0].ran) == len(set(nodes[0].ran)) == 30
    assert not any(is_tracked(one) for one in pods)


@pytest.mark.parametrize("seed", range(2))
async def test_an_indexed_job_runs_each_index_once_through_crashes(cluster, seed):
    spec = {"completions": 25, "parallelism": 5, "completionMode": "Indexed"}
    async with cluster.running(kubelet(cluster)), killed_at_random(cluster, random.Random(seed)):
        await cluster.create(JOB, job("work", **spec))
        await eventually(lambda: is_complete(cluster), within=30)
    status = (await cluster.get(JOB, "work"))["status"]
    assert (status["succeeded"], status["completedIndexes"]) == (25, "0-24")
    assert sorted(index_of(one) for one in await cluster.list(POD)) == list(range(25))


@pytest.mark.parametrize("seed", range(2))
async def test_a_job_with_failures_counts_each_once_through_crashes(cluster, seed):
    rng = random.Random(seed)
    fates: dict[str, int] = {}

    def fate(one: dict) -> int:
        return fates.setdefault(meta(one)["uid"], int(len(fates) % 5 == 4))

    spec = {"completions": 20, "parallelism": 20, "backoffLimit": 100}
    async with cluster.running(kubelet(cluster, fate=fate)), killed_at_random(cluster, rng):
        await cluster.create(JOB, job("work", **spec))

        async def all_counted():
            pods = await cluster.list(POD)
            assert len(pods) >= 20
            assert not any(is_active(one) or is_tracked(one) for one in pods)
            status = (await cluster.get(JOB, "work"))["status"]
            assert status["uncountedTerminatedPods"] == {}
            for word, phase in (("succeeded", "Succeeded"), ("failed", "Failed")):
                assert status.get(word, 0) == sum(phase_of(one) == phase for one in pods)
            assert status["failed"] >= 4

        await eventually(all_counted, within=30)


@pytest.mark.parametrize("seed", range(3))
async def test_a_deployment_scales_and_rolls_through_crashes_with_no_pod_too_many(cluster, seed):
    rng = random.Random(seed)
    most = 0

    def watch(informers: Informers):
        pods = informers.informer(POD)

        def look(event, previous):
            nonlocal most
            most = max(most, sum(is_active(one) for one in pods.list()))

        pods.subscribe(look)
        return Kubelet(cluster.api, informers)

    async with cluster.running(watch), killed_at_random(cluster, rng):
        await cluster.create(DEPLOYMENT, workload(DEPLOYMENT, "web", replicas=6))
        await eventually(lambda: is_rolled_out(cluster, 6), within=30)
        assert most == 6
        containers = [{"name": "main", "image": "busybox:2"}]
        change = {"spec": {"template": {"spec": {"containers": containers}}}}
        await cluster.patch(DEPLOYMENT, "web", change)
        await eventually(lambda: is_rolled_out(cluster, 6), within=30)
        assert most <= 8
        await cluster.patch(DEPLOYMENT, "web", {"spec": {"replicas": 3}})
        await eventually(lambda: is_rolled_out(cluster, 3), within=30)
        await cluster.api.delete(DEPLOYMENT, Key("default", "web"), propagation="Foreground")

        async def is_empty():
            return not await cluster.list(REPLICA_SET) and not await cluster.list(POD)

        await eventually(is_empty, within=30)


@pytest.mark.parametrize("seed", range(2))
async def test_suspending_and_resuming_through_crashes_fails_no_pod(cluster, seed):
    rng = random.Random(seed)
    ends: list[int | None] = [None]
    nodes: list[Kubelet] = []

    def node(informers):
        nodes.append(Kubelet(cluster.api, informers, fate=lambda _: ends[0]))
        return nodes[0]

    async with cluster.running(node), killed_at_random(cluster, rng, times=20):
        await cluster.create(JOB, job("work", completions=8, parallelism=4))
        for suspend in (True, False, True, False):
            await asyncio.sleep(rng.uniform(0.02, 0.15))
            await cluster.patch(JOB, "work", {"spec": {"suspend": suspend}})
        ends[0] = 0
        nodes[0].nudge()

        async def is_done():
            nodes[0].nudge()
            return await is_complete(cluster)

        await eventually(is_done, within=30)
    status = (await cluster.get(JOB, "work"))["status"]
    assert (status["succeeded"], status.get("failed")) == (8, None)


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_cascades_are_finished_through_crashes(cluster, propagation):
    rng = random.Random(propagation)
    async with cluster.running(kubelet(cluster)), killed_at_random(cluster, rng, times=20):
        await cluster.create(DEPLOYMENT, workload(DEPLOYMENT, "web", replicas=5))
        await eventually(lambda: is_rolled_out(cluster, 5), within=30)
        await cluster.api.delete(DEPLOYMENT, Key("default", "web"), propagation=propagation)

        async def is_over():
            assert await cluster.find(DEPLOYMENT, "web") is None
            sets, pods = await cluster.list(REPLICA_SET), await cluster.list(POD)
            if propagation == "Orphan":
                return len(pods) == 5 and not meta(sets[0]).get("ownerReferences")
            return not sets and not pods

        await eventually(is_over, within=30)
        await asyncio.sleep(0.2)
        assert await is_over()


async def test_a_controller_that_breaks_is_started_again_and_spares_the_others(cluster, caplog):
    clock = ManualClock()
    broken: list[int] = []

    def make(informers):
        made = ControllerManager(cluster.api, informers, clock=clock)
        victim = made.controllers[0]
        run = victim.run

        async def breaks_once():
            if not broken:
                broken.append(1)
                raise RuntimeError("a bug")
            await run()

        victim.run = breaks_once
        return made

    async with cluster.running(make, kubelet(cluster)):
        await cluster.create(DEPLOYMENT, workload(DEPLOYMENT, "web", replicas=1))
        await eventually(lambda: cluster.get(SERVICE_ACCOUNT, "default"))
        assert "controller broke" in caplog.text
        clock.advance(2)
        await eventually(lambda: is_rolled_out(cluster, 1))


async def test_at_rest_the_controllers_do_nothing(cluster):
    async with cluster.running(manager(cluster), kubelet(cluster)):
        for number in range(5):
            made = workload(DEPLOYMENT, f"web{number}", replicas=4)
            await cluster.create(DEPLOYMENT, made)

        async def all_up():
            found = await cluster.list(DEPLOYMENT)
            return all((one.get("status") or {}).get("availableReplicas") == 4 for one in found)

        await eventually(all_up)

        async def nothing_is_written() -> bool:
            revision = cluster.store.revision
            await asyncio.sleep(1.2)
            return cluster.store.revision == revision

        await eventually(nothing_is_written, within=20)
        revision, began = cluster.store.revision, time.process_time()
        await asyncio.sleep(1.0)
        assert cluster.store.revision == revision
        assert time.process_time() - began < 0.05
