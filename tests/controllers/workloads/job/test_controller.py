"""Lives of Jobs at the real API server, with pods that run and end."""

from __future__ import annotations

import collections

import pytest

from orlop.api.kinds import EVENT, JOB, POD
from orlop.api.objects import Key, condition_of, is_active, key_of, meta, phase_of, uid_of
from orlop.client.clock import ManualClock
from orlop.controllers.workloads.job.controller import Jobs
from orlop.controllers.workloads.job.indexes import INDEX, index_of
from orlop.controllers.workloads.job.view import FINALIZER, is_tracked
from orlop.controllers.workloads.ttl_after_finished import TtlAfterFinished
from tests.controllers.world import Kubelet, World, eventually, job, pod, stays


def jobs(cluster: World, **options):
    return lambda informers: Jobs(cluster.api, informers, **options)


def kubelet(cluster: World, **options):
    return lambda informers: Kubelet(cluster.api, informers, **options)


async def status(cluster: World, name: str = "work") -> dict:
    return (await cluster.get(JOB, name)).get("status") or {}


async def has_condition(cluster: World, kind: str, name: str = "work") -> dict:
    condition = condition_of(await cluster.get(JOB, name), kind)
    assert condition is not None
    assert condition["status"] == "True"
    return condition


async def active(cluster: World) -> list[dict]:
    return [one for one in await cluster.list(POD) if is_active(one)]


