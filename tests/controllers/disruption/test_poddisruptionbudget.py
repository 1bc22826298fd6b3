"""How many pods may be evicted, and that no more are."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api.kinds import DEPLOYMENT, JOB, POD, POD_DISRUPTION_BUDGET, REPLICA_SET
from orlop.api.objects import Key, condition_of, meta
from orlop.client.clock import ManualClock
from orlop.controllers.disruption.poddisruptionbudget import DisruptionBudgets
from orlop.controllers.workloads.deployment.controller import Deployments
from orlop.controllers.workloads.job.controller import Jobs
from orlop.controllers.workloads.replicaset import ReplicaSets
from tests.controllers.world import NAMESPACE, Kubelet, World, eventually, job, pod, workload

SELECTOR = {"matchLabels": {"app": "web"}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}


def parts(cluster: World, clock=None, **kubelet):
    api = cluster.api
    return (
        lambda informers: DisruptionBudgets(api, informers, clock=clock),
        lambda informers: ReplicaSets(api, informers),
        lambda informers: Deployments(api, informers),
        lambda informers: Kubelet(api, informers, **kubelet),
    )


async def budget(cluster: World, **spec) -> None:
    metadata = {"name": "b", "namespace": NAMESPACE}
    body = {"metadata": metadata, "spec": {"selector": SELECTOR, **spec}}
    await cluster.create(POD_DISRUPTION_BUDGET, body)


async def status(cluster: World) -> dict:
    return (await cluster.get(POD_DISRUPTION_BUDGET, "b"))["status"]


async def says(cluster: World, healthy: int, desired: int, expected: int, allowed: int) -> bool:
    found = await status(cluster)
    names = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
    return [found[name] for name in names] == [healthy, desired, expected, allowed]


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 2, 3),
        ({"minAvailable": "50%"}, 3, 2),
        ({"maxUnavailable": 1}, 4, 1),
        ({"maxUnavailable": "30%"}, 3, 2),
        ({"maxUnavailable": 0}, 5, 0),
        ({"minAvailable": "100%"}, 5, 0),
    ],
    ids=str,
)
async def test_numbers_and_shares_of_a_deployment(cluster, spec, desired, allowed):
    async with cluster.running(*parts(cluster)):
        await cluster.create(DEPLOYMENT, workload(DEPLOYMENT, "web", replicas=5))
        await budget(cluster, **spec)
        await eventually(lambda: says(cluster, 5, desired, 5, allowed))
        told = condition_of(await cluster.get(POD_DISRUPTION_BUDGET, "b"), "DisruptionAllowed")
        assert told["status"] == ("True" if allowed else "False")
        assert told["reason"] == ("SufficientPods" if allowed else "InsufficientPods")


async def test_a_share_follows_the_scale(cluster):
    async with cluster.running(*parts(cluster)):
        await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=2))
        await budget(cluster, minAvailable="50%")
        await eventually(lambda: says(cluster, 2, 1, 2, 1))
        await cluster.patch(REPLICA_SET, "web", {"spec": {"replicas": 4}})
        await eventually(lambda: says(cluster, 4, 2, 4, 2))


async def test_evictions_stop_at_the_budget_and_go_on_with_it(cluster):
    async with cluster.running(*parts(cluster)):
        await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=3))
        await budget(cluster, maxUnavailable=1)
        await eventually(lambda: says(cluster, 3, 2, 3, 1))
        first, second, third = [meta(one)["name"] for one in await cluster.list(POD)]

        async def evict(name: str) -> bool:
            try:
                body = {**EVICTION, "metadata": {"name": name, "namespace": NAMESPACE}}
                await cluster.api.create_subresource(POD, Key(NAMESPACE, name), "eviction", body)
            except errors.TooManyRequests as error:
                return bool(error.details["causes"][0]["reason"] != "DisruptionBudget")
            return True

        assert await evict(first)
        for name in (second, third):
            await eventually(lambda name=name: evict(name))
        await eventually(lambda: says(cluster, 3, 2, 3, 1))
        left = {meta(one)["name"] for one in await cluster.list(POD)}
        assert not left & {first, second, third}


async def test_an_eviction_that_does_not_happen_is_given_up(cluster):
    clock = ManualClock()
    cluster.server.registry.now = clock.now
    async with cluster.running(*parts(cluster, clock)):
        await cluster.create(POD, pod("p", labels={"app": "web"}))
        await budget(cluster, minAvailable=0)
        await eventually(lambda: says(cluster, 1, 0, 1, 1))
        noted = {"disruptedPods": {"p": "2027-01-15T08:00:00Z"}}
        await cluster.patch(POD_DISRUPTION_BUDGET, "b", {"status": noted}, subresource="status")
        await eventually(lambda: says(cluster, 0, 0, 1, 0))
        clock.advance(121)
        await eventually(lambda: says(cluster, 1, 0, 1, 1))
        assert "disruptedPods" not in await status(cluster)


async def test_sick_pods_go_by_their_own_policy(cluster):
    async with cluster.running(*parts(cluster, is_ready=lambda pod: False)):
        await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web", replicas=1))
        await budget(cluster, minAvailable=1)
        await eventually(lambda: says(cluster, 0, 1, 1, 0))

        async def runs() -> str:
            (one,) = await cluster.list(POD)
            assert one["status"]["phase"] == "Running"
            return meta(one)["name"]

        name = await eventually(runs)
        key, body = Key(NAMESPACE, name), {**EVICTION, "metadata": {"name": name}}
        with pytest.raises(errors.TooManyRequests):
            await cluster.api.create_subresource(POD, key, "eviction", body)
        change = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
        await cluster.patch(POD_DISRUPTION_BUDGET, "b", change)
        await cluster.api.create_subresource(POD, key, "eviction", body)


async def test_who_has_no_scale_is_never_evicted_by_a_share(cluster):
    makers = lambda informers: Jobs(cluster.api, informers)  # noqa: E731
    async with cluster.running(*parts(cluster, fate=lambda pod: None), makers):
        made = job("j", parallelism=1)
        made["spec"]["template"]["metadata"] = {"labels": {"app": "web"}}
        await cluster.create(JOB, made)
        await budget(cluster, maxUnavailable=1)

        async def failed() -> None:
            found = await cluster.get(POD_DISRUPTION_BUDGET, "b")
            told = condition_of(found, "DisruptionAllowed")
            assert (told["status"], told["reason"]) == ("False", "SyncFailed")
            assert "jobs.batch does not implement the scale subresource" in told["message"]
            assert found["status"]["disruptionsAllowed"] == 0

        await eventually(failed)
