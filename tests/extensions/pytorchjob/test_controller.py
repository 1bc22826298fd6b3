"""PyTorchJobs from their making to their end, in a world whose pods end as they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orlop import errors
from orlop.api import times
from orlop.api.kinds import EVENT, HORIZONTAL_POD_AUTOSCALER, NODE, POD, SERVICE
from orlop.api.objects import Obj, annotations_of, key_of, meta, phase_of
from orlop.client.clock import ManualClock
from orlop.extensions.bundled import BundledKinds, RunWhileInstalled
from orlop.extensions.pytorchjob.children import ATTEMPT, pod_for
from orlop.extensions.pytorchjob.controller import PYTORCH_JOB, PyTorchJobs
from orlop.extensions.pytorchjob.status import backoff_left, is_retried
from orlop.extensions.registry import definitions
from orlop.extensions.training.metrics import TRAINING_JOBS
from tests.controllers.world import Kubelet, World, eventually, stays
from tests.extensions.pytorchjob.test_children import pytorch_job, replica

Fate = Callable[[Obj], int | None]


def fates(**codes: int) -> Fate:
    """By the last two words of a pod's name, as master_0; the others go on."""
    wanted = {f"sgd-{name.replace('_', '-')}": code for name, code in codes.items()}
    return lambda pod: wanted.get(meta(pod)["name"])


@pytest.fixture
def clock(cluster: World) -> ManualClock:
    made = ManualClock()
    cluster.server.registry.now = made.now
    return made


def parts(cluster: World, fate: Fate, clock: ManualClock | None = None) -> list[Any]:
    manifests, api = {PYTORCH_JOB.resource: definitions()[PYTORCH_JOB.resource]}, cluster.api
    return [
        lambda informers: BundledKinds(api, informers, manifests),
        lambda informers: RunWhileInstalled(
            informers, [PYTORCH_JOB.resource], lambda: [PyTorchJobs(api, informers, clock=clock)]
        ),
        lambda informers: Kubelet(api, informers, fate=fate, clock=clock),
    ]


async def made(cluster: World, job: Obj | None = None, **fields: Any) -> None:
    """Accepted once the kind is served; what the server adds is its own to say."""
    wanted = job or pytorch_job(**fields)
    wanted["metadata"] = {"name": "sgd"}

    async def create() -> None:
        await cluster.create(PYTORCH_JOB, wanted)

    await eventually(create, "the kind is served")


async def status(cluster: World) -> Obj:
    found: Obj = (await cluster.get(PYTORCH_JOB, "sgd")).get("status") or {}
    return found


async def holds(cluster: World, **wanted: str) -> bool:
    conditions = (await status(cluster)).get("conditions") or []
    return wanted.items() <= {one["type"]: one["status"] for one in conditions}.items()


async def pods(cluster: World) -> dict[str, str]:
    return {meta(pod)["name"]: phase_of(pod) for pod in await cluster.list(POD)}


async def events(cluster: World, reason: str) -> list[str]:
    return [one["message"] for one in await cluster.list(EVENT) if one["reason"] == reason]


async def test_it_is_over_when_its_master_is(cluster: World) -> None:
    before = TRAINING_JOBS["Succeeded"].value("default", "pytorch")
    async with cluster.running(*parts(cluster, fates(master_0=0, worker_0=0))):
        await made(cluster)
        await eventually(lambda: holds(cluster, Succeeded="True", Created="True"))

        async def is_clean() -> None:
            left = await pods(cluster)
            assert left["sgd-master-0"] == "Succeeded"
            assert "Running" not in left.values()
            found = await status(cluster)
            assert found["replicaStatuses"]["Master"]["succeeded"] == 1
            assert "active" not in found["replicaStatuses"]["Worker"]
            assert found["conditions"][-1]["type"] == "Succeeded"  # as kubectl shows it
            assert found["startTime"] <= found["completionTime"]

        await eventually(is_clean)
    assert TRAINING_JOBS["Succeeded"].value("default", "pytorch") == before + 1