async def test_a_job_of_twenty_with_eight_at_a_time_counts_exactly(cluster):
    await cluster.create(JOB, job("work", completions=20, parallelism=8))
    most = 0
    async with cluster.running(jobs(cluster), kubelet(cluster)) as informers:

        def watch(event, previous):
            nonlocal most
            alive = [one for one in informers.informer(POD).list() if is_active(one)]
            most = max(most, len(alive))

        informers.informer(POD).subscribe(watch)
        await eventually(lambda: has_condition(cluster, "Complete"))
    found = await status(cluster)
    assert found["succeeded"] == 20
    assert (found["ready"], found["terminating"]) == (0, 0)
    assert found["uncountedTerminatedPods"] == {}
    assert {"startTime", "completionTime"} <= set(found)
    assert not {"active", "failed"} & set(found)
    assert [one["type"] for one in found["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    pods = await cluster.list(POD)
    assert len(pods) == 20
    assert not any(is_tracked(one) for one in pods)
    assert most <= 8
    assert "Completed" in {one["reason"] for one in await cluster.list(EVENT)}


async def test_an_indexed_job_runs_each_index_once(cluster):
    spec = {"completions": 12, "parallelism": 5, "completionMode": "Indexed"}
    await cluster.create(JOB, job("work", **spec))
    async with cluster.running(jobs(cluster), kubelet(cluster)):
        await eventually(lambda: has_condition(cluster, "Complete"))
    found = await status(cluster)
    assert (found["succeeded"], found["completedIndexes"]) == (12, "0-11")
    pods = await cluster.list(POD)
    assert sorted(index_of(one) for one in pods) == list(range(12))
    for one in pods:
        index = meta(one)["labels"][INDEX]
        assert one["spec"]["hostname"] == f"work-{index}"
        assert meta(one)["name"].startswith(f"work-{index}-")


async def test_a_work_queue_ends_when_its_pods_have(cluster):
    await cluster.create(JOB, job("work", parallelism=3, completions=None))
    async with cluster.running(jobs(cluster), kubelet(cluster)):
        await eventually(lambda: has_condition(cluster, "Complete"))
    assert 1 <= (await status(cluster))["succeeded"] <= 3


async def test_a_failing_job_ends_at_its_limit_and_waits_longer_each_time(cluster):
    clock = ManualClock()
    cluster.server.registry.now = clock.now
    await cluster.create(JOB, job("work", backoffLimit=2))

    node = kubelet(cluster, fate=lambda _: 1, clock=clock)
    async with cluster.running(jobs(cluster, clock=clock), node):
        for failures, wait in ((1, 10), (2, 20)):

            async def failed(number=failures):
                assert (await status(cluster)).get("failed") == number
                return len(await cluster.list(POD)) == number

            await eventually(failed)
            clock.advance(wait - 2)
            await stays(failed, 0.1)
            clock.advance(3)
        failure = await eventually(lambda: has_condition(cluster, "Failed"))
    assert failure["reason"] == "BackoffLimitExceeded"
    assert (await status(cluster))["failed"] == 3
    assert await has_condition(cluster, "FailureTarget")


async def test_a_deadline_ends_running_pods(cluster):
    clock = ManualClock()
    cluster.server.registry.now = clock.now
    spec = {"activeDeadlineSeconds": 60, "parallelism": 2, "completions": 2}
    await cluster.create(JOB, job("work", **spec))
    async with cluster.running(jobs(cluster, clock=clock), kubelet(cluster, fate=lambda _: None)):

        async def runs():
            return (await status(cluster)).get("ready") == 2

        await eventually(runs)
        clock.advance(61)
        failure = await eventually(lambda: has_condition(cluster, "Failed"))
    assert failure["reason"] == "DeadlineExceeded"
    assert await active(cluster) == []
    found = await status(cluster)
    assert (found["failed"], found["terminating"]) == (2, 0)


async def test_suspending_ends_pods_without_failing_them_and_resuming_starts_anew(cluster):
    await cluster.create(JOB, job("work", completions=3, parallelism=3))
    ends: list[int | None] = [None]
    async with cluster.running(jobs(cluster), kubelet(cluster, fate=lambda _: ends[0])):

        async def runs():
            return (await status(cluster)).get("ready") == 3

        await eventually(runs)
        await cluster.patch(JOB, "work", {"spec": {"suspend": True}})

        async def is_suspended():
            await has_condition(cluster, "Suspended")
            found = await status(cluster)
            assert "failed" not in found
            return "active" not in found and await cluster.list(POD) == []

        await eventually(is_suspended)
        ends[0] = 0
        await cluster.patch(JOB, "work", {"spec": {"suspend": False}})
        await eventually(lambda: has_condition(cluster, "Complete"))
    found = await status(cluster)
    assert (found["succeeded"], found.get("failed")) == (3, None)
    suspended = next(one for one in found["conditions"] if one["type"] == "Suspended")
    assert (suspended["status"], suspended["reason"]) == ("False", "JobResumed")
    reasons = [one["reason"] for one in await cluster.list(EVENT)]
    assert {"Suspended", "Resumed", "Completed"} <= set(reasons)


async def test_a_deleted_pod_counts_as_failed_and_is_replaced(cluster):
    await cluster.create(JOB, job("work"))
    ends: list[int | None] = [None]
    async with cluster.running(jobs(cluster), kubelet(cluster, fate=lambda _: ends[0])):

        async def runs():
            return (await status(cluster)).get("ready") == 1

        await eventually(runs)
        (first,) = await active(cluster)
        await cluster.api.delete(POD, key_of(first))

        async def replaced():
            pods = await active(cluster)
            assert (await status(cluster)).get("failed") == 1
            return len(pods) == 1 and uid_of(pods[0]) != uid_of(first)

        await eventually(replaced)
        ends[0] = 0
        (second,) = await active(cluster)
        await cluster.patch(POD, meta(second)["name"], {"metadata": {"labels": {"go": "on"}}})
        await eventually(lambda: has_condition(cluster, "Complete"))
    assert (await status(cluster))["failed"] == 1


async def test_fewer_at_a_time_ends_the_surplus_without_failing_it(cluster):
    await cluster.create(JOB, job("work", completions=10, parallelism=5))
    async with cluster.running(jobs(cluster), kubelet(cluster, fate=lambda _: None)):

        async def runs(number: int):
            found = await status(cluster)
            assert "failed" not in found
            return found.get("ready") == number and len(await cluster.list(POD)) == number

        await eventually(lambda: runs(5))
        await cluster.patch(JOB, "work", {"spec": {"parallelism": 2}})
        await eventually(lambda: runs(2))
        await stays(lambda: runs(2))


async def test_a_policy_fails_the_job_at_once(cluster):
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    spec = {"completions": 5, "parallelism": 2, "podFailurePolicy": {"rules": [rule]}}
    await cluster.create(JOB, job("work", **spec))
    async with cluster.running(jobs(cluster), kubelet(cluster, fate=lambda _: 42)):
        failure = await eventually(lambda: has_condition(cluster, "Failed"))
    assert failure["reason"] == "PodFailurePolicy"
    assert "exit code 42" in failure["message"]


async def test_an_index_that_fails_for_good_does_not_stop_the_others(cluster):
    spec = {
        "completions": 4,
        "parallelism": 4,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 0,
    }
    await cluster.create(JOB, job("work", **spec))
    async with cluster.running(
        jobs(cluster), kubelet(cluster, fate=lambda one: int(index_of(one) == 2))
    ):
        failure = await eventually(lambda: has_condition(cluster, "Failed"))
    assert failure["reason"] == "FailedIndexes"
    found = await status(cluster)
    assert (found["completedIndexes"], found["failedIndexes"]) == ("0,1,3", "2")
    assert (found["succeeded"], found["failed"]) == (3, 1)


async def test_a_matching_orphan_is_adopted_and_held(cluster):
    made = await cluster.create(JOB, job("work", completions=2, parallelism=2))
    labels = made["spec"]["template"]["metadata"]["labels"]
    await cluster.create(POD, pod("stray", labels=labels, restartPolicy="Never"))
    async with cluster.running(jobs(cluster), kubelet(cluster, fate=lambda _: None)):

        async def adopted():
            stray = await cluster.get(POD, "stray")
            assert is_tracked(stray)
            return len(await active(cluster)) == 2

        await eventually(adopted)


@pytest.mark.parametrize("propagation", ["Background", "Orphan", "Foreground"])
async def test_pods_of_a_deleted_job_do_not_keep_its_finalizer(cluster, propagation):
    await cluster.create(JOB, job("work", completions=3, parallelism=3))
    async with cluster.running(jobs(cluster), kubelet(cluster, fate=lambda _: None)):

        async def runs():
            return (await status(cluster)).get("ready") == 3

        await eventually(runs)
        await cluster.api.delete(JOB, Key("default", "work"), propagation=propagation)

        async def released():
            return not any(is_tracked(one) for one in await cluster.list(POD))

        await eventually(released)


async def test_a_running_pod_that_lost_the_finalizer_gets_it_back(cluster):
    await cluster.create(JOB, job("work"))
    async with cluster.running(jobs(cluster), kubelet(cluster, fate=lambda _: None)):

        async def runs():
            return (await status(cluster)).get("ready") == 1

        await eventually(runs)
        (one,) = await active(cluster)
        await cluster.patch(POD, meta(one)["name"], {"metadata": {"finalizers": None}})

        async def is_held():
            return FINALIZER in (meta((await active(cluster))[0]).get("finalizers") or [])

        await eventually(is_held)


async def test_a_job_managed_by_another_is_left_alone(cluster):
    await cluster.create(JOB, job("work", managedBy="example.com/other"))
    async with cluster.running(jobs(cluster)):

        async def untouched():
            return not await cluster.list(POD) and not await status(cluster)

        await stays(untouched)


async def test_a_finished_job_is_deleted_after_its_time(cluster):
    clock = ManualClock()
    cluster.server.registry.now = clock.now
    await cluster.create(JOB, job("work", ttlSecondsAfterFinished=100))
    await cluster.create(JOB, job("kept"))
    async with cluster.running(
        jobs(cluster, clock=clock),
        kubelet(cluster),
        lambda informers: TtlAfterFinished(cluster.api, informers, clock=clock),
    ):
        for name in ("work", "kept"):
            await eventually(lambda name=name: has_condition(cluster, "Complete", name))
        clock.advance(98)
        await stays(lambda: cluster.get(JOB, "work"), 0.1)
        clock.advance(3)

        async def is_deleted():
            found = await cluster.find(JOB, "work")
            return found is None or "deletionTimestamp" in meta(found)

        await eventually(is_deleted)
    assert "deletionTimestamp" not in meta(await cluster.get(JOB, "kept"))


async def test_many_jobs_side_by_side_each_count_their_own(cluster):
    for number in range(15):
        await cluster.create(JOB, job(f"work{number}", completions=number + 1, parallelism=4))
    async with cluster.running(jobs(cluster), kubelet(cluster)):
        for number in range(15):
            await eventually(lambda n=number: has_condition(cluster, "Complete", f"work{n}"))
    owners = collections.Counter(
        meta(one)["ownerReferences"][0]["name"]
        for one in await cluster.list(POD)
        if phase_of(one) == "Succeeded"
    )
    assert owners == {f"work{number}": number + 1 for number in range(15)}
