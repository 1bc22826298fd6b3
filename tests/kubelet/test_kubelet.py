"""A pod's life as its kubelet leads it, from bound to gone."""

from __future__ import annotations

import asyncio
import json

import pytest

from orlop.engine import JobState
from orlop.wellknown import AGENT_LAUNCH

from .conftest import condition, eventually, waiting
from .fakes import FakeAgent
from .objects import exited, finished, running, started

JOB, NODES = "slurm.orlop.dev/job-id", "slurm.orlop.dev/node-list"


def main_state(pod):
    return pod["status"]["containerStatuses"][0]["state"]


async def test_a_bound_pod_becomes_a_plan_and_a_job(site):
    uid = await site.create()
    pod = await site.submitted()
    assert pod["metadata"]["annotations"][JOB] == "17"
    [submission] = site.engine.submissions
    folder = site.folder()
    assert submission.folder == folder
    assert submission.machine == "main"
    launch = ("-I", "-S", "-c", AGENT_LAUNCH, str(site.paths.run / "agent.pyz"))
    assert submission.command[1:] == (*launch, str(folder))
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["pod"]["uid"] == uid
    assert plan["cluster"] == "cluster-1"
    for name in ("plan.json", "token"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_a_queued_pod_shows_the_engines_words(site):
    await site.create()
    pod = await site.until(
        lambda pod: condition(pod, "orlop.dev/Allocated").get("reason") == "Priority"
    )
    assert condition(pod, "orlop.dev/Allocated")["message"] == "job waits in partition main"
    assert pod["status"]["phase"] == "Pending"
    events = await eventually(lambda: site.told("Queued"), "an event with the engine's words")
    assert events == [("Normal", "Queued", "job waits in partition main")]


async def test_what_the_agent_says_is_on_the_pod_at_once(site):
    await site.create()
    agent = await site.agent()
    calls = site.engine.calls
    await agent.say(started(), running())
    pod = await site.until_phase("Running")
    assert pod["status"]["hostIP"] == "10.77.0.1"
    assert pod["status"]["podIP"].startswith("10.244.")
    assert pod["metadata"]["annotations"][NODES] == "n1"
    assert pod["status"]["containerStatuses"][0]["imageID"].startswith("busybox@sha256:")
    await agent.say(exited(0), finished("Succeeded"))
    pod = await site.until_phase("Succeeded")
    assert main_state(pod)["terminated"]["exitCode"] == 0
    assert site.engine.calls - calls < 20
    await agent.hang_up()


async def test_events_of_the_agent_are_told_once_even_by_the_next_kubelet(site):
    await site.create()
    agent = await site.agent()
    told = {"type": "event", "kind": "Normal", "reason": "Started", "message": "Started container"}
    await agent.say(started(), told)
    await eventually(lambda: site.told("Started"))
    await agent.hang_up()
    await site.stop()
    agent.write({**told, "message": "Started another"})
    await site.start()
    events = await eventually(
        lambda: _longer(site.told("Started"), 1), "what was written meanwhile is told"
    )
    assert [message for _, _, message in events] == ["Started container", "Started another"]


async def test_what_the_engine_cannot_do_as_asked_is_an_event_of_the_pod(site):
    site.engine.warnings = ["--verbose changes nothing"]
    await site.create()
    [event] = await eventually(lambda: site.told("SubmitWarning"))
    assert event == ("Warning", "SubmitWarning", "--verbose changes nothing")


async def _longer(events, count):
    found = await events
    return found if len(found) > count else None


async def test_a_pod_that_is_over_before_its_submission_is_known_has_succeeded(site, monkeypatch):
    """As in a burst on a busy host: sbatch has answered, and nobody had time to hear it."""
    submit, is_heard = site.engine.submit, asyncio.Event()

    async def slow(submission):
        job = await submit(submission)
        agent = FakeAgent(submission.folder)
        agent.write(started(), running(), exited(0), finished("Succeeded"))
        site.engine.set(job, JobState.COMPLETED)
        await is_heard.wait()
        return job

    monkeypatch.setattr(site.engine, "submit", slow)
    uid = await site.create()
    state = site.parts.shared.cache.pods
    ended = lambda: state.get(uid) is not None and state.get(uid).job is not None  # noqa: E731
    await eventually(lambda: site.engine.submissions, "it is being submitted")
    site.parts.engine.poller.ask()
    await eventually(ended, "the engine has said that it is over")
    is_heard.set()
    pod = await site.until(lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
    assert (pod["status"]["phase"], main_state(pod)["terminated"]["exitCode"]) == ("Succeeded", 0)


async def test_an_agent_that_cannot_dial_home_is_heard_by_its_journal(site):
    await site.create()
    pod = await site.submitted()
    site.engine.set("17", JobState.RUNNING, nodes=("n1",))
    agent = site.silent_agent()
    agent.write(started(), running())
    pod = await site.until_phase("Running")
    assert pod["metadata"]["annotations"][NODES] == "n1"
    agent.write(exited(7), finished("Failed"))
    pod = await site.until_phase("Failed")
    assert main_state(pod)["terminated"]["exitCode"] == 7


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (JobState.TIMEOUT, "DeadlineExceeded"),
        (JobState.NODE_FAIL, "NodeLost"),
        (JobState.OUT_OF_MEMORY, "OOMKilled"),
        (JobState.PREEMPTED, "PreemptionByScheduler"),
        (JobState.CANCELLED, "Cancelled"),
        (JobState.FAILED, "JobFailed"),
    ],
)
@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "looked up"])
async def test_a_job_that_ends_under_its_agent_ends_the_pod(site, state, reason, is_listed):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    await agent.hang_up()
    site.engine.set("17", state)
    if not is_listed:
        site.engine.forgotten["17"] = site.engine.table.pop("17")
    pod = await site.until_phase("Failed")
    assert pod["status"]["reason"] == reason


