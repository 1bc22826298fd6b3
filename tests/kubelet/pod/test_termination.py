"""Deleting a pod, at whatever moment of its life."""

from __future__ import annotations

import asyncio

import pytest

from orlop.api.kinds import POD
from orlop.api.objects import Key
from orlop.engine import JobState
from orlop.errors import Conflict

from ..conftest import condition, eventually
from ..objects import exited, finished, running, started, terminating

JOB, NODES = "slurm.orlop.dev/job-id", "slurm.orlop.dev/node-list"
REACHABLE = "orlop.dev/EngineReachable"


async def test_deleting_a_queued_pod_cancels_its_job_and_removes_all_of_it(site):
    await site.create()
    await site.submitted()
    folder = site.folder()
    await site.api.delete(POD, Key("default", "web"))
    await eventually(site.is_gone)
    assert site.engine.cancelled == ["17"]
    await eventually(lambda: not folder.exists(), "the folder is gone")


@pytest.mark.parametrize("is_over", [False, True], ids=["running", "over"])
async def test_a_deleted_pod_says_that_it_waits_for_a_silent_engine(site, is_over):
    await site.create(terminationGracePeriodSeconds=60)
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    site.engine.is_silent = True
    await site.api.delete(POD, Key("default", "web"))
    if is_over:
        await agent.hear("terminate")
        await agent.say(terminating("deleted"), exited(0), finished("Succeeded"))
        await site.until_phase("Succeeded")
    found = await site.until(
        lambda pod: "engine answers again" in condition(pod, REACHABLE).get("message", "")
    )
    assert condition(found, REACHABLE)["status"] == "False"
    [event] = await eventually(lambda: site.told("FailedKillPod", "web"))
    assert event[2].startswith("error killing pod: the pod goes when the engine answers again")
    site.engine.is_silent = False
    site.engine.set(agent.job, JobState.COMPLETED)
    await eventually(site.is_gone)
    await agent.hang_up()


async def test_deleting_a_running_pod_asks_its_agent_with_the_grace(site):
    await site.create(terminationGracePeriodSeconds=7)
    agent = await site.agent()
    await agent.say(started(), running())
    site.engine.set("17", JobState.RUNNING)
    await site.until_phase("Running")
    await site.api.delete(POD, Key("default", "web"))
    assert (await agent.hear("terminate"))["grace"] == 7
    ending = {"type": "terminating", "why": "deleted", "grace": 7}
    await agent.say(ending, exited(143), finished("Failed"))
    await agent.hang_up()
    assert not await site.is_gone()
    site.engine.set("17", JobState.FAILED)
    await eventually(site.is_gone, "the object goes with the job")
    assert (site.engine.cancelled, site.engine.terminated) == ([], [])


async def test_an_agent_that_comes_back_is_asked_again(site):
    """What it was told may have gone down with its connection, and its grace with that."""
    await site.create(terminationGracePeriodSeconds=60)
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    await site.api.delete(POD, Key("default", "web"))
    await agent.hear("terminate")
    await agent.hang_up()
    agent = await site.agent()
    assert (await agent.hear("terminate"))["grace"] == 60
    assert (site.engine.cancelled, site.engine.terminated) == ([], [])


async def test_an_agent_that_is_not_connected_is_asked_through_the_engine(site):
    await site.create()
    await site.submitted()
    site.engine.set("17", JobState.RUNNING)
    site.silent_agent().write(started(), running())
    await site.until_phase("Running")
    await site.api.delete(POD, Key("default", "web"))
    await eventually(lambda: site.engine.terminated == ["17"])
    assert site.engine.cancelled == []


async def test_an_agent_that_does_not_end_in_time_is_cancelled(site, monkeypatch):
    from orlop.kubelet.pod import job_ending

    monkeypatch.setattr(job_ending, "KILL_MARGIN", 0.2)
    await site.create()
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    await site.api.delete(POD, Key("default", "web"), grace=1)
    await agent.hear("terminate")
    await eventually(lambda: site.engine.cancelled == ["17"])
    await eventually(site.is_gone)


async def test_a_shorter_grace_is_passed_on(site):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    await site.api.delete(POD, Key("default", "web"), grace=30)
    assert (await agent.hear("terminate"))["grace"] == 30
    await site.api.delete(POD, Key("default", "web"), grace=5)
    assert (await agent.hear("terminate"))["grace"] == 5


