"""What is known of a pod becomes its status, in upstream's words and shapes."""

from __future__ import annotations

import pytest

from orlop.api.times import rfc3339
from orlop.engine import JobId, JobState
from orlop.kubelet.status.container_status import ImageUsed
from orlop.kubelet.status.pod_status import Observed, PendingReason, pod_status, status_patch

from ..objects import (
    NOW,
    UID,
    a_container,
    a_job,
    a_journal,
    a_pod,
    exited,
    finished,
    running,
    started,
    terminating,
    waiting,
)

JOB = JobId("17")
INIT = a_pod(initContainers=[a_container("first"), a_container("second")])


def status(pod=None, **observed):
    return pod_status(pod or a_pod(), Observed(**observed), NOW)


def condition(status, kind):
    found = [item for item in status["conditions"] if item["type"] == kind]
    assert len(found) <= 1
    return found[0] if found else None


def words(status, kind):
    found = condition(status, kind)
    return found and (found["status"], found.get("reason", ""))


def main_of(status):
    return status["containerStatuses"][0]


def queued(state=JobState.PENDING, **fields):
    return {"job_id": JOB, "job": a_job(state, **fields)}


# Before it runs


def test_a_new_pod_is_being_created():
    found = status()
    assert found["phase"] == "Pending"
    assert main_of(found)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert words(found, "PodScheduled") == ("True", "")
    assert words(found, "Initialized") == ("True", "")
    assert words(found, "Ready") == ("False", "ContainersNotReady")
    assert condition(found, "Ready")["message"] == "containers with unready status: [main]"
    assert condition(found, "orlop.dev/Allocated") is None
    assert found["startTime"] == rfc3339(NOW)
    assert found["qosClass"] == "BestEffort"


def test_a_submitted_pod_has_a_job_and_no_containers():
    found = status(job_id=JOB)
    assert "containerStatuses" not in found
    assert condition(found, "orlop.dev/Allocated")["message"] == "job 17 is submitted"
    assert words(found, "orlop.dev/Allocated") == ("False", "Submitted")


def test_a_queued_pod_has_slurms_reason_and_sentence():
    found = status(**queued(reason="Priority", message="place 3 in main, starts at 10:00"))
    assert found["phase"] == "Pending"
    assert "containerStatuses" not in found
    assert words(found, "orlop.dev/Allocated") == ("False", "Priority")
    assert condition(found, "orlop.dev/Allocated")["message"] == "place 3 in main, starts at 10:00"


def test_a_reason_of_many_words_is_cut_to_its_first():
    found = status(**queued(reason="ReqNodeNotAvail, UnavailableNodes:n1"))
    assert words(found, "orlop.dev/Allocated") == ("False", "ReqNodeNotAvail")


def test_a_pod_with_an_address_of_its_own_has_that_beside_its_nodes():
    found = status(journal=a_journal(started(), running()), job_id=JOB, pod_ip="10.244.0.7")
    assert (found["podIP"], found["hostIP"]) == ("10.244.0.7", "10.77.0.1")
    assert found["podIPs"] == [{"ip": "10.244.0.7"}]


def test_where_the_kernel_lacks_what_it_takes_a_pod_has_its_nodes_address():
    lacks = {"type": "condition", "condition": "orlop.dev/Network", "status": "False"}
    journal = a_journal(started(), lacks, running())
    found = status(journal=journal, job_id=JOB, pod_ip="10.244.0.7")
    assert found["podIP"] == "10.77.0.1"


@pytest.mark.parametrize(
    ("state", "reason", "message"),
    [
        (JobState.RUNNING, "Running", "job 17 runs on n1, n2"),
        (JobState.COMPLETING, "Running", "job 17 runs on n1, n2"),
        (JobState.SUSPENDED, "Suspended", "job 17 is suspended on n1, n2"),
    ],
)
def test_a_pod_with_a_machine_is_allocated_before_its_agent_speaks(state, reason, message):
    found = status(**queued(state, nodes=("n1", "n2")))
    assert found["phase"] == "Pending"
    assert words(found, "orlop.dev/Allocated") == ("True", reason)
    assert condition(found, "orlop.dev/Allocated")["message"] == message
    assert main_of(found)["state"] == {"waiting": {"reason": "ContainerCreating"}}


