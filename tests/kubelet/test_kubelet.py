"""A pod's life as its kubelet leads it, from bound to gone."""

from __future__ import annotations

import asyncio
import json

import pytest

from orlop.api.kinds import CONFIG_MAP, POD
from orlop.api.objects import Key
from orlop.engine import JobState
from orlop.errors import EngineError, SubmitDeferred, SubmitRejected
from orlop.wellknown import AGENT_LAUNCH

from .conftest import condition, eventually, waiting
from .fakes import FakeAgent
from .objects import a_container, exited, finished, running, started, terminating

JOB, NODES = "slurm.orlop.dev/job-id", "slurm.orlop.dev/node-list"
REACHABLE = "orlop.dev/EngineReachable"


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
    events = await eventually(
        lambda: _with_reason(site, "Queued"), "an event with the engine's words"
    )
    assert events == [("Normal", "Queued", "job waits in partition main")]


async def _with_reason(site, reason, name="web"):
    return [event for event in await site.events(name) if event[1] == reason]


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
    await eventually(lambda: _with_reason(site, "Started"))
    await agent.hang_up()
    await site.stop()
    agent.write({**told, "message": "Started another"})
    await site.start()
    events = await eventually(
        lambda: _longer(_with_reason(site, "Started"), 1), "what was written meanwhile is told"
    )
    assert [message for _, _, message in events] == ["Started container", "Started another"]


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
    state = site.kubelet._pods
    ended = lambda: state.get(uid) is not None and state.get(uid).job is not None  # noqa: E731
    await eventually(lambda: site.engine.submissions, "it is being submitted")
    site.kubelet.ask_engine()
    await eventually(ended, "the engine has said that it is over")
    is_heard.set()
    pod = await site.until(lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
    assert (pod["status"]["phase"], main_state(pod)["terminated"]["exitCode"]) == ("Succeeded", 0)


async def test_an_agent_that_cannot_dial_home_is_heard_by_its_journal(site):
    await site.create()
    pod = await site.submitted()
    site.engine.set("17", JobState.RUNNING, nodes=("n1",))
    agent = _silent_agent(site)
    agent.write(started(), running())
    pod = await site.until_phase("Running")
    assert pod["metadata"]["annotations"][NODES] == "n1"
    agent.write(exited(7), finished("Failed"))
    pod = await site.until_phase("Failed")
    assert main_state(pod)["terminated"]["exitCode"] == 7


def _silent_agent(site, name="web"):
    from .fakes import FakeAgent

    return FakeAgent(site.folder(name))


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


# Trouble before the start


async def test_a_manifest_copied_from_another_pod_gets_a_job_of_its_own(site):
    """`kubectl get -o yaml`, another name, `kubectl apply`: the old annotations come along."""
    await site.create("first")
    theirs = (await site.submitted("first"))["metadata"]["annotations"][JOB]
    await site.create("second", metadata={"annotations": {JOB: theirs, NODES: "n9"}})
    pod = await site.until(lambda pod: pod["metadata"]["annotations"].get(JOB) != theirs, "second")
    assert len(site.engine.submissions) == 2
    assert NODES not in pod["metadata"]["annotations"]
    await site.api.delete(POD, Key("default", "second"), grace=0)
    await eventually(lambda: site.engine.cancelled)
    assert theirs not in site.engine.cancelled


async def test_a_copied_manifest_that_is_refused_has_no_job(site):
    site.engine.refusal = SubmitRejected("no")
    await site.create(metadata={"annotations": {JOB: "99"}})
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "SubmitRejected")
    assert JOB not in pod["metadata"].get("annotations", {})


async def test_a_rejected_pod_says_why_and_is_tried_again_when_its_annotations_change(site):
    site.engine.refusal = SubmitRejected("sbatch: error: Invalid account; use one of: a, b")
    await site.create()
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "SubmitRejected")
    assert waiting(pod)["message"] == "sbatch: error: Invalid account; use one of: a, b"
    allocated = condition(pod, "orlop.dev/Allocated")
    assert (allocated["status"], allocated["reason"]) == ("False", "SubmitRejected")
    assert pod["status"]["phase"] == "Pending"
    [event] = await eventually(lambda: _with_reason(site, "SubmitRejected"))
    assert event[0] == "Warning"
    site.engine.refusal = None
    patch = {"metadata": {"annotations": {"slurm.orlop.dev/account": "a"}}}
    await site.api.patch(POD, Key("default", "web"), patch)
    pod = await site.submitted()
    assert (
        site.engine.submissions[0].pod["metadata"]["annotations"]["slurm.orlop.dev/account"] == "a"
    )


