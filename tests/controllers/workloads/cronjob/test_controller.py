"""CronJobs fire on time, once, and keep their histories short."""

from __future__ import annotations

import pytest

from orlop.api.kinds import CRON_JOB, EVENT, JOB, POD
from orlop.api.objects import Key, annotations_of, meta, uid_of
from orlop.api.times import parse, rfc3339
from orlop.client.clock import ManualClock
from orlop.controllers.workloads.cronjob.controller import SCHEDULED_AT, CronJobs
from orlop.controllers.workloads.job.controller import Jobs
from tests.controllers.world import Kubelet, World, eventually, stays, template

START = parse("2026-03-01T12:00:30Z")


@pytest.fixture
def clock(cluster: World) -> ManualClock:
    clock = ManualClock(START)
    cluster.server.registry.now = clock.now
    return clock


def cron_job(**spec) -> dict:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {
            "schedule": "* * * * *",
            "timeZone": "Etc/UTC",
            "jobTemplate": {
                "metadata": {"labels": {"of": "tick"}},
                "spec": {"template": template(restartPolicy="Never")},
            },
            **spec,
        },
    }


def parts(cluster: World, clock: ManualClock, **kubelet):
    return (
        lambda informers: CronJobs(cluster.api, informers, clock=clock),
        lambda informers: Jobs(cluster.api, informers, clock=clock),
        lambda informers: Kubelet(cluster.api, informers, clock=clock, **kubelet),
    )


async def names(cluster: World) -> list[str]:
    return sorted(meta(one)["name"] for one in await cluster.list(JOB))


async def number(cluster: World, expected: int) -> bool:
    return len(await names(cluster)) == expected


async def status(cluster: World) -> dict:
    return (await cluster.get(CRON_JOB, "tick")).get("status") or {}


async def reasons(cluster: World) -> list[str]:
    return [one["reason"] for one in await cluster.list(EVENT)]


async def settled(cluster: World) -> bool:
    """Nothing runs any more, and the CronJob knows."""
    return "active" not in await status(cluster)


async def test_it_fires_each_minute_and_says_when(cluster, clock):
    made = await cluster.create(CRON_JOB, cron_job())
    async with cluster.running(*parts(cluster, clock)):
        await stays(lambda: number(cluster, 0), 0.1)
        clock.advance(31)
        await eventually(lambda: number(cluster, 1))
        (job,) = await cluster.list(JOB)
        due = parse("2026-03-01T12:01:00Z")
        assert meta(job)["name"] == f"tick-{int(due // 60)}"
        assert annotations_of(job)[SCHEDULED_AT] == "2026-03-01T12:01:00Z"
        assert meta(job)["labels"]["of"] == "tick"
        assert meta(job)["ownerReferences"][0]["uid"] == uid_of(made)

        async def told():
            found = await status(cluster)
            assert found["lastScheduleTime"] == rfc3339(due)
            assert "lastSuccessfulTime" in found
            return "active" not in found

        await eventually(told)
        clock.advance(60)
        await eventually(lambda: number(cluster, 2))


async def test_a_running_job_is_listed_as_active(cluster, clock):
    await cluster.create(CRON_JOB, cron_job())
    async with cluster.running(*parts(cluster, clock, fate=lambda _: None)):
        clock.advance(31)

        async def is_active():
            (reference,) = (await status(cluster))["active"]
            return reference["name"] == (await names(cluster))[0]

        await eventually(is_active)


@pytest.mark.parametrize(
    ("policy", "jobs", "reason"),
    [("Allow", 2, "SuccessfulCreate"), ("Forbid", 1, "JobAlreadyActive"),
     ("Replace", 1, "SuccessfulDelete")],
)  # fmt: skip
async def test_a_job_that_still_runs_at_the_next_time(cluster, clock, policy, jobs, reason):
    await cluster.create(CRON_JOB, cron_job(concurrencyPolicy=policy))
    async with cluster.running(*parts(cluster, clock, fate=lambda _: None)):
        clock.advance(31)
        await eventually(lambda: number(cluster, 1))
        first = await names(cluster)

        async def is_noted():
            return len((await status(cluster)).get("active", [])) == 1

        await eventually(is_noted)
        clock.advance(60)

        async def handled():
            assert reason in await reasons(cluster)
            found = await cluster.list(JOB)
            alive = [one for one in found if "deletionTimestamp" not in meta(one)]
            assert len(alive) == jobs
            return (meta(alive[-1])["name"] in first) == (policy == "Forbid")

        await eventually(handled)