def test_trouble_with_one_container_is_told_of_that_one():
    pod = a_pod(a_container(), a_container("bad"))
    found = status(pod, trouble=PendingReason("ErrImagePull", "no such image", "bad"))
    good, bad = found["containerStatuses"]
    assert good["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert bad["state"] == {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    assert condition(found, "orlop.dev/Allocated") is None


@pytest.mark.parametrize("reason", ["SubmitRejected", "SubmitDeferred", "EngineUnavailable"])
def test_what_the_engine_refuses_is_told_of_all_containers_and_as_a_condition(reason):
    found = status(INIT, trouble=PendingReason(reason, "sbatch: no", by_engine=True))
    assert found["phase"] == "Pending"
    for each in found["containerStatuses"] + found["initContainerStatuses"]:
        assert each["state"] == {"waiting": {"reason": reason, "message": "sbatch: no"}}
    assert words(found, "orlop.dev/Allocated") == ("False", reason)
    assert condition(found, "orlop.dev/Allocated")["message"] == "sbatch: no"


# While it runs


def test_the_whole_status_of_a_running_container():
    found = status(
        job_id=JOB,
        job=a_job(JobState.PENDING),  # the engine was asked before it began
        journal=a_journal(started(), running()),
        images={"main": ImageUsed("busybox:1", "docker.io/library/busybox@sha256:1")},
    )
    assert found["phase"] == "Running"
    assert main_of(found) == {
        "name": "main",
        "image": "busybox:1",
        "imageID": "docker.io/library/busybox@sha256:1",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": rfc3339(NOW)}},
        "lastState": {},
        "containerID": f"crun://{UID}.main.0",
    }
    assert (found["podIP"], found["hostIP"]) == ("10.77.0.1", "10.77.0.1")
    assert found["podIPs"] == found["hostIPs"] == [{"ip": "10.77.0.1"}]
    for kind in ("Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers"):
        assert words(found, kind) == ("True", "")
    assert condition(found, "orlop.dev/Allocated")["message"] == "job 17 runs on n1"


def test_init_containers_run_while_the_pod_is_pending():
    journal = a_journal(
        started(),
        waiting("PodInitializing"),
        exited(0, "first", init=True),
        running("second", init=True),
    )
    found = status(INIT, job_id=JOB, journal=journal)
    first, second = found["initContainerStatuses"]
    assert found["phase"] == "Pending"
    assert (first["ready"], second["ready"]) == (True, False)
    assert main_of(found)["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert words(found, "Initialized") == ("False", "ContainersNotInitialized")
    incomplete = condition(found, "Initialized")["message"]
    assert incomplete == "containers with incomplete status: [second]"


def test_init_containers_that_have_not_begun_wait_their_turn():
    found = status(INIT, job_id=JOB, journal=a_journal(started()))
    assert [c["state"]["waiting"]["reason"] for c in found["initContainerStatuses"]] == [
        "PodInitializing",
        "PodInitializing",
    ]


def test_a_pod_with_all_init_containers_done_is_initialized_and_runs():
    journal = a_journal(
        started(), exited(0, "first", init=True), exited(0, "second", init=True), running()
    )
    found = status(INIT, job_id=JOB, journal=journal)
    assert found["phase"] == "Running"
    assert words(found, "Initialized") == ("True", "")


def test_a_crashing_container_waits_with_its_last_end():
    journal = a_journal(
        started(),
        running(),
        exited(1),
        running(restart=1),
        exited(2, restart=1, message="out of luck"),
        waiting("CrashLoopBackOff", restart=2, message="back-off 10s"),
    )
    found = status(job_id=JOB, journal=journal)
    main = main_of(found)
    assert found["phase"] == "Running"
    assert main["restartCount"] == 1
    assert main["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    last = main["lastState"]["terminated"]
    assert (last["exitCode"], last["message"]) == (2, "out of luck")
    assert last["containerID"] == main["containerID"] == f"crun://{UID}.main.1"
    assert words(found, "Ready") == ("False", "ContainersNotReady")


def test_a_restarted_container_keeps_its_last_end():
    journal = a_journal(started(), running(), exited(1), running(restart=1))
    main = main_of(status(job_id=JOB, journal=journal))
    assert "running" in main["state"]
    assert main["lastState"]["terminated"]["exitCode"] == 1
    assert main["restartCount"] == 1


def test_one_container_of_two_may_have_ended():
    pod = a_pod(a_container(), a_container("side"))
    journal = a_journal(started(), running(), running("side"), exited(0, "side"))
    found = status(pod, job_id=JOB, journal=journal)
    assert found["phase"] == "Running"
    assert condition(found, "Ready")["message"] == "containers with unready status: [side]"


def test_readiness_gates_are_waited_for():
    pod = a_pod(readinessGates=[{"conditionType": "a/b"}, {"conditionType": "c/d"}])
    pod["status"]["conditions"] = [{"type": "c/d", "status": "False"}]
    found = status(pod, job_id=JOB, journal=a_journal(started(), running()))
    assert words(found, "ContainersReady") == ("True", "")
    assert words(found, "Ready") == ("False", "ReadinessGatesNotReady")
    assert condition(found, "Ready")["message"] == (
        'corresponding condition of pod readiness gate "a/b" does not exist., '
        'the status of pod readiness gate "c/d" is not "True", but False'
    )
    assert condition(found, "c/d") == {"type": "c/d", "status": "False"}


def test_the_agents_conditions_are_on_the_pod():
    said = {"type": "condition", "condition": "orlop.dev/LimitsEnforced", "status": "False"}
    journal = a_journal(started(), {**said, "reason": "NoCgroup", "message": "no cgroup"})
    found = condition(status(job_id=JOB, journal=journal), "orlop.dev/LimitsEnforced")
    assert (found["reason"], found["message"]) == ("NoCgroup", "no cgroup")


def test_an_engine_that_does_not_answer_changes_nothing_but_a_condition():
    observed = {"job_id": JOB, "journal": a_journal(started(), running())}
    before = status(**observed)
    silent = status(**observed, engine_error="slurmctld does not answer")
    found = condition(silent, "orlop.dev/EngineReachable")
    assert (found["status"], found["reason"]) == ("False", "EngineUnavailable")
    assert found["message"] == "slurmctld does not answer"
    silent["conditions"].remove(found)
    assert silent == before
    assert condition(before, "orlop.dev/EngineReachable") is None


def test_a_requeued_pod_is_pending_again_with_its_counts():
    journal = a_journal(started(), running(), exited(1), running(restart=1))
    job = a_job(JobState.PENDING, restarts=1, reason="BeginTime", message="its time has not come")
    found = status(job_id=JOB, journal=journal, job=job)
    main = main_of(found)
    assert found["phase"] == "Pending"
    assert "podIP" not in found
    assert main["restartCount"] == 1
    assert main["ready"] is False
    assert main["state"] == {"waiting": {"reason": "Requeued", "message": "its time has not come"}}
    assert main["lastState"]["terminated"]["exitCode"] == 137
    assert words(found, "orlop.dev/Allocated") == ("False", "Requeued")
    assert words(found, "PodReadyToStartContainers") == ("False", "")


def test_a_requeued_pod_is_not_written_again_and_again():
    pod = a_pod()
    journal = a_journal(started(), running())
    observed = Observed(job_id=JOB, journal=journal, job=a_job(JobState.PENDING, restarts=1))
    pod["status"] = pod_status(pod, observed, NOW)
    assert status_patch(pod, pod_status(pod, observed, NOW + 60)) == {}


def test_a_requeued_pod_runs_again_when_its_agent_does():
    journal = a_journal(started(), running(), started(restart=1), running(restart=1))
    found = status(job_id=JOB, journal=journal, job=a_job(JobState.RUNNING, restarts=1))
    assert found["phase"] == "Running"
    assert main_of(found)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"


# After its end


def test_the_whole_end_of_a_pod_that_succeeded():
    journal = a_journal(started(), running(), exited(0), finished("Succeeded"))
    found = status(job_id=JOB, journal=journal)
    assert found["phase"] == "Succeeded"
    assert "reason" not in found
    assert main_of(found)["state"]["terminated"] == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": rfc3339(NOW),
        "finishedAt": rfc3339(NOW + 5),
        "containerID": f"crun://{UID}.main.0",
    }
    assert main_of(found)["lastState"] == {}
    assert words(found, "Initialized") == ("True", "PodCompleted")
    assert words(found, "Ready") == ("False", "PodCompleted")
    assert condition(found, "orlop.dev/Allocated")["message"] == "job 17 ran on n1"
    assert found["podIP"] == "10.77.0.1"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (exited(42), (42, "Error")),
        (exited(137, reason="OOMKilled", signal=9), (137, "OOMKilled")),
        (exited(128, reason="StartError"), (128, "StartError")),
    ],
)
def test_a_container_that_failed_has_its_own_code_and_reason(record, expected):
    found = status(job_id=JOB, journal=a_journal(started(), record, finished("Failed")))
    state = main_of(found)["state"]["terminated"]
    assert found["phase"] == "Failed"
    assert (state["exitCode"], state["reason"]) == expected
    assert words(found, "Ready") == ("False", "PodFailed")


