"""A Job's pods, sorted."""

from __future__ import annotations

import pytest

from orlop.api.times import rfc3339
from orlop.controllers.workloads.job.view import is_finished, is_tracked
from tests.controllers.jobs import NOW, a_job, a_pod, view

INDEXED = {"completionMode": "Indexed", "completions": 4}


def names(pods) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def test_pods_are_active_terminating_or_ended():
    seen = view(
        a_job(),
        a_pod("runs"),
        a_pod("waits", "Pending"),
        a_pod("goes", deleting=True),
        a_pod("done", "Succeeded"),
        a_pod("broke", "Failed", deleting=True),
    )
    assert names(seen.active) == ["runs", "waits"]
    assert names(seen.terminating) == ["goes"]
    assert names(seen.new_succeeded) == ["done"]
    assert names(seen.new_failed) == ["goes", "broke"]


@pytest.mark.parametrize(
    ("spec", "pod", "failed"),
    [
        ({}, a_pod("a", "Failed"), True),
        ({}, a_pod("a", deleting=True), True),
        ({}, a_pod("a", "Succeeded", deleting=True), False),
        ({"podReplacementPolicy": "Failed"}, a_pod("a", deleting=True), False),
        ({"podFailurePolicy": {"rules": []}}, a_pod("a", deleting=True), False),
        ({}, a_pod("a"), False),
    ],
    ids=["failed", "deleted", "deleted after success", "only ended ones", "with a policy", "runs"],
)
def test_what_counts_as_failed(spec, pod, failed):
    assert view(a_job(**spec), pod).is_failed(pod) is failed


@pytest.mark.parametrize(
    ("spec", "pod", "counts"),
    [
        ({}, a_pod("a"), True),
        (INDEXED, a_pod("a", index=3), True),
        (INDEXED, a_pod("a", index=4), False),
        (INDEXED, a_pod("a"), False),
    ],
)
def test_which_pods_count(spec, pod, counts):
    assert view(a_job(**spec), pod).is_in_range(pod) is counts


def test_sums_are_of_counted_uncounted_and_new_each_once():
    status = {
        "succeeded": 5,
        "failed": 2,
        "uncountedTerminatedPods": {"succeeded": ["a", "gone"], "failed": ["b"]},
    }
    seen = view(
        a_job(completions=20, status=status),
        a_pod("a", "Succeeded"),
        a_pod("b", "Failed"),
        a_pod("c", "Succeeded"),
        a_pod("d", "Failed"),
        a_pod("old", "Succeeded", tracked=False),
    )
    assert (seen.succeeded, seen.failed) == (8, 4)


def test_indexes_are_of_the_status_and_of_new_pods():
    seen = view(
        a_job(status={"completedIndexes": "0,2"}, **INDEXED),
        a_pod("a", "Succeeded", index=1),
        a_pod("b", "Succeeded", index=2),
        a_pod("c", "Succeeded", index=9),
    )
    assert str(seen.succeeded_indexes) == "0-2"
    assert str(seen.counted_indexes) == "0,2"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, NOW - 50),
        ({"deletionTimestamp": rfc3339(NOW - 10), "deletionGracePeriodSeconds": 30}, NOW - 40),
    ],
    ids=["its container's end", "when it was told to go"],
)
def test_when_a_pod_ended(change, expected):
    pod = a_pod("a", "Failed", ended=NOW - 50)
    pod["metadata"] |= change
    if change:
        pod["status"]["containerStatuses"] = []
    assert view(a_job(), pod).finished_at(pod) == expected


def test_a_pod_that_says_nothing_has_ended_now_or_when_it_stopped_being_ready():
    pod = a_pod("a", "Failed", conditions=(("Ready", "False"),))
    pod["status"]["containerStatuses"] = []
    assert view(a_job(), pod).finished_at(pod) == NOW
    pod["status"]["conditions"][0]["lastTransitionTime"] = rfc3339(NOW - 7)
    assert view(a_job(), pod).finished_at(pod) == NOW - 7


@pytest.mark.parametrize(
    ("kind", "status", "finished"),
    [("Complete", "True", True), ("Failed", "True", True), ("Failed", "False", False),
     ("FailureTarget", "True", False), ("Suspended", "True", False)],
)  # fmt: skip
def test_what_ends_a_job(kind, status, finished):
    assert is_finished(a_job(status={"conditions": [{"type": kind, "status": status}]})) is finished


def test_the_finalizer_is_what_tracks():
    assert is_tracked(a_pod("a"))
    assert not is_tracked(a_pod("a", tracked=False))