async def test_without_a_master_all_workers_must_succeed(cluster: World) -> None:
    ends = {"sgd-worker-0": 0}
    async with cluster.running(*parts(cluster, lambda pod: ends.get(meta(pod)["name"]))) as seen:
        await made(cluster, master=False)
        await eventually(lambda: holds(cluster, Running="True"))
        await stays(lambda: holds(cluster, Running="True"))
        ends["sgd-worker-1"] = 0
        for pod in await cluster.list(POD):
            await cluster.patch(POD, meta(pod)["name"], {"metadata": {"labels": {"look": "again"}}})
        await eventually(lambda: holds(cluster, Succeeded="True", Running="False"))
        assert seen is not None


async def test_what_it_makes_while_it_runs(cluster: World) -> None:
    metrics = [
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80},
            },
        }
    ]
    policy = {"minReplicas": 1, "maxReplicas": 3, "metrics": metrics}
    async with cluster.running(*parts(cluster, fates())):
        await made(cluster, elasticPolicy=policy)
        await eventually(lambda: holds(cluster, Running="True"))
        names = {"sgd-master-0", "sgd-worker-0", "sgd-worker-1"}
        assert set(await pods(cluster)) == names
        assert names <= {meta(one)["name"] for one in await cluster.list(SERVICE)}
        scaler = await cluster.get(HORIZONTAL_POD_AUTOSCALER, "sgd")
        assert scaler["spec"]["maxReplicas"] == 3
        change = {"spec": {"replicas": 1}}
        await cluster.patch(PYTORCH_JOB, "sgd", change, subresource="scale")

        async def is_smaller() -> None:
            assert set(await pods(cluster)) == names - {"sgd-worker-1"}
            assert (await status(cluster))["replicaStatuses"]["Worker"]["active"] == 1

        await eventually(is_smaller)


FAILURES = [
    ("Never", 1, "1 Worker replica(s) failed"),
    ("ExitCode", 1, "1 Worker replica(s) failed"),
    ("ExitCode", 137, "backoff limit"),
    ("OnFailure", 1, "backoff limit"),  # of a pod that Slurm has ended
]


@pytest.mark.parametrize(("policy", "code", "words"), FAILURES)
async def test_what_a_failed_worker_means(
    cluster: World, clock: ManualClock, policy: str, code: int, words: str
) -> None:
    job = pytorch_job(runPolicy={"backoffLimit": 1})
    job["spec"]["pytorchReplicaSpecs"]["Worker"] = replica(2, restartPolicy=policy)
    async with cluster.running(*parts(cluster, fates(worker_1=code), clock)):
        await made(cluster, job)

        async def has_failed() -> bool:
            clock.advance(1)
            return await holds(cluster, Failed="True")

        await eventually(has_failed)

        async def is_over() -> None:
            found = await status(cluster)
            assert words in found["conditions"][-1]["message"]
            assert found["conditions"][-1]["reason"] == "PyTorchJobFailed"
            assert "Running" not in (await pods(cluster)).values(), "nothing is left running"
            is_again = "backoff" in words
            assert found.get("restarts", 0) == int(is_again)
            assert found["replicaStatuses"]["Worker"]["failed"] == 1 + is_again
            assert not any("active" in one for one in found["replicaStatuses"].values())

        await eventually(is_over)


RETRIES = [
    ("ExitCode", 1, "", False),
    ("ExitCode", 130, "", True),
    ("ExitCode", 1, "PreemptionByScheduler", True),
    ("OnFailure", 1, "NodeLost", True),
    ("Never", 130, "NodeLost", False),
]


@pytest.mark.parametrize(("policy", "code", "reason", "wanted"), RETRIES)
def test_who_is_made_again(policy: str, code: int, reason: str, wanted: bool) -> None:
    job = pytorch_job()
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = policy
    pod = pod_for(job, "Worker", 0)
    ended = {"name": "pytorch", "state": {"terminated": {"exitCode": code}}}
    pod["status"] = {"phase": "Failed", "reason": reason, "containerStatuses": [ended]}
    assert is_retried(job, pod) is wanted