async def test_a_pod_deleted_by_force_loses_its_job_and_then_its_folder(site):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), running())
    site.engine.set("17", JobState.RUNNING)
    await site.until_phase("Running")
    folder = site.folder()
    await site.api.delete(POD, Key("default", "web"), grace=0)
    await eventually(lambda: site.engine.cancelled == ["17"])
    await eventually(lambda: not folder.exists())


async def test_the_folder_of_a_pod_that_is_over_goes_with_its_object(site):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded")
    site.engine.set("17", JobState.COMPLETED)
    await agent.hang_up()
    folder = site.folder()
    await eventually(lambda: site.parts.shared.cache.pods.get(agent.plan["pod"]["uid"]) is None)
    await site.api.delete(POD, Key("default", "web"))
    await eventually(lambda: not folder.exists())
    assert site.engine.cancelled == []


async def test_a_job_that_outlives_its_pod_is_cancelled(site, monkeypatch):
    from orlop.kubelet.pod import job_ending

    monkeypatch.setattr(job_ending, "AFTERLIFE", 0.2)
    await site.create()
    agent = await site.agent()
    site.engine.set("17", JobState.RUNNING)
    await agent.say(started(), exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded")
    await agent.hang_up()
    await eventually(lambda: site.engine.cancelled == ["17"])


async def test_an_agent_that_hangs_after_its_last_word_holds_up_no_deletion(site, monkeypatch):
    from orlop.kubelet.pod import job_ending

    monkeypatch.setattr(job_ending, "PATIENCE", 0.3)
    await site.create()
    agent = await site.agent()
    site.engine.set("17", JobState.RUNNING)
    await agent.say(started(), running())
    await site.until_phase("Running")
    await site.api.delete(POD, Key("default", "web"))
    await agent.hear("terminate")
    await agent.say(terminating("deleted"), exited(0), finished("Succeeded"))
    await eventually(lambda: site.engine.cancelled == ["17"])
    await eventually(site.is_gone)
    await agent.hang_up()


async def test_a_removal_that_meets_other_writes_is_tried_again(site, monkeypatch):
    from orlop.kubelet.pod import job_ending

    monkeypatch.setattr(job_ending, "RETRY", 0.1)
    await site.create()
    await site.submitted()
    remove, conflicts = site.api.delete, [Conflict("written meanwhile") for _ in range(6)]

    async def delete(*words, **options):
        if options.get("uid") and conflicts:  # the kubelet's
            raise conflicts.pop()
        return await remove(*words, **options)

    monkeypatch.setattr(site.api, "delete", delete)
    await site.api.delete(POD, Key("default", "web"), grace=30)
    await eventually(site.is_gone)
    assert conflicts == []


async def test_a_job_that_ended_while_the_engine_was_silent_is_not_cancelled(site, monkeypatch):
    """slurmctld hears of the end some time after it is back; till then it lists the job."""
    from orlop.kubelet.pod import job_ending

    monkeypatch.setattr(job_ending, "AFTERLIFE", 0.5)
    await site.create()
    agent = await site.agent()
    site.engine.set("17", JobState.RUNNING)
    await agent.say(started(), running())
    await site.until_phase("Running")
    site.engine.is_silent = True
    await eventually(lambda: site.parts.shared.health.is_down)
    await agent.say(exited(3), finished("Failed"))
    await site.until_phase("Failed")
    await agent.hang_up()
    await asyncio.sleep(0.6)
    site.engine.is_silent = False
    await eventually(lambda: not site.parts.shared.health.is_down)
    await asyncio.sleep(0.2)
    site.engine.set("17", JobState.FAILED)
    await eventually(lambda: site.parts.shared.cache.pods.get(agent.plan["pod"]["uid"]) is None)
    assert site.engine.cancelled == []


async def test_a_name_may_come_again_while_the_last_of_its_name_is_ending(site):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    site.engine.set("17", JobState.RUNNING)
    await site.api.delete(POD, Key("default", "web"), grace=0)
    await site.create()
    pod = await site.submitted()
    assert pod["metadata"]["annotations"][JOB] == "18"
    await eventually(lambda: site.engine.cancelled == ["17"])


async def test_a_job_that_is_requeued_after_its_pod_is_over_is_cancelled(site):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded")
    site.engine.set("17", JobState.PENDING, restarts=1)
    await eventually(lambda: site.engine.cancelled == ["17"])
    assert (await site.pod())["status"]["phase"] == "Succeeded"