@pytest.mark.parametrize(
    ("state", "reason", "disruption"),
    [
        (JobState.TIMEOUT, "DeadlineExceeded", None),
        (JobState.NODE_FAIL, "NodeLost", None),
        (JobState.OUT_OF_MEMORY, "OOMKilled", None),
        (JobState.PREEMPTED, "PreemptionByScheduler", ("True", "PreemptionByScheduler")),
        (JobState.CANCELLED, "Cancelled", ("True", "Cancelled")),
        (JobState.FAILED, "JobFailed", None),
    ],
)
def test_a_running_container_is_lost_with_its_job(state, reason, disruption):
    job = a_job(state, ended=NOW + 60)
    found = status(job_id=JOB, job=job, journal=a_journal(started(), running()))
    lost = main_of(found)["state"]["terminated"]
    assert (found["phase"], found["reason"]) == ("Failed", reason)
    assert (lost["exitCode"], lost["reason"]) == (137, reason)
    assert lost["finishedAt"] == rfc3339(NOW + 60)
    assert words(found, "DisruptionTarget") == disruption
    assert condition(found, "orlop.dev/EngineReachable") is None


@pytest.mark.parametrize("record", [running(), exited(137)], ids=["running", "killed"])
def test_out_of_memory_is_137_and_oom_killed_for_whoever_was_killed(record):
    pod = a_pod(a_container(), a_container("done"))
    journal = a_journal(started(), exited(1, "done"), record)
    found = status(pod, job_id=JOB, job=a_job(JobState.OUT_OF_MEMORY), journal=journal)
    main, done = (c["state"]["terminated"] for c in found["containerStatuses"])
    assert (main["exitCode"], main["reason"]) == (137, "OOMKilled")
    assert (done["exitCode"], done["reason"]) == (1, "Error")