@pytest.mark.parametrize(
    ("said", "rounds", "left"),
    [
        (None, 0, 0.0),
        ("False", 3, 0.0),
        ("True", 1, 7.0),
        ("True", 2, 17.0),
        ("True", 6, 317.0),
        ("True", 7, 357.0),
        ("True", 5000, 357.0),
    ],
)
def test_how_long_pods_wait_that_are_made_again(said: str | None, rounds: int, left: float) -> None:
    told = {"type": "Restarting", "status": said, "lastUpdateTime": times.rfc3339(100.0)}
    status = {"restarts": rounds, "conditions": [told] if said else []}
    assert backoff_left({**pytorch_job(), "status": status}, 103.0) == left


async def test_a_program_that_dies_at_once_is_started_more_and_more_seldom(
    cluster: World, clock: ManualClock
) -> None:
    since: dict[int, float] = {}  # by attempt, when its pod was made

    def fate(pod: Obj) -> int:
        attempt = int(annotations_of(pod)[ATTEMPT])
        since[attempt] = times.parse(meta(pod)["creationTimestamp"])
        return 137

    job = pytorch_job(workers=0)
    job["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = "ExitCode"
    async with cluster.running(*parts(cluster, fate, clock)):
        await made(cluster, job)
        await eventually(lambda: holds(cluster, Restarting="True"))
        await eventually(lambda: _is_empty(cluster))
        await stays(lambda: _is_empty(cluster))

        async def is_tried_again() -> bool:
            clock.advance(1)
            return len(since) > 3

        await eventually(is_tried_again)
    waited = [since[attempt + 1] - since[attempt] for attempt in range(3)]
    assert all(map(float.__ge__, waited, (10.0, 20.0, 40.0))), waited


async def test_a_pod_that_is_made_again_makes_the_job_whole(
    cluster: World, clock: ManualClock
) -> None:
    """All that fails until then is one restart."""
    uids: set[str] = set()

    def fate(pod: Obj) -> int | None:
        uids.add(meta(pod)["uid"])
        return 137 if len(uids) <= 3 else None

    before = TRAINING_JOBS["Restarting"].value("default", "pytorch")
    async with cluster.running(*parts(cluster, fate, clock)):
        await made(cluster, runPolicy={"backoffLimit": 1})

        async def have_failed() -> None:
            counts = (await status(cluster))["replicaStatuses"].values()
            assert sum(one.get("failed", 0) for one in counts) == 3

        await eventually(have_failed)

        async def is_whole() -> None:
            clock.advance(1)
            assert await holds(cluster, Running="True", Restarting="False")
            assert list((await pods(cluster)).values()) == ["Running"] * 3
            assert (await status(cluster))["restarts"] == 1
            await have_failed()

        await eventually(is_whole)
    assert TRAINING_JOBS["Restarting"].value("default", "pytorch") == before + 1


async def test_one_that_is_active_for_too_long_has_failed(cluster: World) -> None:
    async with cluster.running(*parts(cluster, fates())):
        await made(cluster, runPolicy={"activeDeadlineSeconds": 1, "cleanPodPolicy": "None"})
        await eventually(lambda: holds(cluster, Failed="True"))
        words = (await status(cluster))["conditions"][-1]["message"]
        assert "longer than specified deadline" in words
        await eventually(lambda: _is_empty(cluster), "nothing is left running")


async def _is_empty(cluster: World) -> bool:
    return not await pods(cluster)


async def test_one_that_is_suspended_has_no_pods_and_resumes_anew(cluster: World) -> None:
    async with cluster.running(*parts(cluster, fates())):
        await made(cluster, runPolicy={"suspend": True})
        await eventually(lambda: holds(cluster, Suspended="True"))
        assert await _is_empty(cluster)
        await cluster.patch(PYTORCH_JOB, "sgd", {"spec": {"runPolicy": {"suspend": False}}})
        await eventually(lambda: holds(cluster, Suspended="False", Running="True"))
        await cluster.patch(PYTORCH_JOB, "sgd", {"spec": {"runPolicy": {"suspend": True}}})
        await eventually(lambda: _is_empty(cluster))
        await eventually(lambda: holds(cluster, Suspended="True", Running="False"))


async def test_it_goes_with_all_it_made_when_its_time_has_come(cluster: World) -> None:
    async with cluster.running(*parts(cluster, fates(master_0=0))):
        await made(cluster, workers=0, runPolicy={"ttlSecondsAfterFinished": 0})

        async def is_gone() -> None:
            found = await cluster.find(PYTORCH_JOB, "sgd")
            assert found is None or meta(found).get("deletionTimestamp")

        await eventually(is_gone)


async def test_pods_that_wait_for_too_long_are_told_of(cluster: World) -> None:
    policy = {"scheduleTimeoutSeconds": 1, "minResources": {"cpu": "1000"}}
    manifests, api = {PYTORCH_JOB.resource: definitions()[PYTORCH_JOB.resource]}, cluster.api
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    async with cluster.running(
        lambda informers: BundledKinds(api, informers, manifests),
        lambda informers: RunWhileInstalled(
            informers, [PYTORCH_JOB.resource], lambda: [PyTorchJobs(api, informers)]
        ),
    ):
        await cluster.create(NODE, node)
        await made(cluster, runPolicy={"schedulingPolicy": policy})

        async def are_told() -> None:
            (late,) = await events(cluster, "Timeout")
            assert "fewer than 3 pods run after 1 s" in late
            assert await events(cluster, "MinResourcesNotMet")

        await eventually(are_told)


async def test_what_it_needs_is_not_told_of_once_it_runs(cluster: World) -> None:
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    policy = {"minResources": {"cpu": "1000"}}
    async with cluster.running(*parts(cluster, fates())) as informers:
        await made(cluster, runPolicy={"schedulingPolicy": policy})
        await eventually(lambda: _are(cluster, 3))
        await cluster.create(NODE, node)

        async def is_known() -> bool:
            return bool(informers.informer(NODE).list())

        await eventually(is_known)
        change = {"spec": {"replicas": 1}}
        await cluster.patch(PYTORCH_JOB, "sgd", change, subresource="scale")
        await eventually(lambda: _are(cluster, 2), "it is looked at")

        async def is_silent() -> None:
            assert not await events(cluster, "MinResourcesNotMet")

        await stays(is_silent)


async def _are(cluster: World, running: int) -> None:
    assert list((await pods(cluster)).values()) == ["Running"] * running
    active = (await status(cluster))["replicaStatuses"]
    assert sum(one.get("active", 0) for one in active.values()) == running


async def test_another_manager_s_is_left_alone(cluster: World) -> None:
    async with cluster.running(*parts(cluster, fates())):
        await made(cluster, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"})
        await stays(lambda: _is_empty(cluster))


async def test_a_pod_without_its_container_is_refused(cluster: World) -> None:
    job = pytorch_job()
    job["spec"]["pytorchReplicaSpecs"]["Worker"] = replica(1, container={"name": "torch"})
    async with cluster.running(*parts(cluster, fates())):
        with pytest.raises(errors.Invalid, match="container named pytorch"):
            await made(cluster, job)


async def test_a_deleted_worker_is_made_again(cluster: World) -> None:
    async with cluster.running(*parts(cluster, fates())):
        await made(cluster)
        await eventually(lambda: holds(cluster, Running="True"))
        former = await cluster.get(POD, "sgd-worker-1")
        await cluster.api.delete(POD, key_of(former), grace=0)

        async def is_new() -> None:
            assert meta(await cluster.get(POD, "sgd-worker-1"))["uid"] != meta(former)["uid"]

        await eventually(is_new)
