"""Deployments grow, roll, pause, go back, and say so."""

from __future__ import annotations

import pytest

from orlop.api.kinds import DEPLOYMENT, EVENT, POD, REPLICA_SET
from orlop.api.objects import annotations_of, condition_of, is_active, meta, uid_of
from orlop.client.clock import ManualClock
from orlop.controllers.workloads.deployment.controller import Deployments
from orlop.controllers.workloads.deployment.revisions import HISTORY, REVISION, template_hash
from orlop.controllers.workloads.replicaset import ReplicaSets
from tests.controllers.world import Kubelet, World, eventually, stays, workload


def parts(cluster: World, **kubelet):
    return (
        lambda informers: Deployments(cluster.api, informers),
        lambda informers: ReplicaSets(cluster.api, informers),
        lambda informers: Kubelet(cluster.api, informers, **kubelet),
    )


def web(**spec):
    return workload(DEPLOYMENT, "web", **{"replicas": 6, **spec})


def image(name: str) -> dict:
    containers = [{"name": "main", "image": name}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


async def pods(cluster: World) -> list[dict]:
    return [one for one in await cluster.list(POD) if is_active(one)]


async def is_rolled_out(cluster: World, replicas: int = 6) -> None:
    """What `kubectl rollout status` waits for."""
    deployment = await cluster.get(DEPLOYMENT, "web")
    status = deployment.get("status") or {}
    assert status.get("observedGeneration") == meta(deployment)["generation"]
    for name in ("replicas", "updatedReplicas", "availableReplicas"):
        assert status.get(name, 0) == replicas, name
    assert "unavailableReplicas" not in status
    assert condition_of(deployment, "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert condition_of(deployment, "Available")["status"] == "True"


async def sizes(cluster: World) -> dict[str, int]:
    """Revision -> replicas."""
    return {
        annotations_of(one)[REVISION]: one["spec"]["replicas"]
        for one in await cluster.list(REPLICA_SET)
    }


async def test_a_deployment_of_six_comes_up(cluster):
    await cluster.create(DEPLOYMENT, web())
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_rolled_out(cluster))
        (replica_set,) = await cluster.list(REPLICA_SET)
        name = meta(replica_set)["name"]
        hashed = meta(replica_set)["labels"]["pod-template-hash"]
        assert name == f"web-{hashed}"
        assert replica_set["spec"]["selector"]["matchLabels"]["pod-template-hash"] == hashed
        for one in await pods(cluster):
            assert meta(one)["name"].startswith(f"{name}-")
            assert meta(one)["labels"] == {"app": "web", "pod-template-hash": hashed}
        assert annotations_of(await cluster.get(DEPLOYMENT, "web"))[REVISION] == "1"
        messages = {one["message"] for one in await cluster.list(EVENT)}
        assert f"Scaled up replica set {name} from 0 to 6" in messages


@pytest.mark.parametrize("replicas", [9, 2, 0])
async def test_scaling_keeps_the_replica_set(cluster, replicas):
    await cluster.create(DEPLOYMENT, web())
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_rolled_out(cluster))
        before = {uid_of(one) for one in await cluster.list(REPLICA_SET)}
        scale = {"spec": {"replicas": replicas}}
        await cluster.patch(DEPLOYMENT, "web", scale, subresource="scale")
        await eventually(lambda: is_rolled_out(cluster, replicas))
        assert {uid_of(one) for one in await cluster.list(REPLICA_SET)} == before
        assert await sizes(cluster) == {"1": replicas}


async def test_a_new_template_is_rolled_out_without_falling_below_its_limits(cluster):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    await cluster.create(DEPLOYMENT, web(strategy=strategy))
    seen: list[tuple[int, int]] = []
    async with cluster.running(*parts(cluster)) as informers:
        await eventually(lambda: is_rolled_out(cluster))

        def watch(event, previous):
            alive = [one for one in informers.informer(POD).list() if is_active(one)]
            ready = sum(one["status"].get("phase") == "Running" for one in alive)
            seen.append((len(alive), ready))

        informers.informer(POD).subscribe(watch)
        await cluster.patch(DEPLOYMENT, "web", image("busybox:2"))
        await eventually(lambda: is_rolled_out(cluster))
    assert await sizes(cluster) == {"1": 0, "2": 6}
    assert max(alive for alive, _ in seen) <= 7
    assert min(ready for _, ready in seen) >= 5
    images = {one["spec"]["containers"][0]["image"] for one in await pods(cluster)}
    assert images == {"busybox:2"}


async def test_recreate_ends_every_old_pod_before_the_first_new_one(cluster):
    await cluster.create(DEPLOYMENT, web(strategy={"type": "Recreate"}))
    async with cluster.running(*parts(cluster)) as informers:
        await eventually(lambda: is_rolled_out(cluster))
        mixed: list[set[str]] = []

        def watch(event, previous):
            alive = informers.informer(POD).list()
            mixed.append({one["spec"]["containers"][0]["image"] for one in alive})

        informers.informer(POD).subscribe(watch)
        await cluster.patch(DEPLOYMENT, "web", image("busybox:2"))
        await eventually(lambda: is_rolled_out(cluster))
    assert all(len(images) <= 1 for images in mixed)
    assert mixed[-1] == {"busybox:2"}