@pytest.mark.parametrize(
    "refusal",
    [
        SubmitDeferred("QOSMaxSubmitJobPerUserLimit"),
        EngineError("scontrol ended with 1: Access/permission denied"),
    ],
    ids=["by sbatch", "by another command"],
)
async def test_a_deferred_pod_is_tried_again_by_itself(site, monkeypatch, refusal):
    from orlop.client.workqueue import Backoff
    from orlop.kubelet import worker

    monkeypatch.setattr(worker, "_DEFERRED_RETRY", Backoff(0.2, 0.2))
    site.engine.refusal = refusal
    await site.create()
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "SubmitDeferred")
    assert waiting(pod)["message"] == str(refusal)
    site.engine.refusal = None
    pod = await site.submitted()
    assert "containerStatuses" not in pod["status"]


async def test_an_image_that_cannot_be_had_is_named_and_takes_no_job(site, monkeypatch):
    from orlop.client.workqueue import Backoff
    from orlop.kubelet import worker

    monkeypatch.setattr(worker, "_IMAGE_RETRY", Backoff(0.2, 0.2))
    site.images.missing["nosuch:1"] = "ErrImagePull"
    await site.create("web", a_container(image="nosuch:1"), a_container("ok"))
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "ErrImagePull")
    assert (
        pod["status"]["containerStatuses"][1]["state"]["waiting"]["reason"] == "ContainerCreating"
    )
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "ImagePullBackOff")
    assert waiting(pod)["message"] == (
        'Back-off pulling image "nosuch:1": ErrImagePull: nosuch:1: no such image'
    )
    assert site.engine.submissions == []
    messages = [message for _, _, message in await _with_reason(site, "Failed")]
    assert 'Failed to pull image "nosuch:1": nosuch:1: no such image' in messages
    assert "Error: ErrImagePull" in messages
    del site.images.missing["nosuch:1"]
    await site.submitted()


async def test_a_long_pull_is_shown_and_ends_when_the_pod_is_deleted(site):
    site.images.gate.clear()
    await site.create()
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "ContainerCreating")
    await eventually(lambda: _with_reason(site, "Pulling"))
    await site.api.delete(POD, Key("default", "web"))
    await eventually(site.is_gone)
    assert site.engine.submissions == []
    assert pod["status"]["phase"] == "Pending"


async def test_a_pull_that_took_place_is_told(site):
    site.images.gate.clear()
    await site.create()
    await eventually(lambda: _with_reason(site, "Pulling"))
    site.images.gate.set()
    [(_, _, message)] = await eventually(lambda: _with_reason(site, "Pulled"))
    assert message.startswith('Successfully pulled image "busybox" in ')


async def test_a_missing_config_map_is_named_until_it_is_there(site, monkeypatch):
    from orlop.client.workqueue import Backoff
    from orlop.kubelet import worker

    monkeypatch.setattr(worker, "_CONFIG_RETRY", Backoff(0.2, 0.2))
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}]
    await site.create("web", a_container(command=["true"], env=env))
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "CreateContainerConfigError")
    assert waiting(pod)["message"] == 'configmap "late" not found'
    late = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "late"},
        "data": {"a": "1"},
    }
    await site.api.create(CONFIG_MAP, late, namespace="default")
    await site.submitted()
    plan = json.loads((site.folder() / "plan.json").read_text())
    assert ["A", "1"] in plan["containers"][0]["env"]


async def test_what_cannot_be_run_is_refused_and_what_is_not_done_is_named(site):
    await site.create("bad", a_container(securityContext={"privileged": True}))
    pod = await site.until(
        lambda pod: waiting(pod).get("reason") == "CreateContainerConfigError", "bad"
    )
    assert "privileged containers cannot be had" in waiting(pod)["message"]
    context = {"seLinuxOptions": {"level": "s0"}}
    await site.create("labelled", a_container(command=["true"], securityContext=context))
    await site.submitted("labelled")
    [event] = await eventually(lambda: _with_reason(site, "Unsupported", "labelled"))
    assert 'spec.containers["main"].securityContext.seLinuxOptions' in event[2]


async def test_mpi_flags_of_earlier_systems_start_the_container_by_mpiexec(site):
    notes = {"slurm-job.hpk.io/mpi-flags": "--bind-to none", "slurm.orlop.dev/ntasks": "4"}
    await site.create(metadata={"annotations": notes})
    await site.submitted()
    plan = json.loads((site.folder() / "plan.json").read_text())
    assert plan["containers"][0]["argv"] == ["mpiexec", "-np", "4", "--bind-to", "none", "true"]


async def test_flags_that_cannot_be_read_are_named(site):
    await site.create(metadata={"annotations": {"slurm.orlop.dev/flags": "--comment='open"}})
    pod = await site.until(lambda pod: waiting(pod))
    assert waiting(pod)["reason"] in ("CreateContainerConfigError", "SubmitRejected")
    assert "flags" in waiting(pod)["message"]


# The engine is away


async def test_a_silent_engine_changes_nothing_but_conditions(site):
    await site.create("runs")
    agent = await site.agent("runs")
    await agent.say(started(), running())
    before = await site.until_phase("Running", "runs")
    site.engine.is_silent = True
    site.kubelet.ask_engine()
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


