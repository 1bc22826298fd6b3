"""When a Job is over."""

from __future__ import annotations

import pytest

from orlop.api.times import rfc3339
from orlop.controllers.workloads.job.completion import deadline_left, failed_indexes, judge
from orlop.controllers.workloads.job.indexes import IndexSet
from tests.controllers.jobs import NOW, a_job, a_pod, view

INDEXED = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
PER_INDEX = {**INDEXED, "backoffLimitPerIndex": 1, "backoffLimit": 2**31 - 1}


def policy(action: str, **rule) -> dict:
    return {"podFailurePolicy": {"rules": [{"action": action, **rule}]}}


EXIT_42 = {"onExitCodes": {"operator": "In", "values": [42]}}
NOT_0_1 = {"onExitCodes": {"operator": "NotIn", "values": [0, 1]}}
DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(
    ("job", "pods", "verdict"),
    [
        (a_job(), [], None),
        (a_job(), [a_pod("a")], None),
        (a_job(), [a_pod("a", "Succeeded")], ("Complete", "CompletionsReached")),
        (a_job(completions=2), [a_pod("a", "Succeeded")], None),
        (a_job(completions=2, status={"succeeded": 1}), [a_pod("a", "Succeeded")],
         ("Complete", "CompletionsReached")),
        (a_job(status={"uncountedTerminatedPods": {"succeeded": ["a"]}}),
         [a_pod("a", "Succeeded")], ("Complete", "CompletionsReached")),
        (a_job(), [a_pod("a", "Succeeded", tracked=False)], None),
        (a_job(completions=0), [], ("Complete", "CompletionsReached")),
        (a_job(completions=None), [a_pod("a", "Succeeded"), a_pod("b")], None),
        (a_job(completions=None), [a_pod("a", "Succeeded")], ("Complete", "CompletionsReached")),
        (a_job(backoffLimit=0), [a_pod("a", "Failed")], ("Failed", "BackoffLimitExceeded")),
        (a_job(backoffLimit=1), [a_pod("a", "Failed")], None),
        (a_job(backoffLimit=1, status={"failed": 1}), [a_pod("a", "Failed")],
         ("Failed", "BackoffLimitExceeded")),
        (a_job(backoffLimit=0), [a_pod("a", deleting=True)], ("Failed", "BackoffLimitExceeded")),
        (a_job(backoffLimit=0, podReplacementPolicy="Failed"), [a_pod("a", deleting=True)], None),
        (a_job(backoffLimit=2, restart="OnFailure"), [a_pod("a", restarts=2)],
         ("Failed", "BackoffLimitExceeded")),
        (a_job(backoffLimit=2, restart="OnFailure"), [a_pod("a", restarts=1)], None),
        (a_job(backoffLimit=0, restart="OnFailure"), [a_pod("a", restarts=0)], None),
        (a_job(activeDeadlineSeconds=10, status={"startTime": rfc3339(NOW - 10)}), [],
         ("Failed", "DeadlineExceeded")),
        (a_job(activeDeadlineSeconds=10, status={"startTime": rfc3339(NOW - 9)}), [], None),
        (a_job(activeDeadlineSeconds=10, suspend=True, status={"startTime": rfc3339(NOW - 99)}),
         [], None),
    ],
    ids=["new", "running", "succeeded", "half way", "the other half", "uncounted counts once",
         "counted before", "nothing to do", "work queue with a pod left", "work queue done",
         "first failure is too many", "within the limit", "beyond the limit",
         "a deleted pod has failed", "unless only ended ones count", "restarts count",
         "few restarts", "no restarts", "deadline passed", "deadline ahead", "suspended"],
)  # fmt: skip
def test_the_verdict_on_a_job(job, pods, verdict):
    found = judge(view(job, *pods))
    assert (found and found[:2]) == verdict


@pytest.mark.parametrize(
    ("kind", "final"), [("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")]
)
def test_a_verdict_once_told_stands(kind, final):
    told = {"type": kind, "status": "True", "reason": "Why", "message": "because"}
    found = judge(view(a_job(status={"conditions": [told]}), a_pod("a")))
    assert found == (final, "Why", "because")


