"""Whatever an agent writes and an engine says, a status comes of it that makes sense."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from orlop.engine import Job, JobId, JobState
from orlop.errors import ApiError
from orlop.kubelet.agents.journal import Journal, Record
from orlop.kubelet.server.logs import which_run
from orlop.kubelet.status.pod_status import Observed, PendingReason, pod_status, status_patch

from .objects import NOW, UID, a_container, a_pod

POD = a_pod(
    a_container("a"),
    a_container("b"),
    initContainers=[a_container("i")],
    readinessGates=[{"conditionType": "x/y"}],
)
WORDS = st.sampled_from(["", "Error", "Completed", "OOMKilled", "CrashLoopBackOff", "x y"])

TYPES = ["started", "container", "health", "event", "condition", "terminating", "finished"]
records = st.builds(
    dict,
    type=st.sampled_from(
        ["started", "container", "health", "event", "condition", "terminating", "finished"]
    ),
    name=st.sampled_from(["a", "b", "i", "ghost"]),
    restart=st.integers(0, 3),
    state=st.sampled_from(["waiting", "running", "terminated", "dancing"]),
    reason=WORDS,
    message=WORDS,
    exitCode=st.sampled_from([None, 0, 1, 137]),
    startedAt=st.sampled_from([None, NOW]),
    why=st.sampled_from(["deleted", "signal", "deadline"]),
    phase=st.sampled_from(["Succeeded", "Failed", "Unheard"]),
    condition=st.sampled_from(["", "Ready", "orlop.dev/Limits"]),
    status=st.sampled_from(["True", "False", "maybe"]),
    node=st.sampled_from(["", "n1"]),
    addresses=st.sampled_from([(), ("10.0.0.1",)]),
    runtime=st.sampled_from(["", "crun 1.8.1"]),
)
jobs = st.none() | st.builds(
    Job,
    st.just(JobId("17")),
    st.sampled_from(list(JobState)),
    pod_uid=st.just(UID),
    reason=st.sampled_from(["", "None", "Priority", "(odd) reason"]),
    message=WORDS,
    nodes=st.sampled_from([(), ("n1",), ("n1", "n2")]),
    restarts=st.integers(0, 2),
)
troubles = st.none() | st.builds(
    PendingReason, WORDS, WORDS, st.sampled_from(["", "a"]), st.booleans()
)


def journal_of(fields):
    journal = Journal()
    for number, each in enumerate(fields, start=1):
        journal.apply(Record(seq=number, time=NOW + number, **each))
    return journal


@settings(max_examples=150, deadline=None)
@given(st.lists(records, max_size=8), jobs, troubles, st.booleans(), st.booleans())
def test_a_status_makes_sense(fields, job, trouble, has_vanished, is_deleting):
    pod = {**POD, "metadata": dict(POD["metadata"])}
    if is_deleting:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    observed = Observed(
        journal=journal_of(fields),
        job_id=JobId("17"),
        job=job,
        trouble=trouble,
        has_vanished=has_vanished,
        engine_error="silent" if has_vanished else "",
    )
    status = pod_status(pod, observed, NOW)
    assert json.loads(json.dumps(status)) == status
    assert status["phase"] in ("Pending", "Running", "Succeeded", "Failed")
    kinds = [item["type"] for item in status["conditions"]]
    assert len(kinds) == len(set(kinds))
    for each in [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]:
        assert len(each["state"]) == 1
        assert each["ready"] <= ("running" in each["state"] or "terminated" in each["state"])
        is_over = status["phase"] in ("Succeeded", "Failed")
        assert not (is_over and "running" in each["state"]), "nothing runs in a pod that is over"
    assert_is_stable(pod, observed, status)
    assert_has_logs_or_says_why(pod, status)


def assert_is_stable(pod, observed, status):
    """Written once, it is not written again."""
    written = {**pod, "status": status}
    assert status_patch(written, pod_status(written, observed, NOW + 1000)) == {}


def assert_has_logs_or_says_why(pod, status):
    for previous in (False, True):
        try:
            answer = which_run(pod, status, "a", previous=previous)
        except ApiError as error:
            answer = error.message
        assert isinstance(answer, int) or 'container "a" in pod "web"' in answer
