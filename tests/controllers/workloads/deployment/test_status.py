"""What a Deployment says of itself at each turn of a rollout."""

from __future__ import annotations

import pytest

from orlop.api.times import rfc3339
from orlop.controllers.workloads.deployment.status import (
    Observed,
    creation_failed,
    is_complete,
    next_check,
    status_of,
)

NOW = 1_800_000_000.0


def deployment(*, status=None, replicas=4, generation=2, **spec) -> dict:
    return {
        "metadata": {"name": "web", "generation": generation},
        "spec": {"replicas": replicas, "progressDeadlineSeconds": 600, **spec},
        "status": status or {},
    }


def replica_set(replicas: int, available: int | None = None, **status) -> dict:
    available = replicas if available is None else available
    counts = {"replicas": replicas, "readyReplicas": available, "availableReplicas": available}
    return {
        "metadata": {"name": "web-abc"},
        "spec": {"replicas": replicas},
        "status": {**counts, **status},
    }


def progressing(reason: str, status: str = "True", *, ago: float = 0.0) -> dict:
    when = rfc3339(NOW - ago)
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "message": "",
        "lastUpdateTime": when,
        "lastTransitionTime": when,
    }


def observe(made: dict, new=None, old=(), **options) -> dict:
    return status_of(Observed(made, new, old, NOW, **options))


def condition(status: dict, kind: str = "Progressing") -> tuple[str, str] | None:
    found = [one for one in status["conditions"] if one["type"] == kind]
    return (found[0]["status"], found[0]["reason"]) if found else None


def test_counts_are_summed_and_zeros_left_out():
    status = observe(deployment(), replica_set(3, 1), [replica_set(2, 2)])
    del status["conditions"]
    assert status == {
        "observedGeneration": 2,
        "replicas": 5,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "unavailableReplicas": 2,
    }


@pytest.mark.parametrize(
    ("former", "new", "old", "options", "expected"),
    [
        ([], replica_set(1, 0), [], {"created": True}, ("True", "ReplicaSetUpdated")),
        ([], replica_set(0), [], {"created": True}, ("True", "NewReplicaSetCreated")),
        ([], replica_set(0), [], {}, ("True", "FoundNewReplicaSet")),
        ([], replica_set(4), [], {}, ("True", "NewReplicaSetAvailable")),
        ([progressing("NewReplicaSetAvailable")], replica_set(4, 2), [], {},
         ("True", "NewReplicaSetAvailable")),
        ([progressing("NewReplicaSetAvailable")], replica_set(1, 1), [replica_set(4)], {},
         ("True", "ReplicaSetUpdated")),
        ([progressing("NewReplicaSetCreated", ago=599)], replica_set(0), [], {},
         ("True", "NewReplicaSetCreated")),
        ([progressing("NewReplicaSetCreated", ago=600)], replica_set(0), [], {},
         ("False", "ProgressDeadlineExceeded")),
        ([progressing("ProgressDeadlineExceeded", "False", ago=9999)], replica_set(0), [], {},
         ("False", "ProgressDeadlineExceeded")),
        ([progressing("ProgressDeadlineExceeded", "False", ago=9999)], replica_set(4), [], {},
         ("True", "NewReplicaSetAvailable")),
        ([progressing("ReplicaSetUpdated", ago=9999)], replica_set(1, 0), [],
         {"is_rollout": False}, ("True", "ReplicaSetUpdated")),
    ],
    ids=["moved at once", "made", "found", "complete", "complete stays so while pods come and go",
         "a new rollout", "in time", "overdue", "still overdue", "late but complete",
         "a resize judges nothing"],
)  # fmt: skip
def test_progress(former, new, old, options, expected):
    made = deployment(status={"conditions": former})
    assert condition(observe(made, new, old, **options)) == expected