@pytest.mark.parametrize(
    ("spec", "pods", "verdict"),
    [
        (policy("FailJob", **EXIT_42), [a_pod("a", "Failed", code=42)], "PodFailurePolicy"),
        (policy("FailJob", **EXIT_42), [a_pod("a", "Failed", code=41)], None),
        (policy("FailJob", **NOT_0_1), [a_pod("a", "Failed", code=9)], "PodFailurePolicy"),
        (policy("FailJob", **NOT_0_1), [a_pod("a", "Failed", code=1)], None),
        (policy("FailJob", onExitCodes={**EXIT_42["onExitCodes"], "containerName": "other"}),
         [a_pod("a", "Failed", code=42)], None),
        ({"backoffLimit": 0, **policy("Ignore", **DISRUPTED)},
         [a_pod("a", "Failed", conditions=(("DisruptionTarget", "True"),))], None),
        ({"backoffLimit": 0, **policy("Ignore", **DISRUPTED)},
         [a_pod("a", "Failed", conditions=(("DisruptionTarget", "False"),))],
         "BackoffLimitExceeded"),
        ({"backoffLimit": 0, **policy("Count", **EXIT_42)},
         [a_pod("a", "Failed", code=42)], "BackoffLimitExceeded"),
    ],
    ids=["listed code", "other code", "not listed", "listed as harmless", "other container",
         "disruption is ignored", "no disruption", "counted"],
)  # fmt: skip
def test_the_failure_policy(spec, pods, verdict):
    found = judge(view(a_job(**spec), *pods))
    assert (found and found.reason) == verdict


def test_the_failure_policy_says_what_matched():
    found = judge(view(a_job(**policy("FailJob", **EXIT_42)), a_pod("a", "Failed", code=42)))
    expected = (
        "Container main for pod ns/a failed with exit code 42 matching FailJob rule at index 0"
    )
    assert found.message == expected


@pytest.mark.parametrize(
    ("rule", "done", "is_met"),
    [
        ({"succeededCount": 2}, "0,1", True),
        ({"succeededCount": 2}, "0", False),
        ({"succeededIndexes": "0"}, "0", True),
        ({"succeededIndexes": "0,1"}, "0,2", False),
        ({"succeededIndexes": "0-2", "succeededCount": 1}, "2", True),
    ],
)
def test_the_success_policy(rule, done, is_met):
    spec = {**INDEXED, "completions": 4, "successPolicy": {"rules": [rule]}}
    found = judge(view(a_job(status={"completedIndexes": done}, **spec)))
    assert (found is not None and found.reason == "SuccessPolicy") is is_met


@pytest.mark.parametrize(
    ("pods", "failed"),
    [
        ([a_pod("a", "Failed", index=0, failures=0)], set()),
        ([a_pod("a", "Failed", index=0, failures=1)], {0}),
        ([a_pod("a", "Failed", index=7, failures=1)], set()),
        ([a_pod("a", "Failed", index=0, failures=1), a_pod("b", "Succeeded", index=0)], set()),
    ],
    ids=["once", "too often", "no such index", "succeeded all the same"],
)
def test_indexes_fail_by_their_own_limit(pods, failed):
    assert failed_indexes(view(a_job(**PER_INDEX), *pods)) == IndexSet.of(failed)


@pytest.mark.parametrize(
    ("status", "spec", "reason"),
    [
        ({"failedIndexes": "0", "completedIndexes": "1,2"}, {}, "FailedIndexes"),
        ({"failedIndexes": "0", "completedIndexes": "1"}, {}, None),
        ({"failedIndexes": "0,1"}, {"maxFailedIndexes": 1}, "MaxFailedIndexesExceeded"),
        ({"failedIndexes": "0"}, {"maxFailedIndexes": 1}, None),
    ],
)
def test_failed_indexes_fail_the_job_when_nothing_is_left_or_too_many(status, spec, reason):
    found = judge(view(a_job(status=status, **PER_INDEX, **spec)))
    assert (found and found.reason) == reason


@pytest.mark.parametrize(
    ("spec", "left"),
    [({}, None), ({"activeDeadlineSeconds": 30}, 20.0),
     ({"activeDeadlineSeconds": 30, "suspend": True}, None)],
)  # fmt: skip
def test_the_time_left(spec, left):
    status = {"startTime": rfc3339(NOW - 10)}
    assert deadline_left(view(a_job(status=status, **spec))) == left
