"""What probes and sidecars make of a pod's status: started, ready, initialised."""

from __future__ import annotations

import pytest

from orlop.api.objects import condition_of
from orlop.engine import JobState
from orlop.kubelet.status.pod_status import Observed, pod_status

from .objects import NOW, a_container, a_job, a_journal, a_pod, exited, running, started


def status_of(pod, *records):
    job = a_job(JobState.RUNNING)
    observed = Observed(journal=a_journal(started(), *records), job_id=job.id, job=job)
    return pod_status(pod, observed, NOW)


def health(is_started, is_ready, name="main", restart=0):
    fields = {"started": is_started, "ready": is_ready}
    return {"type": "health", "name": name, "restart": restart, **fields}


def seen(status, name="main"):
    lists = ("initContainerStatuses", "containerStatuses")
    each = [item for key in lists for item in status.get(key, [])]
    found = next(item for item in each if item["name"] == name)
    return found["started"], found["ready"]


def condition(status, kind):
    found = condition_of({"status": status}, kind)
    return found["status"], found.get("reason", ""), found.get("message", "")


NOT_READY = ("False", "ContainersNotReady", "containers with unready status: [main]")


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([running()], (True, True)),
        ([running(started=False, ready=False)], (False, False)),
        ([running(started=True, ready=False)], (True, False)),
        ([running(started=True, ready=False), health(True, True)], (True, True)),
        ([running(started=True, ready=False), health(True, True), health(True, False)],
         (True, False)),
        ([running(started=True, ready=True), exited(1)], (False, False)),
        ([running(ready=False), health(True, True), exited(1), running(restart=1, ready=False)],
         (True, False)),
        ([running(ready=False), exited(1), running(restart=1, ready=False), health(True, True)],
         (True, False)),
    ],
    ids=["no probes", "starting", "not asked", "ready", "unready", "ended", "new run", "stale"],
)  # fmt: skip
def test_a_container_is_started_and_ready_as_its_probes_say(records, expected):
    status = status_of(a_pod(), *records)
    assert seen(status) == expected
    if not expected[1]:
        assert condition(status, "ContainersReady") == NOT_READY
        assert condition(status, "Ready") == NOT_READY
    else:
        assert condition(status, "Ready")[0] == "True"


SIDE = a_pod(initContainers=[a_container("side", restartPolicy="Always")])


def test_a_sidecar_that_has_started_makes_a_pod_initialised():
    status = status_of(SIDE, running("side", init=True, started=False, ready=False))
    assert condition(status, "Initialized")[1] == "ContainersNotInitialized"
    assert status["phase"] == "Pending"
    after = health(True, False, "side")
    status = status_of(SIDE, running("side", init=True, started=False, ready=False), after)
    assert condition(status, "Initialized")[0] == "True"


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_sidecar_counts_for_whether_its_pod_is_ready(is_ready):
    status = status_of(SIDE, running("side", init=True, ready=is_ready), running())
    assert seen(status, "side") == (True, is_ready)
    assert condition(status, "Ready")[0] == str(is_ready)
    if not is_ready:
        assert condition(status, "Ready")[2] == "containers with unready status: [side]"


def test_a_sidecar_that_restarts_leaves_its_pod_running():
    status = status_of(SIDE, running("side", init=True), running(), exited(1, "side"))
    assert status["phase"] == "Running"
    assert condition(status, "Initialized")[0] == "True"
    assert condition(status, "Ready")[0] == "False"


def test_an_init_container_that_is_done_is_ready_as_before():
    pod = a_pod(initContainers=[a_container("first")])
    status = status_of(pod, running("first", init=True), exited(0, "first"), running())
    assert seen(status, "first") == (False, True)
    assert condition(status, "Ready")[0] == "True"
