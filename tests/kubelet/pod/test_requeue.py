"""Pods at their time limit: requeued where they ask for it."""

from __future__ import annotations

import pytest

from orlop.engine import JobState
from orlop.errors import WaitingForGang
from orlop.kubelet.pod import requeue

from ..conftest import condition, eventually
from ..objects import exited, finished, running, started, terminating


async def with_timeout(site, word):
    await site.create(metadata={"annotations": {"slurm.orlop.dev/on-timeout": word}})
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    await agent.say(terminating("signal"), exited(143), finished("Failed", "Terminated"))
    await agent.hang_up()
    site.engine.set("17", JobState.TIMEOUT, message="job 17 reached its time limit")


async def test_a_pod_that_asks_for_it_is_requeued_at_its_time_limit(site):
    await with_timeout(site, "requeue")
    pod = await site.until(
        lambda pod: condition(pod, "orlop.dev/Allocated").get("reason") == "Requeued"
    )
    assert pod["status"]["phase"] == "Pending"
    assert site.engine.requeued == ["17"]
    assert await eventually(lambda: site.told("Requeued"), "it is told")
    assert condition(pod, "orlop.dev/TimeLimit") == {}


async def test_a_pod_that_cannot_be_requeued_ends_and_says_why(site):
    site.engine.refuses_requeue = "Requested operation is presently disabled"
    await with_timeout(site, "requeue")
    pod = await site.until_phase("Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"
    [event] = await eventually(lambda: site.told("RequeueFailed"), "it is told")
    assert "presently disabled" in event[2]


async def test_a_member_whose_gang_still_runs_asks_again(site, monkeypatch):
    monkeypatch.setattr(requeue, "RETRY", 0.05)
    asked = []
    really = site.engine.requeue

    async def once_later(job):
        asked.append(job)
        if len(asked) == 1:
            raise WaitingForGang("job 17 still runs with others of its gang")
        await really(job)

    monkeypatch.setattr(site.engine, "requeue", once_later)
    await with_timeout(site, "requeue")
    await site.until(lambda pod: condition(pod, "orlop.dev/Allocated").get("reason") == "Requeued")
    assert asked == ["17", "17"]


WARNED = {"type": "condition", "condition": "orlop.dev/TimeLimit", "status": "True"}


async def with_records(site, *records):
    """A pod that wants to be requeued, up to its agent's last word."""
    await site.create(metadata={"annotations": {"slurm.orlop.dev/on-timeout": "requeue"}})
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    await agent.say(*records)
    await agent.hang_up()


async def test_a_pod_that_saves_and_fails_when_it_is_warned_is_requeued(site):
    await with_records(site, WARNED, exited(9), finished("Failed"))
    before = site.engine.calls
    await eventually(lambda: site.engine.calls > before + 1, "the engine is asked how it ended")
    assert (await site.pod())["status"]["phase"] == "Running"
    site.engine.set("17", JobState.TIMEOUT, message="job 17 reached its time limit")
    await site.until(lambda pod: condition(pod, "orlop.dev/Allocated").get("reason") == "Requeued")
    assert site.engine.requeued == ["17"]


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([WARNED, exited(9), finished("Failed")], JobState.FAILED),
        ([exited(9), finished("Failed")], JobState.TIMEOUT),
        ([WARNED, terminating("deadline"), exited(143), finished("Failed")], JobState.TIMEOUT),
    ],
    ids=["long before its limit", "unwarned", "past its own deadline"],
)
async def test_a_pod_that_ended_for_another_reason_is_not_requeued(site, records, state):
    await with_records(site, *records)
    site.engine.set("17", state)
    await site.until_phase("Failed")
    assert site.engine.requeued == []


async def test_others_end_at_their_time_limit_and_say_that_it_was_that(site):
    await with_timeout(site, "successor")
    pod = await site.until_phase("Failed")
    assert condition(pod, "orlop.dev/TimeLimit")["status"] == "True"
    assert site.engine.requeued == []