def test_pausing_and_resuming_are_told_and_stop_the_clock():
    former = [progressing("ReplicaSetUpdated", ago=9999)]
    paused = deployment(status={"conditions": former}, paused=True)
    status = observe(paused, replica_set(1, 0), is_rollout=False)
    assert condition(status) == ("Unknown", "DeploymentPaused")
    assert next_check(paused, status, NOW) is None
    counts = {name: status[name] for name in ("replicas", "updatedReplicas")}
    resumed = deployment(status={**counts, "conditions": status["conditions"]})
    assert condition(observe(resumed, replica_set(1, 0))) == ("Unknown", "DeploymentResumed")


def test_a_timed_out_deployment_that_is_paused_stays_timed_out():
    former = [progressing("ProgressDeadlineExceeded", "False")]
    made = deployment(status={"conditions": former}, paused=True)
    status = observe(made, replica_set(0), is_rollout=False)
    assert condition(status) == ("False", "ProgressDeadlineExceeded")


def test_progress_renews_its_time_but_not_that_of_the_last_transition():
    former = [progressing("ReplicaSetUpdated", ago=100)]
    made = deployment(status={"conditions": former, "updatedReplicas": 1, "replicas": 1})
    (found,) = [
        one
        for one in observe(made, replica_set(2, 0))["conditions"]
        if one["type"] == "Progressing"
    ]
    assert found["lastUpdateTime"] == rfc3339(NOW)
    assert found["lastTransitionTime"] == rfc3339(NOW - 100)


@pytest.mark.parametrize("deadline", [None, 2**31 - 1])
def test_without_a_deadline_there_is_no_such_condition(deadline):
    made = deployment(
        status={"conditions": [progressing("ReplicaSetUpdated")]}, progressDeadlineSeconds=deadline
    )
    status = observe(made, replica_set(0))
    assert condition(status) is None
    assert next_check(made, status, NOW) is None


@pytest.mark.parametrize(("available", "said"), [(4, "True"), (3, "True"), (2, "False")])
def test_availability_allows_for_what_may_be_missing(available, said):
    status = observe(deployment(), replica_set(4, available))
    assert condition(status, "Available")[0] == said


def test_a_replica_set_that_cannot_make_pods_speaks_through_its_deployment():
    failed = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota",
        "lastTransitionTime": rfc3339(NOW),
    }
    status = observe(deployment(), replica_set(1, conditions=[failed]))
    assert condition(status, "ReplicaFailure") == ("True", "FailedCreate")
    mended = deployment(status=status)
    assert condition(observe(mended, replica_set(1)), "ReplicaFailure") is None


def test_a_replica_set_that_cannot_be_made_is_told():
    status = creation_failed(Observed(deployment(), None, [], NOW), "web-abc", "no")
    assert condition(status) == ("False", "ReplicaSetCreateError")
    message = status["conditions"][-1]["message"]
    assert message == 'Failed to create new replica set "web-abc": no'


@pytest.mark.parametrize(
    ("counts", "complete"),
    [
        ((4, 4, 4, 2), True),
        ((4, 4, 3, 2), False),
        ((4, 5, 4, 2), False),
        ((3, 4, 4, 2), False),
        ((4, 4, 4, 1), False),
    ],
    ids=["all", "not available", "an old one left", "not updated", "not yet observed"],
)
def test_completeness(counts, complete):
    names = ("updatedReplicas", "replicas", "availableReplicas", "observedGeneration")
    assert is_complete(deployment(), dict(zip(names, counts, strict=True))) is complete


@pytest.mark.parametrize(
    ("reason", "ago", "after"),
    [
        ("ReplicaSetUpdated", 100, 501),
        ("ReplicaSetUpdated", 9999, 1),
        ("NewReplicaSetAvailable", 100, None),
        ("ProgressDeadlineExceeded", 100, None),
    ],
)
def test_when_to_look_again(reason, ago, after):
    status = {"conditions": [progressing(reason, ago=ago)]}
    assert next_check(deployment(), status, NOW) == after