# Deleting


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
    [event] = await eventually(lambda: _with_reason(site, "FailedKillPod", "web"))
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


async def test_an_agent_that_is_not_connected_is_asked_through_the_engine(site):
    await site.create()
    await site.submitted()
    site.engine.set("17", JobState.RUNNING)
    _silent_agent(site).write(started(), running())
    await site.until_phase("Running")
    await site.api.delete(POD, Key("default", "web"))
    await eventually(lambda: site.engine.terminated == ["17"])
    assert site.engine.cancelled == []


async def test_an_agent_that_does_not_end_in_time_is_cancelled(site, monkeypatch):
    from orlop.kubelet import termination

    monkeypatch.setattr(termination, "KILL_MARGIN", 0.2)
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
    await eventually(lambda: site.kubelet._pods.get(agent.plan["pod"]["uid"]) is None)
    await site.api.delete(POD, Key("default", "web"))
    await eventually(lambda: not folder.exists())
    assert site.engine.cancelled == []


async def test_a_job_that_outlives_its_pod_is_cancelled(site, monkeypatch):
    from orlop.kubelet import termination

    monkeypatch.setattr(termination, "AFTERLIFE", 0.2)
    await site.create()
    agent = await site.agent()
    site.engine.set("17", JobState.RUNNING)
    await agent.say(started(), exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded")
    await agent.hang_up()
    await eventually(lambda: site.engine.cancelled == ["17"])


async def test_a_job_that_ended_while_the_engine_was_silent_is_not_cancelled(site, monkeypatch):
    """slurmctld hears of the end some time after it is back; till then it lists the job."""
    from orlop.kubelet import termination

    monkeypatch.setattr(termination, "AFTERLIFE", 0.5)
    await site.create()
    agent = await site.agent()
    site.engine.set("17", JobState.RUNNING)
    await agent.say(started(), running())
    await site.until_phase("Running")
    site.engine.is_silent = True
    await eventually(lambda: site.kubelet._health.is_down)
    await agent.say(exited(3), finished("Failed"))
    await site.until_phase("Failed")
    await agent.hang_up()
    await asyncio.sleep(0.6)
    site.engine.is_silent = False
    await eventually(lambda: not site.kubelet._health.is_down)
    await asyncio.sleep(0.2)
    site.engine.set("17", JobState.FAILED)
    await eventually(lambda: site.kubelet._pods.get(agent.plan["pod"]["uid"]) is None)
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


# Whatever comes


@pytest.mark.parametrize(
    ("where", "what"),
    [("prepare", KeyError("surprise")), ("prepare", ValueError("odd"))],
    ids=["a bug", "a value"],
)
async def test_a_pod_that_nobody_thought_of_troubles_itself_alone(site, monkeypatch, where, what):
    from orlop.kubelet import preparation

    original = preparation.make_plan

    def fail(pod, *rest):
        if pod["metadata"]["name"] == "odd":
            raise what
        return original(pod, *rest)

    monkeypatch.setattr(preparation, "make_plan", fail)
    await site.create("odd")
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "CreateContainerError", "odd")
    assert type(what).__name__ in waiting(pod)["message"]
    await site.create("fine")
    await site.submitted("fine")


async def test_an_answer_of_the_engine_that_makes_no_sense_ends_nothing(site):
    await site.create()
    await site.submitted()
    table, site.engine.table = site.engine.table, {"17": None}
    site.kubelet.ask_engine()
    calls = site.engine.calls
    await eventually(lambda: site.engine.calls > calls + 1, timeout=2)
    site.engine.table = table
    site.engine.set("17", JobState.CANCELLED)
    await site.until_phase("Failed")


async def test_a_folder_that_cannot_be_written_is_told(site):
    site.paths.pods.rmdir()
    site.paths.pods.write_text("in the way")
    await site.create()
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "CreateContainerError")
    assert "check space, quota and rights" in waiting(pod)["message"]
    site.paths.pods.unlink()
    site.paths.pods.mkdir()


# The time limit


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
    assert await eventually(lambda: _with_reason(site, "Requeued"), "it is told")
    assert condition(pod, "orlop.dev/TimeLimit") == {}


async def test_a_pod_that_cannot_be_requeued_ends_and_says_why(site):
    site.engine.refuses_requeue = "Requested operation is presently disabled"
    await with_timeout(site, "requeue")
    pod = await site.until_phase("Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"
    [event] = await eventually(lambda: _with_reason(site, "RequeueFailed"), "it is told")
    assert "presently disabled" in event[2]


async def test_others_end_at_their_time_limit_and_say_that_it_was_that(site):
    await with_timeout(site, "successor")
    pod = await site.until_phase("Failed")
    assert condition(pod, "orlop.dev/TimeLimit")["status"] == "True"
    assert site.engine.requeued == []