def test_a_container_that_never_started_gets_no_exit_code():
    pod = a_pod(a_container(), a_container("never"))
    found = status(
        pod, job_id=JOB, job=a_job(JobState.NODE_FAIL), journal=a_journal(started(), running())
    )
    assert found["containerStatuses"][1]["state"] == {"waiting": {}}


def test_a_pod_whose_agent_never_began_has_no_containers():
    found = status(job_id=JOB, job=a_job(JobState.FAILED), output="no python")
    assert (found["phase"], found["reason"]) == ("Failed", "JobFailed")
    assert "no python" in found["message"]
    assert "containerStatuses" not in found


def test_a_container_in_back_off_at_the_end_ended_with_its_last_run():
    journal = a_journal(started(), running(), exited(7), waiting("CrashLoopBackOff", restart=1))
    found = status(job_id=JOB, job=a_job(JobState.CANCELLED), journal=journal)
    assert main_of(found)["state"]["terminated"]["exitCode"] == 7
    assert main_of(found)["lastState"] == {}


def test_while_the_engine_is_asked_why_the_containers_have_ended_and_the_pod_has_not():
    journal = a_journal(
        started(), running(), terminating("signal"), exited(143), finished("Failed")
    )
    found = status(job_id=JOB, job=a_job(JobState.RUNNING), journal=journal)
    assert found["phase"] == "Running"
    assert main_of(found)["state"]["terminated"]["exitCode"] == 143
    assert words(found, "Ready") == ("False", "ContainersNotReady")


