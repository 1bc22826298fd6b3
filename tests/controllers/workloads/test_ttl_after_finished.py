"""When a finished Job may go."""

from __future__ import annotations

import pytest

from orlop.api.kinds import JOB
from orlop.api.objects import Key, meta
from orlop.api.times import rfc3339
from orlop.client.clock import ManualClock
from orlop.controllers.workloads.ttl_after_finished import TtlAfterFinished, seconds_left
from tests.controllers.jobs import NOW, a_job
from tests.controllers.world import eventually, job, stays


def finished(kind: str = "Complete", *, ago: float = 10.0, status: str = "True", **spec) -> dict:
    when = rfc3339(NOW - ago)
    condition = {"type": kind, "status": status, "lastTransitionTime": when}
    return a_job(status={"conditions": [condition]}, **spec)


@pytest.mark.parametrize(
    ("made", "left"),
    [
        (finished(ttlSecondsAfterFinished=30), 20),
        (finished("Failed", ttlSecondsAfterFinished=30), 20),
        (finished(ttlSecondsAfterFinished=0), -10),
        (finished(), None),
        (finished("Failed", status="False", ttlSecondsAfterFinished=30), None),
        (finished("FailureTarget", ttlSecondsAfterFinished=30), None),
        (a_job(ttlSecondsAfterFinished=30), None),
    ],
    ids=["complete", "failed", "at once", "no limit", "not failed", "not yet", "runs"],
)
def test_the_time_left(made, left):
    assert seconds_left(made, NOW) == left


def test_one_that_is_on_its_way_is_not_deleted_again():
    made = finished(ttlSecondsAfterFinished=0)
    made["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    assert seconds_left(made, NOW) is None


async def test_a_job_that_was_given_more_time_keeps_it(cluster):
    clock = ManualClock()
    await cluster.create(JOB, job("work", ttlSecondsAfterFinished=60))
    condition = {
        "type": "Failed",
        "status": "True",
        "lastTransitionTime": rfc3339(clock.now()),
        "lastProbeTime": rfc3339(clock.now()),
    }
    target = {**condition, "type": "FailureTarget"}
    status = {"startTime": rfc3339(clock.now()), "conditions": [target, condition]}
    key = Key("default", "work")
    await cluster.api.patch(JOB, key, {"status": status}, subresource="status")
    async with cluster.running(
        lambda informers: TtlAfterFinished(cluster.api, informers, clock=clock)
    ) as informers:
        await informers.synced()
        longer = {"spec": {"ttlSecondsAfterFinished": 600}}
        await informers.informer(JOB).seen(await cluster.patch(JOB, "work", longer))
        clock.advance(100)

        async def is_kept():
            return "deletionTimestamp" not in meta(await cluster.get(JOB, "work"))

        await stays(is_kept, 0.15)
        clock.advance(501)

        async def is_deleted():
            found = await cluster.find(JOB, "work")
            return found is None or "deletionTimestamp" in meta(found)

        await eventually(is_deleted)