async def test_suspended_it_does_not_fire(cluster, clock):
    await cluster.create(CRON_JOB, cron_job(suspend=True))
    async with cluster.running(*parts(cluster, clock)):
        clock.advance(300)
        await stays(lambda: number(cluster, 0), 0.2)


async def test_after_a_long_sleep_only_the_last_missed_time_fires(cluster, clock):
    await cluster.create(CRON_JOB, cron_job(schedule="*/5 * * * *"))
    clock.advance(3600)
    async with cluster.running(*parts(cluster, clock)):
        await eventually(lambda: number(cluster, 1))
        await stays(lambda: number(cluster, 1), 0.2)
        assert await names(cluster) == [f"tick-{int(parse('2026-03-01T13:00:00Z') // 60)}"]


async def test_what_is_later_than_its_deadline_is_not_started(cluster, clock):
    spec = {"schedule": "0 * * * *", "startingDeadlineSeconds": 120}
    await cluster.create(CRON_JOB, cron_job(**spec))
    clock.advance(3600 + 300)
    async with cluster.running(*parts(cluster, clock)):
        await stays(lambda: number(cluster, 0), 0.2)
    clock.advance(3600 - 240)
    async with cluster.running(*parts(cluster, clock)):
        await eventually(lambda: number(cluster, 1))


async def test_histories_are_kept_to_their_limits(cluster, clock):
    spec = {"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1}
    await cluster.create(CRON_JOB, cron_job(**spec))
    async with cluster.running(*parts(cluster, clock)):
        clock.advance(31)
        for _ in range(5):
            before = (await status(cluster)).get("lastScheduleTime")
            clock.advance(60)

            async def ran(before=before):
                fired = (await status(cluster)).get("lastScheduleTime")
                return fired != before and await settled(cluster)

            await eventually(ran)

        async def trimmed():
            alive = [one for one in await cluster.list(JOB) if "deletionTimestamp" not in meta(one)]
            return len(alive) == 2

        await eventually(trimmed)


async def test_a_crash_between_the_job_and_the_status_starts_it_once(cluster, clock):
    made = await cluster.create(CRON_JOB, cron_job())
    async with cluster.running(*parts(cluster, clock, fate=lambda _: None)):
        clock.advance(31)
        await eventually(lambda: number(cluster, 1))
    lost = {"status": {"active": None, "lastScheduleTime": None}}
    await cluster.api.patch(CRON_JOB, Key("default", "tick"), lost, subresource="status")
    async with cluster.running(*parts(cluster, clock, fate=lambda _: None)):

        async def remembered():
            found = await status(cluster)
            assert len(found["active"]) == 1
            return "lastScheduleTime" in found

        await eventually(remembered)
        await stays(lambda: number(cluster, 1), 0.2)
        assert len(await cluster.list(POD)) == 1
        assert uid_of(await cluster.get(CRON_JOB, "tick")) == uid_of(made)


async def test_a_zone_is_honoured(cluster, clock):
    spec = {"schedule": "31 17 * * *", "timeZone": "Asia/Kolkata"}  # 12:01 UTC
    await cluster.create(CRON_JOB, cron_job(**spec))
    async with cluster.running(*parts(cluster, clock)):
        clock.advance(31)
        await eventually(lambda: number(cluster, 1))
        (job,) = await cluster.list(JOB)
        assert annotations_of(job)[SCHEDULED_AT] == "2026-03-01T17:31:00+05:30"
