"""MPIJobs from their making to their end, in a world whose pods end as they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orlop import errors
from orlop.api.kinds import CONFIG_MAP, EVENT, JOB, NODE, POD, SERVICE
from orlop.api.objects import Obj, annotations_of, key_of, labels_of, meta, phase_of
from orlop.controllers.workloads.job.controller import Jobs
from orlop.extensions.bundled import BundledKinds, RunWhileInstalled
from orlop.extensions.mpijob.controller import MPI_JOB, MpiJobs
from orlop.extensions.registry import definitions
from orlop.extensions.training.metrics import MPI_JOBS
from orlop.metrics import PROCESS
from tests.controllers.world import Kubelet, World, eventually, stays
from tests.extensions.mpijob.test_children import mpi_job

Fate = Callable[[Obj], int | None]


def role_of(pod: Obj) -> str:
    return labels_of(pod).get("training.kubeflow.org/job-role", "")


def launcher_ends(code: int | None) -> Fate:
    return lambda pod: code if role_of(pod) == "launcher" else None


def parts(cluster: World, fate: Fate, **kubelet: Any) -> list[Any]:
    manifests = {MPI_JOB.resource: definitions()[MPI_JOB.resource]}
    api = cluster.api
    return [
        lambda informers: BundledKinds(api, informers, manifests),
        lambda informers: RunWhileInstalled(
            informers, [MPI_JOB.resource], lambda: [MpiJobs(api, informers)]
        ),
        lambda informers: Jobs(api, informers),
        lambda informers: Kubelet(api, informers, fate=fate, **kubelet),
    ]


async def made(cluster: World, **fields: Any) -> None:
    """Accepted once the kind is served; what the server adds is its own to say."""
    job = mpi_job(**fields)
    job["metadata"] = {"name": "pi", "annotations": job["metadata"]["annotations"]}

    async def create() -> None:
        await cluster.create(MPI_JOB, job)

    await eventually(create, "the kind is served")


async def says(cluster: World) -> dict[str, str]:
    status = (await cluster.get(MPI_JOB, "pi")).get("status") or {}
    return {one["type"]: one["status"] for one in status.get("conditions") or []}


async def holds(cluster: World, **wanted: str) -> bool:
    return wanted.items() <= (await says(cluster)).items()


async def pods(cluster: World) -> list[str]:
    return sorted(role_of(pod) for pod in await cluster.list(POD))


async def test_one_that_succeeds_keeps_its_launcher_and_drops_its_workers(cluster: World) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(0))):
        await made(cluster)
        await eventually(lambda: holds(cluster, Succeeded="True"))

        async def is_clean() -> None:
            assert await pods(cluster) == ["launcher"]
            status = (await cluster.get(MPI_JOB, "pi"))["status"]
            assert status["replicaStatuses"]["Launcher"]["succeeded"] == 1
            assert "active" not in status["replicaStatuses"]["Worker"]
            assert status["completionTime"]
            assert status["startTime"]
            assert status["conditions"][-1]["type"] == "Succeeded"  # as kubectl shows it

        await eventually(is_clean)


async def test_what_it_makes_while_it_runs(cluster: World) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(None))):
        await made(cluster, mpiImplementation="MPICH")
        await eventually(lambda: holds(cluster, Running="True", Created="True"))

        async def is_told() -> None:
            config = await cluster.get(CONFIG_MAP, "pi-config")
            assert config["data"]["discover_hosts.sh"].count("echo") == 2

        await eventually(is_told)
        assert await pods(cluster) == ["launcher", "worker", "worker"]
        names = {meta(one)["name"] for one in await cluster.list(SERVICE)}
        assert {"pi", "pi-launcher"} <= names
        active = (await cluster.get(MPI_JOB, "pi"))["status"]["replicaStatuses"]
        assert (active["Launcher"]["active"], active["Worker"]["active"]) == (1, 2)


async def test_one_whose_launcher_fails_too_often_has_failed(cluster: World) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(3))):
        await made(cluster, runPolicy={"backoffLimit": 0, "cleanPodPolicy": "None"})
        await eventually(lambda: holds(cluster, Failed="True"))
        found = (await cluster.get(MPI_JOB, "pi"))["status"]["conditions"][-1]
        assert (found["type"], found["reason"]) == ("Failed", "BackoffLimitExceeded")
        assert (await pods(cluster)).count("worker") == 2  # None: they stay


async def test_a_worker_that_is_deleted_is_made_again(cluster: World) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(None))):
        await made(cluster)
        await eventually(lambda: holds(cluster, Running="True"))
        former = await cluster.get(POD, "pi-worker-1")
        await cluster.api.delete(POD, key_of(former), grace=0)

        async def is_new() -> None:
            assert meta(await cluster.get(POD, "pi-worker-1"))["uid"] != meta(former)["uid"]

        await eventually(is_new)


async def test_one_that_is_suspended_runs_nothing_until_it_is_resumed(cluster: World) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(None))):
        await made(cluster)
        await eventually(lambda: holds(cluster, Running="True"))
        await cluster.patch(MPI_JOB, "pi", {"spec": {"runPolicy": {"suspend": True}}})
        await eventually(lambda: holds(cluster, Suspended="True", Running="False"))

        async def is_still() -> None:
            assert await pods(cluster) == []

        await eventually(is_still)
        await stays(is_still)
        assert (await cluster.get(JOB, "pi-launcher"))["spec"]["suspend"] is True
        await cluster.patch(MPI_JOB, "pi", {"spec": {"runPolicy": {"suspend": False}}})
        await eventually(lambda: holds(cluster, Suspended="False", Running="True"))


async def test_one_that_is_edited_while_it_is_suspended_is_resumed_as_it_is_then(
    cluster: World,
) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(None))):
        await made(cluster, runPolicy={"suspend": True})
        await eventually(lambda: holds(cluster, Suspended="True"))
        roles = (await cluster.get(MPI_JOB, "pi"))["spec"]["mpiReplicaSpecs"]
        roles["Worker"]["replicas"] = 3
        roles["Launcher"]["template"]["spec"]["containers"][0]["args"] = ["-n", "3", "/pi"]
        await cluster.patch(MPI_JOB, "pi", {"spec": {"mpiReplicaSpecs": roles}})
        await cluster.patch(MPI_JOB, "pi", {"spec": {"runPolicy": {"suspend": False}}})
        await eventually(lambda: holds(cluster, Running="True"))
        launcher = (await cluster.get(JOB, "pi-launcher"))["spec"]["template"]
        assert launcher["spec"]["containers"][0]["args"] == ["-n", "3", "/pi"]
        assert annotations_of(launcher)["slurm.orlop.dev/gang-size"] == "4"
        assert sorted(await pods(cluster)) == ["launcher", *["worker"] * 3]


async def test_a_launcher_may_wait_for_its_workers(cluster: World) -> None:
    ready: list[str] = []
    kubelet = {"is_ready": lambda pod: bool(ready)}
    async with cluster.running(*parts(cluster, launcher_ends(None), **kubelet)):
        await made(cluster, launcherCreationPolicy="WaitForWorkersReady")

        async def has_workers() -> None:
            assert await pods(cluster) == ["worker", "worker"]

        await eventually(has_workers)
        await stays(has_workers)


async def test_one_that_others_manage_is_left_alone(cluster: World) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(0))):
        await made(cluster, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"})

        async def is_alone() -> None:
            assert await pods(cluster) == []
            assert not await says(cluster)

        await stays(is_alone)


async def test_one_whose_time_is_over_is_deleted(cluster: World) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(0))):
        await made(cluster, runPolicy={"ttlSecondsAfterFinished": 0})

        async def is_gone() -> bool:
            found = await cluster.find(MPI_JOB, "pi")
            return found is None or "deletionTimestamp" in meta(found)

        await eventually(is_gone)


async def test_somebody_elses_service_is_never_taken_over(cluster: World) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(0))):
        theirs = {"metadata": {"name": "pi"}, "spec": {"ports": [{"port": 80}]}}
        await cluster.create(SERVICE, {"apiVersion": "v1", "kind": "Service", **theirs})
        await made(cluster)

        async def is_untouched() -> None:
            assert "ownerReferences" not in meta(await cluster.get(SERVICE, "pi"))
            assert await pods(cluster) == []

        await stays(is_untouched)


async def test_with_srun_there_is_one_pod_of_ranks(cluster: World) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(0))):
        await made(cluster, annotations={"slurm.orlop.dev/launcher": "srun"}, slotsPerWorker=2)
        await eventually(lambda: holds(cluster, Succeeded="True"))
        (pod,) = await cluster.list(POD)
        assert meta(pod)["annotations"]["slurm.orlop.dev/ntasks"] == "2"
        assert pod["spec"]["containers"][0]["command"] == ["/pi"]


@pytest.mark.parametrize(
    "spec",
    [
        {"mpiImplementation": "LAM"},
        {"runPolicy": {"cleanPodPolicy": "Some"}},
        {"slotsPerWorker": -1},
        {"mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"containers": []}}}}},
    ],
)
async def test_what_the_schema_does_not_know_is_refused(cluster: World, spec: Any) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(0))):
        await made(cluster)
        await cluster.api.delete(MPI_JOB, key_of(await cluster.get(MPI_JOB, "pi")))
        bad = mpi_job(**spec)
        bad["metadata"] = {"name": "bad"}
        with pytest.raises(errors.Invalid):
            await cluster.create(MPI_JOB, bad)


async def test_pods_that_wait_for_too_long_are_told_of(cluster: World) -> None:
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    policy = {"scheduleTimeoutSeconds": 1, "minResources": {"cpu": 8}, "minAvailable": 2}
    async with cluster.running(*parts(cluster, launcher_ends(None), binds=False)):
        await cluster.create(NODE, node)
        await made(cluster, runPolicy={"schedulingPolicy": policy})

        async def are_told() -> None:
            told = {one["reason"]: one["message"] for one in await cluster.list(EVENT)}
            assert "fewer than 2 pods run after 1 s" in told["Timeout"]
            assert "cpu 8 (it has 4)" in told["MinResourcesNotMet"]

        await eventually(are_told)


@pytest.mark.parametrize(("code", "end"), [(0, "Succeeded"), (3, "Failed")])
async def test_it_is_counted_as_the_operator_counts(cluster: World, code: int, end: str) -> None:
    before = {name: counter.value() for name, counter in MPI_JOBS.items()}
    info = 'mpi_operator_job_info{launcher="pi-launcher",namespace="default"} 1'
    async with cluster.running(*parts(cluster, launcher_ends(code))):
        await made(cluster, runPolicy={"backoffLimit": 0})
        await eventually(lambda: holds(cluster, **{end: "True"}))
        assert info in PROCESS.text()
        await cluster.api.delete(MPI_JOB, key_of(await cluster.get(MPI_JOB, "pi")))

        async def is_forgotten() -> None:
            assert info not in PROCESS.text()

        await eventually(is_forgotten)
    after = {name: counter.value() - before[name] for name, counter in MPI_JOBS.items()}
    other = {"Succeeded": "Failed", "Failed": "Succeeded"}[end]
    assert after == {"Created": 1, end: 1, other: 0}


async def test_workers_that_slurm_has_ended_are_made_again_for_the_next_try(cluster: World) -> None:
    async with cluster.running(*parts(cluster, launcher_ends(None))):
        await made(cluster, runPolicy={"backoffLimit": 3})
        await eventually(lambda: holds(cluster, Running="True"))
        before = {meta(pod)["uid"]: meta(pod)["name"] for pod in await cluster.list(POD)}
        lost = {"status": {"phase": "Failed", "reason": "NodeLost"}}
        for name in sorted(before.values(), reverse=True):  # workers first
            await cluster.patch(POD, name, lost, subresource="status")

        async def are_new() -> None:
            living = [pod for pod in await cluster.list(POD) if phase_of(pod) == "Running"]
            assert sorted(map(role_of, living)) == ["launcher", "worker", "worker"]
            assert not {meta(pod)["uid"] for pod in living} & set(before)

        await eventually(are_new, within=30)
        await eventually(lambda: holds(cluster, Running="True", Restarting="False"))


async def test_workers_that_fail_by_themselves_are_not_made_again(cluster: World) -> None:
    async with cluster.running(*parts(cluster, lambda pod: 1, is_ready=lambda pod: False)):
        await made(cluster, launcherCreationPolicy="WaitForWorkersReady")

        async def have_failed() -> set[str]:
            found = await cluster.list(POD)
            assert [phase_of(pod) for pod in found] == ["Failed"] * 2
            return {meta(pod)["uid"] for pod in found}

        first = await eventually(have_failed)

        async def are_the_same() -> None:
            assert await have_failed() == first

        await stays(are_the_same)


async def test_what_it_needs_is_not_told_of_once_it_runs(cluster: World) -> None:
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    policy = {"minResources": {"cpu": 8}}
    async with cluster.running(*parts(cluster, launcher_ends(None))) as informers:
        await made(cluster, runPolicy={"schedulingPolicy": policy})
        await eventually(lambda: holds(cluster, Running="True"))
        await cluster.create(NODE, node)

        async def is_known() -> bool:
            return bool(informers.informer(NODE).list())

        await eventually(is_known)
        fewer = {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 1}}}}
        await cluster.patch(MPI_JOB, "pi", fewer)

        async def is_looked_at() -> None:
            assert await pods(cluster) == ["launcher", "worker"]

        await eventually(is_looked_at)

        async def is_silent() -> None:
            told = {one["reason"] for one in await cluster.list(EVENT)}
            assert "MinResourcesNotMet" not in told

        await stays(is_silent)


async def test_pods_that_wait_say_the_size_of_the_gang_as_it_is_now(cluster: World) -> None:
    """A launcher is made from a template that may be older than the number of workers."""
    controllers = parts(cluster, launcher_ends(None))[:-1]  # nothing ever starts
    async with cluster.running(*controllers):
        await made(cluster, workers=3)

        async def sizes() -> list[str | None]:
            notes = [annotations_of(pod) for pod in await cluster.list(POD)]
            return [note.get("slurm.orlop.dev/gang-size") for note in notes]

        async def are(wanted: list[str]) -> None:
            assert await sizes() == wanted

        await eventually(lambda: are(["4"] * 4))
        change = {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 1}}}}
        await cluster.patch(MPI_JOB, "pi", change)
        await eventually(lambda: are(["2"] * 2))
