"""JobSets: what they are made of, by tables, and their lives in a world of real Jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orlop import errors
from orlop.api.gangs import later_of
from orlop.api.kinds import EVENT, JOB, PERSISTENT_VOLUME_CLAIM, POD, SERVICE
from orlop.api.objects import Obj, annotations_of, key_of, labels_of, meta
from orlop.controllers.gc.garbage_collector import GarbageCollector
from orlop.controllers.workloads.job.controller import Jobs
from orlop.extensions.bundled import BundledKinds, RunWhileInstalled
from orlop.extensions.jobset.children import coordinator, is_outdated, job_for, service
from orlop.extensions.jobset.controller import JOB_SET, JobSets
from orlop.extensions.jobset.in_place_restart import ATTEMPT, CURRENT, PREVIOUS, judge_in_place
from orlop.extensions.jobset.policy import Again, End, after, judge, may_start, progress
from orlop.extensions.registry import definitions
from tests.controllers.world import Kubelet, World, eventually, stays

KEY = "jobset.sigs.k8s.io/"
Fate = Callable[[Obj], int | None]


def replicated(name: str, replicas: int = 1, pods: int = 1, **fields: Any) -> Obj:
    containers = [{"name": "main", "image": "busybox"}]
    spec = {"restartPolicy": "Never", "containers": containers}
    template = {
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 0,
            "template": {"spec": spec},
        }
    }
    return {"name": name, "replicas": replicas, "template": template, **fields}


def job_set(*jobs: Obj, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    every = list(jobs) or [replicated("driver"), replicated("workers", 2, 2)]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": "js",
            "namespace": "default",
            "uid": "0123456789",
            "annotations": annotations or {},
        },
        "spec": {"replicatedJobs": every, **spec},
    }


def child(of: str, index: int = 0, end: str = "", **more: Any) -> Obj:
    """A Job of the set `of`."""
    told = {"type": end, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", **more}
    return {
        "metadata": {
            "name": f"js-{of}-{index}",
            "labels": {KEY + "replicatedjob-name": of, KEY + "job-index": str(index)},
        },
        "spec": {},
        "status": {"conditions": [told] if end else []},
    }


def test_a_job_and_its_pods_carry_the_documented_labels() -> None:
    jobset = job_set()
    job = job_for(jobset, jobset["spec"]["replicatedJobs"][1], 1)
    assert meta(job)["name"] == "js-workers-1"
    labels = {name.removeprefix(KEY): value for name, value in labels_of(job).items()}
    labels.pop("job-key")
    assert labels == {
        "jobset-name": "js",
        "jobset-uid": "0123456789",
        "replicatedjob-name": "workers",
        "replicatedjob-replicas": "2",
        "global-replicas": "3",
        "job-index": "1",
        "job-global-index": "2",
        "group-name": "default",
        "group-replicas": "3",
        "job-group-index": "2",
        "restart-attempt": "0",
    }
    pod = job["spec"]["template"]
    assert labels_of(job).items() <= labels_of(pod).items()
    assert pod["spec"]["subdomain"] == "js"
    assert job["spec"]["completionMode"] == "Indexed"


NETWORKS: list[tuple[dict[str, Any], str | None, bool]] = [
    ({}, "js", True),
    ({"subdomain": "sub", "publishNotReadyAddresses": False}, "sub", False),
    ({"enableDNSHostnames": False}, None, True),
]


@pytest.mark.parametrize(("network", "name", "unready"), NETWORKS)
def test_networks(network: dict[str, Any], name: str | None, unready: bool) -> None:
    jobset = job_set(network=network)
    job = job_for(jobset, jobset["spec"]["replicatedJobs"][0], 0)
    assert job["spec"]["template"]["spec"].get("subdomain") == name
    assert service(jobset)["spec"]["publishNotReadyAddresses"] is unready


def test_the_coordinator_is_told_to_everyone() -> None:
    jobset = job_set(coordinator={"replicatedJob": "workers", "jobIndex": 1})
    assert coordinator(jobset) == "js-workers-1-0.js"
    job = job_for(jobset, jobset["spec"]["replicatedJobs"][0], 0)
    pod = job["spec"]["template"]
    assert annotations_of(pod)[KEY + "coordinator"] == "js-workers-1-0.js"


GANGS: dict[str, tuple[dict[str, Any], tuple[str, str] | None]] = {
    "not by itself": ({}, None),
    "all of it": ({"annotations": {"slurm.orlop.dev/gang": "true"}}, ("jobset-js-0-01234567", "5")),
    "after others": (
        {
            "annotations": {"slurm.orlop.dev/gang": "true"},
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
        },
        ("jobset-js-0-01234567", "4"),
    ),
}


@pytest.mark.parametrize(("fields", "wanted"), GANGS.values(), ids=GANGS)
def test_gangs(fields: dict[str, Any], wanted: tuple[str, str] | None) -> None:
    jobset = job_set(**fields)
    job = job_for(jobset, jobset["spec"]["replicatedJobs"][1], 0)
    found = annotations_of(job["spec"]["template"])
    gang = (found.get("slurm.orlop.dev/gang"), found.get("slurm.orlop.dev/gang-size"))
    assert (gang if gang[0] else None) == wanted


READY, COMPLETE = ({"name": "a", "status": status} for status in ("Ready", "Complete"))
ORDERS: dict[str, tuple[dict[str, list[Obj]], bool, list[tuple[str, str, int]]]] = {
    "at once": ({}, False, [("0", "6", 0)] * 3),
    "in order": ({}, True, [("0", "2", 4), ("0", "3", 1), ("0", "1", 0)]),
    "beside one that is ready": (
        {"b": [READY]},
        False,
        [("0", "3", 3), ("0", "3", 0), ("0", "3", 3)],
    ),
    "after an end": ({"b": [COMPLETE]}, False, [("0", "3", 0), ("b-0", "3", 0), ("0", "3", 0)]),
    "one after the other": (
        {"b": [READY], "c": [{"name": "b", "status": "Ready"}]},
        False,
        [("0", "2", 4), ("0", "3", 1), ("0", "1", 0)],
    ),
}


@pytest.mark.parametrize(("waits", "is_in_order", "wanted"), ORDERS.values(), ids=ORDERS)
def test_a_gang_has_room_for_jobs_that_wait_until_others_are_ready(
    waits: dict[str, list[Obj]], is_in_order: bool, wanted: list[tuple[str, str, int]]
) -> None:
    """Of a, b and c, which have two pods, three and one."""
    jobset = job_set(annotations={"slurm.orlop.dev/gang": "true"})
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}}
    jobset["spec"]["replicatedJobs"] = [
        {
            "name": name,
            "template": {"spec": {**spec, "parallelism": pods, "completions": pods}},
            "dependsOn": waits.get(name, []),
        }
        for name, pods in (("a", 2), ("b", 3), ("c", 1))
    ]
    if is_in_order:
        jobset["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    found = []
    for one in jobset["spec"]["replicatedJobs"]:
        notes = annotations_of(job_for(jobset, one, 0)["spec"]["template"])
        part = notes["slurm.orlop.dev/gang"].removeprefix("jobset-js-").removesuffix("-01234567")
        later = later_of(notes.get("slurm.orlop.dev/gang-room", ""))
        size = notes["slurm.orlop.dev/gang-size"]
        found.append((part, size, sum(each.count for each in later)))
    assert found == wanted


def rule(action: str, **fields: Any) -> dict[str, Any]:
    return {"failurePolicy": {"maxRestarts": 1, "rules": [{"action": action, **fields}]}}


FAILURES: dict[str, tuple[dict[str, Any], Any]] = {
    "no policy": ({}, "FailedJobs"),
    "no restarts": ({"failurePolicy": {}}, "ReachedMaxRestarts"),
    "restarts": ({"failurePolicy": {"maxRestarts": 1}}, (None, True)),
    "a rule that fails it": (rule("FailJobSet"), "FailJobSetFailurePolicyAction"),
    "a rule of another reason": (rule("FailJobSet", onJobFailureReasons=["Other"]), (None, True)),
    "a rule of another job": (rule("FailJobSet", targetReplicatedJobs=["driver"]), (None, True)),
    "a rule of its message": (
        rule("FailJobSet", onJobFailureMessagePatterns=["b.d"]),
        "FailJobSetFailurePolicyAction",
    ),
    "without counting": (rule("RestartJobSetAndIgnoreMaxRestarts"), (None, False)),
    "the job alone": (rule("RestartJob"), ("js-workers-1", True)),
    "the job alone, uncounted": (rule("RestartJobAndIgnoreMaxRestarts"), ("js-workers-1", False)),
}


@pytest.mark.parametrize(("fields", "wanted"), FAILURES.values(), ids=FAILURES)
def test_what_a_failure_means(fields: dict[str, Any], wanted: Any) -> None:
    failed = child("workers", 1, "Failed", reason="BackoffLimitExceeded", message="a bad end")
    found = judge(job_set(**fields), [child("driver"), child("workers"), failed])
    if isinstance(found, End):
        assert (found.type, found.reason) == ("Failed", wanted)
        assert "js-workers-1" in found.message
    else:
        assert isinstance(found, Again)
        assert (found.job and meta(found.job)["name"], found.counts) == wanted


def test_restarts_that_count_are_limited() -> None:
    jobset = job_set(failurePolicy={"maxRestarts": 1})
    jobset["status"] = {"restarts": 5, "restartsCountTowardsMax": 1}
    found = judge(jobset, [child("driver", 0, "Failed")])
    assert isinstance(found, End)
    assert found.reason == "ReachedMaxRestarts"


SUCCESSES: list[tuple[dict[str, Any] | None, list[tuple[str, int]], bool]] = [
    (None, [("driver", 0), ("workers", 0)], False),
    (None, [("driver", 0), ("workers", 0), ("workers", 1)], True),
    ({"operator": "Any"}, [("workers", 0)], True),
    ({"operator": "All", "targetReplicatedJobs": ["driver"]}, [("driver", 0)], True),
    ({"operator": "Any", "targetReplicatedJobs": ["driver"]}, [("workers", 0)], False),
]


@pytest.mark.parametrize(("policy", "done", "wanted"), SUCCESSES)
def test_when_it_has_succeeded(
    policy: dict[str, Any] | None, done: list[tuple[str, int]], wanted: bool
) -> None:
    fields = {"successPolicy": policy} if policy else {}
    found = judge(job_set(**fields), [child(*one, "Complete") for one in done])
    assert (isinstance(found, End) and found.type == "Completed") is wanted


def test_a_job_that_is_made_again_alone_leaves_the_others() -> None:
    jobset = job_set(**rule("RestartJob"))
    jobs = [child("workers", 0), child("workers", 1, "Failed")]
    jobset["status"] = {"replicatedJobsStatus": progress(jobset, jobs)}
    found = judge(jobset, jobs)
    assert isinstance(found, Again)
    jobset["status"] = after(jobset, found)
    assert jobset["status"]["replicatedJobsStatus"][1]["jobRestarts"] == [0, 1]
    assert [is_outdated(jobset, job) for job in jobs] == [False, True]


@pytest.mark.parametrize(("status", "wanted"), [("Ready", True), ("Complete", False)])
def test_what_depends_on_another_waits_for_it(status: str, wanted: bool) -> None:
    second = replicated("workers", dependsOn=[{"name": "driver", "status": status}])
    jobset = job_set(replicated("driver"), second)
    running = child("driver")
    running["status"] = {"ready": 1, "active": 1}
    assert may_start(jobset, second, progress(jobset, [])) is False
    assert may_start(jobset, second, progress(jobset, [running])) is wanted


# In the world


def parts(cluster: World, fate: Fate) -> list[Any]:
    manifests = {JOB_SET.resource: definitions()[JOB_SET.resource]}
    api = cluster.api
    return [
        lambda informers: BundledKinds(api, informers, manifests),
        lambda informers: RunWhileInstalled(
            informers, [JOB_SET.resource], lambda: [JobSets(api, informers)]
        ),
        lambda informers: Jobs(api, informers),
        lambda informers: GarbageCollector(api, informers),
        lambda informers: Kubelet(api, informers, fate=fate),
    ]


async def made(cluster: World, jobset: Obj) -> None:
    jobset["metadata"] = {"name": "js", "annotations": jobset["metadata"]["annotations"]}

    async def create() -> None:
        await cluster.create(JOB_SET, jobset)

    await eventually(create, "the kind is served")


async def holds(cluster: World, **wanted: str) -> bool:
    status = (await cluster.get(JOB_SET, "js")).get("status") or {}
    found = {one["type"]: one["status"] for one in status.get("conditions") or []}
    return wanted.items() <= found.items()


async def test_one_that_completes(cluster: World) -> None:
    async with cluster.running(*parts(cluster, lambda pod: 0)):
        await made(cluster, job_set())
        await eventually(lambda: holds(cluster, Completed="True"))
        status = (await cluster.get(JOB_SET, "js"))["status"]
        assert status["terminalState"] == "Completed"
        counts = {one["name"]: one["succeeded"] for one in status["replicatedJobsStatus"]}
        assert counts == {"driver": 1, "workers": 2}
        assert meta(await cluster.get(SERVICE, "js"))["ownerReferences"][0]["kind"] == "JobSet"


async def test_a_failure_makes_all_of_it_again_as_often_as_it_may(cluster: World) -> None:
    def fate(pod: Obj) -> int | None:
        is_first = labels_of(pod).get(KEY + "restart-attempt") == "0"
        is_bad = is_first and labels_of(pod).get(KEY + "replicatedjob-name") == "driver"
        return 3 if is_bad else None if is_first else 0

    async with cluster.running(*parts(cluster, fate)):
        await made(cluster, job_set(failurePolicy={"maxRestarts": 2}))
        await eventually(lambda: holds(cluster, Completed="True"), within=30)
        assert (await cluster.get(JOB_SET, "js"))["status"]["restarts"] == 1


async def test_without_a_policy_a_failure_ends_it_and_the_jobs_that_run(cluster: World) -> None:
    def fate(pod: Obj) -> int | None:
        return 3 if labels_of(pod)[KEY + "replicatedjob-name"] == "driver" else None

    async with cluster.running(*parts(cluster, fate)):
        await made(cluster, job_set())
        await eventually(lambda: holds(cluster, Failed="True"))

        async def only_the_failed_is_left() -> None:
            assert [meta(job)["name"] for job in await cluster.list(JOB)] == ["js-driver-0"]

        await eventually(only_the_failed_is_left, within=30)


async def test_one_that_is_suspended_runs_nothing(cluster: World) -> None:
    async with cluster.running(*parts(cluster, lambda pod: 0)):
        await made(cluster, job_set(suspend=True))
        await eventually(lambda: holds(cluster, Suspended="True"))

        async def is_still() -> None:
            assert len(await cluster.list(JOB)) == 3
            assert await cluster.list(POD) == []

        await eventually(is_still)
        await stays(is_still)
        await cluster.patch(JOB_SET, "js", {"spec": {"suspend": False}})
        await eventually(lambda: holds(cluster, Suspended="False", Completed="True"))


async def test_one_that_is_edited_while_it_is_suspended_is_resumed_as_it_is_then(
    cluster: World,
) -> None:
    async with cluster.running(*parts(cluster, lambda pod: None)):
        await made(cluster, job_set(suspend=True))
        await eventually(lambda: holds(cluster, Suspended="True"))
        jobs = (await cluster.get(JOB_SET, "js"))["spec"]["replicatedJobs"]
        for job in jobs:
            job["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "a"}
        jobs[-1]["replicas"] -= 1
        await cluster.patch(JOB_SET, "js", {"spec": {"replicatedJobs": jobs}})
        await cluster.patch(JOB_SET, "js", {"spec": {"suspend": False}})
        await eventually(lambda: holds(cluster, Suspended="False"))
        with pytest.raises(errors.Invalid, match="only change while the JobSet is suspended"):
            await cluster.patch(JOB_SET, "js", {"spec": {"replicatedJobs": jobs[:1]}})

        async def all_are_new() -> None:
            found = await cluster.list(JOB)
            selected = [job["spec"]["template"]["spec"].get("nodeSelector") for job in found]
            assert selected == [{"zone": "a"}] * 2

        await eventually(all_are_new)


async def test_in_order_the_second_waits_for_the_first_to_be_ready(cluster: World) -> None:
    async with cluster.running(*parts(cluster, lambda pod: None)):
        policy = {"startupPolicyOrder": "InOrder"}
        await made(cluster, job_set(startupPolicy=policy))
        await eventually(lambda: holds(cluster, StartupPolicyCompleted="True"))
        assert (await cluster.get(JOB, "js-driver-0"))["status"]["ready"] == 1


def claim(name: str, **metadata: Any) -> Obj:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def mounting(name: str, *volumes: str) -> Obj:
    made = replicated(name)
    mounts = [{"name": volume, "mountPath": f"/{volume}"} for volume in volumes]
    made["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts
    return made


async def test_jobs_share_the_claims_of_their_set(cluster: World) -> None:
    policies = [
        {"templates": [claim("model", labels={"a": "b"}), claim("nobodys")]},
        {"templates": [claim("result")], "retentionPolicy": {"whenDeleted": "Retain"}},
    ]
    jobs = [mounting("fetch", "model"), mounting("train", "model", "result")]
    async with cluster.running(*parts(cluster, lambda pod: 0)):
        await made(cluster, job_set(*jobs, volumeClaimPolicies=policies))
        await eventually(lambda: holds(cluster, Completed="True"))
        claims = {meta(one)["name"]: one for one in await cluster.list(PERSISTENT_VOLUME_CLAIM)}
        assert set(claims) == {"model-js", "nobodys-js", "result-js"}
        owned = {name for name, one in claims.items() if meta(one).get("ownerReferences")}
        assert owned == {"model-js", "nobodys-js"}, "what is retained is nobody's"
        assert labels_of(claims["model-js"]) == {"a": "b", KEY + "jobset-name": "js"}
        mounted = {}
        for pod in await cluster.list(POD):
            found = [one.get("persistentVolumeClaim") for one in pod["spec"]["volumes"]]
            names = sorted(one["claimName"] for one in found if one)
            mounted[labels_of(pod)[KEY + "replicatedjob-name"]] = names
        assert mounted == {"fetch": ["model-js"], "train": ["model-js", "result-js"]}
        events = await cluster.list(EVENT)
        (told,) = [one["message"] for one in events if one["reason"] == "VolumeNotMounted"]
        assert "nobodys" in told


async def test_a_claim_on_its_way_out_holds_up_nothing_that_is_there(cluster: World) -> None:
    policies = [{"templates": [claim("model")]}]
    async with cluster.running(*parts(cluster, lambda pod: None)) as informers:
        await made(cluster, job_set(mounting("a", "model"), volumeClaimPolicies=policies))
        await eventually(lambda: cluster.get(JOB, "js-a-0"))
        kept = {"metadata": {"finalizers": ["test.example/kept"]}}
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "model-js", kept)
        going = await cluster.get(PERSISTENT_VOLUME_CLAIM, "model-js")
        await cluster.api.delete(PERSISTENT_VOLUME_CLAIM, key_of(going))
        await cluster.patch(JOB_SET, "js", {"spec": {"suspend": True}})
        await eventually(lambda: holds(cluster, Suspended="True"))
        assert (await cluster.get(JOB, "js-a-0"))["spec"]["suspend"] is True
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "model-js", {"metadata": {"finalizers": None}})

        async def is_gone() -> bool:
            found = informers.informer(PERSISTENT_VOLUME_CLAIM).get(key_of(going))
            return found is None or meta(found)["uid"] != meta(going)["uid"]

        await eventually(is_gone)
        await cluster.patch(JOB_SET, "js", {"spec": {"suspend": False}})

        async def is_new() -> None:
            found = await cluster.get(PERSISTENT_VOLUME_CLAIM, "model-js")
            assert meta(found)["uid"] != meta(going)["uid"]

        await eventually(is_new)


async def test_a_claim_has_the_namespace_of_its_set(cluster: World) -> None:
    policies = [{"templates": [claim("model", namespace="other")]}]
    async with cluster.running(*parts(cluster, lambda pod: 0)):
        with pytest.raises(errors.Invalid, match="namespace"):
            await made(cluster, job_set(mounting("a", "model"), volumeClaimPolicies=policies))


IN_PLACE = [
    # attempts and restarts of two pods, the status before, what is new
    ([None, None], [0, 0], {}, {}),
    (["0", None], [0, 0], {}, {}),
    (["0", "0"], [0, 0], {}, {CURRENT: 0}),
    (["1", "0"], [1, 0], {CURRENT: 0}, {PREVIOUS: 0}),
    (["1", None], [1, 0], {CURRENT: 0, PREVIOUS: 0}, {}),
    (["1", "1"], [1, 1], {CURRENT: 0, PREVIOUS: 0}, {CURRENT: 1}),
    (["3", "2"], [0, 0], {}, "ReachedMaxRestarts"),
    (["0", "0"], [3, 0], {}, "ReachedMaxRestarts"),
    # A restart of the whole set that did not count is no attempt that does.
    (["3", "3"], [0, 0], {"restarts": 1}, {CURRENT: 3}),
]


@pytest.mark.parametrize(("attempts", "counts", "status", "wanted"), IN_PLACE)
def test_restarts_in_place(
    attempts: list[str | None], counts: list[int], status: Obj, wanted: Any
) -> None:
    policy = {"maxRestarts": 2, "restartStrategy": "InPlaceRestart"}
    jobset = {**job_set(replicated("w", 1, 2), failurePolicy=policy), "status": status}
    pods = [
        {
            "metadata": {"annotations": {ATTEMPT: attempt} if attempt is not None else {}},
            "status": {"phase": "Running", "containerStatuses": [{"restartCount": count}]},
        }
        for attempt, count in zip(attempts, counts, strict=True)
    ]
    gone = {"metadata": {"annotations": {ATTEMPT: "9"}}, "status": {"phase": "Failed"}}
    found = judge_in_place(jobset, [*pods, gone])
    assert (found.reason if isinstance(found, End) else found) == wanted


async def test_pods_that_restart_in_place_wait_for_each_other(cluster: World) -> None:
    """By what agents in the pods write; nothing is made again."""
    policy = {"maxRestarts": 1, "restartStrategy": "InPlaceRestart"}
    workers = replicated("w", 1, 2)
    del workers["template"]["spec"]["backoffLimit"]

    async def status() -> Obj:
        found: Obj = (await cluster.get(JOB_SET, "js")).get("status") or {}
        return found

    async def reach(attempts: dict[str, str], **wanted: int) -> None:
        for name, attempt in attempts.items():
            await cluster.patch(POD, name, {"metadata": {"annotations": {ATTEMPT: attempt}}})

        async def is_reached() -> None:
            assert wanted.items() <= (await status()).items()

        await eventually(is_reached)

    async with cluster.running(*parts(cluster, lambda pod: None)):
        await made(cluster, job_set(workers, failurePolicy=policy))

        async def pods() -> list[str]:
            found = sorted(meta(pod)["name"] for pod in await cluster.list(POD))
            assert len(found) == 2
            return found

        first, second = await eventually(pods)
        assert (await cluster.get(JOB, "js-w-0"))["spec"]["backoffLimit"] == 2**31 - 1
        await reach({first: "0", second: "0"}, currentInPlaceRestartAttempt=0)
        await reach({first: "1"}, previousInPlaceRestartAttempt=0)
        await reach({second: "1"}, currentInPlaceRestartAttempt=1)
        assert sorted([first, second]) == await pods()
        await reach({first: "2"})
        await eventually(lambda: holds(cluster, Failed="True"))


async def test_what_is_not_honoured_is_told(cluster: World) -> None:
    asked = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    wanted = job_set(replicated("w"))
    async with cluster.running(*parts(cluster, lambda pod: None)):
        wanted["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"annotations": asked}
        await made(cluster, wanted)

        async def is_told() -> None:
            (told,) = [e for e in await cluster.list(EVENT) if e["reason"] == "NotSupported"]
            assert "slurm.orlop.dev/exclusive" in told["message"]

        await eventually(is_told)