async def test_a_job_that_nobody_knows_any_more_has_vanished_with_its_last_output(site):
    await site.create()
    await site.submitted()
    (site.folder() / "slurm.out").write_text("slurmstepd: error: no python\n")
    site.engine.table.clear()
    pod = await site.until_phase("Failed")
    assert pod["status"]["reason"] == "JobVanished"
    assert pod["status"]["message"].endswith("the job printed: slurmstepd: error: no python")


async def test_a_requeued_pod_is_pending_again(site):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    await agent.hang_up()
    site.engine.set("17", JobState.PENDING, restarts=1, reason="BeginTime")
    pod = await site.until_phase("Pending")
    assert waiting(pod)["reason"] == "Requeued"
    agent = await site.agent()
    agent.seq = 2
    await agent.say(started(restart=1), running(restart=1))
    pod = await site.until_phase("Running")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


# The engine is away


async def test_a_silent_engine_changes_nothing_but_conditions(site):
    await site.create("runs")
    agent = await site.agent("runs")
    await agent.say(started(), running())
    before = await site.until_phase("Running", "runs")
    site.engine.is_silent = True
    site.parts.engine.poller.ask()
    silent = await site.until(
        lambda pod: condition(pod, "orlop.dev/EngineReachable").get("status") == "False", "runs"
    )
    assert silent["status"]["phase"] == "Running"
    assert main_state(silent) == main_state(before)
    await eventually(lambda: _node_says(site, "orlop.dev/EngineReachable", "False"))
    assert condition(await site.node(), "Ready")["status"] == "True"
    await site.create("later")
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "EngineUnavailable", "later")
    assert waiting(pod)["message"] == "slurmctld does not answer"
    await agent.say(exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded", "runs")
    site.engine.is_silent = False
    await site.submitted("later")
    await eventually(lambda: _node_says(site, "orlop.dev/EngineReachable", None))
    assert condition(await site.pod("later"), "orlop.dev/EngineReachable") == {}


async def _node_says(site, kind, status):
    return condition(await site.node(), kind).get("status") == status