async def test_going_back_to_an_old_template_revives_its_replica_set_as_a_new_revision(cluster):
    await cluster.create(DEPLOYMENT, web(replicas=2))
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_rolled_out(cluster, 2))
        await cluster.patch(DEPLOYMENT, "web", image("busybox:2"))
        await eventually(lambda: is_rolled_out(cluster, 2))
        await cluster.patch(DEPLOYMENT, "web", image("busybox"))
        await eventually(lambda: is_rolled_out(cluster, 2))
        assert await sizes(cluster) == {"2": 0, "3": 2}
        first = max(await cluster.list(REPLICA_SET), key=lambda one: annotations_of(one)[REVISION])
        assert annotations_of(first)[HISTORY] == "1"
        assert annotations_of(await cluster.get(DEPLOYMENT, "web"))[REVISION] == "3"


async def test_a_paused_deployment_scales_but_does_not_roll(cluster):
    await cluster.create(DEPLOYMENT, web(replicas=2))
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_rolled_out(cluster, 2))
        await cluster.patch(DEPLOYMENT, "web", {"spec": {"paused": True}})
        await cluster.patch(DEPLOYMENT, "web", {**image("busybox:2")})
        await cluster.patch(DEPLOYMENT, "web", {"spec": {"replicas": 4}})

        async def paused():
            progressing = condition_of(await cluster.get(DEPLOYMENT, "web"), "Progressing")
            assert (progressing["status"], progressing["reason"]) == ("Unknown", "DeploymentPaused")
            return await sizes(cluster) == {"1": 4}

        await eventually(paused)
        await stays(paused)
        await cluster.patch(DEPLOYMENT, "web", {"spec": {"paused": False}})
        await eventually(lambda: is_rolled_out(cluster, 4))
        assert await sizes(cluster) == {"1": 0, "2": 4}


async def test_only_so_many_old_revisions_are_kept(cluster):
    await cluster.create(DEPLOYMENT, web(replicas=1, revisionHistoryLimit=2))
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_rolled_out(cluster, 1))
        for number in range(2, 6):
            await cluster.patch(DEPLOYMENT, "web", image(f"busybox:{number}"))
            await eventually(lambda: is_rolled_out(cluster, 1))

        async def trimmed():
            return await sizes(cluster) == {"3": 0, "4": 0, "5": 1}

        await eventually(trimmed)


async def test_a_rollout_that_does_not_move_is_called_timed_out(cluster):
    clock = ManualClock()
    cluster.server.registry.now = clock.now
    await cluster.create(DEPLOYMENT, web(replicas=2, progressDeadlineSeconds=60))
    _deployments, replica_sets, kubelet = parts(cluster, is_ready=lambda _: False)
    async with cluster.running(
        lambda informers: Deployments(cluster.api, informers, clock=clock), replica_sets, kubelet
    ):

        async def progressing(reason: str):
            found = condition_of(await cluster.get(DEPLOYMENT, "web"), "Progressing")
            assert found["reason"] == reason
            return found["status"]

        await eventually(lambda: progressing("ReplicaSetUpdated"))
        await stays(lambda: progressing("ReplicaSetUpdated"))
        clock.advance(62)
        await eventually(lambda: progressing("ProgressDeadlineExceeded"))


async def test_a_stranger_under_the_same_name_makes_another_name(cluster):
    made = await cluster.create(DEPLOYMENT, web(replicas=1))
    stranger = workload(REPLICA_SET, f"web-{template_hash(made['spec']['template'])}", replicas=0)
    await cluster.create(REPLICA_SET, stranger)
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_rolled_out(cluster, 1))
        assert (await cluster.get(DEPLOYMENT, "web"))["status"]["collisionCount"] == 1


async def test_what_replica_sets_cannot_make_is_told_on_the_deployment(cluster):
    cluster.quota.pods_left = 1
    await cluster.create(DEPLOYMENT, web(replicas=3))
    async with cluster.running(*parts(cluster)):

        async def told():
            failure = condition_of(await cluster.get(DEPLOYMENT, "web"), "ReplicaFailure")
            assert failure["reason"] == "FailedCreate"
            assert "exceeded quota" in failure["message"]

        await eventually(told)
        cluster.quota.pods_left = None
        await eventually(lambda: is_rolled_out(cluster, 3))


async def test_annotations_reach_the_replica_set_but_not_those_about_the_deployment_itself(cluster):
    made = web(replicas=1)
    made["metadata"]["annotations"] = {
        "kubernetes.io/change-cause": "first",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    await cluster.create(DEPLOYMENT, made)
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: is_rolled_out(cluster, 1))
        cause = {"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}}
        await cluster.patch(DEPLOYMENT, "web", cause)

        async def copied():
            (one,) = await cluster.list(REPLICA_SET)
            assert annotations_of(one)["kubernetes.io/change-cause"] == "second"
            assert "kubectl.kubernetes.io/last-applied-configuration" not in annotations_of(one)

        await eventually(copied)