# What is written


def test_a_status_that_is_so_already_needs_no_writing():
    pod = a_pod()
    pod["status"] = status(pod)
    assert status_patch(pod, pod_status(pod, Observed(), NOW + 100)) == {}


def test_only_what_changed_is_written_and_what_is_gone_is_taken_away():
    pod = a_pod()
    pod["status"] = status(pod) | {"nominatedNodeName": "other"}
    wanted = pod_status(pod, Observed(**queued(reason="Priority")), NOW + 100)
    patch = status_patch(pod, wanted)
    assert patch.keys() == {"conditions", "containerStatuses"}
    assert patch["containerStatuses"] is None


def test_a_transition_time_changes_with_the_status_only():
    pod = a_pod()
    pod["status"] = status(pod, **queued(reason="Priority"))
    later = pod_status(pod, Observed(**queued(reason="Resources")), NOW + 100)
    assert condition(later, "orlop.dev/Allocated")["lastTransitionTime"] == rfc3339(NOW)
    pod["status"] = later
    runs = pod_status(pod, Observed(**queued(JobState.RUNNING)), NOW + 200)
    assert condition(runs, "orlop.dev/Allocated")["lastTransitionTime"] == rfc3339(NOW + 200)


def test_conditions_of_others_are_kept_and_ours_are_dropped_when_over():
    pod = a_pod()
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "then"}
    other = {"type": "example.com/x", "status": "Unknown"}
    ours = {"type": "orlop.dev/EngineReachable", "status": "False"}
    pod["status"]["conditions"] = [scheduled, other, ours]
    found = status(pod, **queued())
    assert found["conditions"][:2] == [scheduled, other]
    assert condition(found, "orlop.dev/EngineReachable") is None


def test_start_time_and_quality_of_service_stay_as_they_were_first_told():
    pod = a_pod(status={"startTime": "2026-01-01T00:00:00Z", "qosClass": "Guaranteed"})
    found = status(pod)
    assert (found["startTime"], found["qosClass"]) == ("2026-01-01T00:00:00Z", "Guaranteed")


@pytest.mark.parametrize(
    ("resources", "expected"),
    [({}, "BestEffort"), ({"requests": {"cpu": "1"}}, "Burstable")],
)
def test_quality_of_service_is_told_where_nobody_has(resources, expected):
    assert status(a_pod(a_container(resources=resources)))["qosClass"] == expected


def test_the_image_of_a_container_that_was_added_is_remembered_by_its_status():
    """A control plane that has just started has no plan of it."""
    pod = a_pod(ephemeralContainers=[a_container("debug", image="tools")])
    told = {"name": "debug", "image": "tools:1", "imageID": "tools@sha256:12"}
    pod["status"] = {"ephemeralContainerStatuses": [told]}
    (found,) = status(pod, journal=a_journal(started(), running("debug")))[
        "ephemeralContainerStatuses"
    ]
    assert (found["image"], found["imageID"]) == ("tools:1", "tools@sha256:12")


def test_all_termination_messages_of_a_pod_are_twelve_kibibytes_at_most():
    pod = a_pod(containers=[a_container(f"c{n}") for n in range(6)])
    records = [exited(1, f"c{n}", message="ä" * 2048) for n in range(6)]
    found = status(pod, journal=a_journal(started(), *records), job_id=JOB)
    told = [one["state"]["terminated"]["message"] for one in found["containerStatuses"]]
    assert {len(text.encode()) for text in told} == {2048}
    few = status(journal=a_journal(started(), exited(1, message="x" * 4096)), job_id=JOB)
    assert len(few["containerStatuses"][0]["state"]["terminated"]["message"]) == 4096
