"""Every end is counted once: in the lists, in the counters, through any crash in between."""

from __future__ import annotations

import random

import pytest

from orlop.controllers.workloads.job.completion import Verdict, judge
from orlop.controllers.workloads.job.tally import AT_ONCE, count, held_failures, settle
from orlop.controllers.workloads.job.view import FINALIZER, is_tracked
from tests.controllers.jobs import a_job, a_pod, view

MANY = {"completions": 1000, "parallelism": 10}
INDEXED = {"completionMode": "Indexed", **MANY}
FAILED = Verdict("Failed", "BackoffLimitExceeded", "")
COMPLETE = Verdict("Complete", "CompletionsReached", "")


def names(pods):
    return [pod["metadata"]["name"] for pod in pods]


def test_ended_pods_enter_the_lists_and_may_be_released():
    tally = count(
        view(a_job(**MANY), a_pod("a", "Succeeded"), a_pod("b", "Failed"), a_pod("c")), None
    )
    assert tally.status["uncountedTerminatedPods"] == {"succeeded": ["a"], "failed": ["b"]}
    assert names(tally.release) == ["a", "b"]
    assert not tally.is_partial


def test_what_is_in_the_lists_is_not_entered_again_but_still_released():
    status = {"uncountedTerminatedPods": {"succeeded": ["a"]}}
    tally = count(view(a_job(status=status, **MANY), a_pod("a", "Succeeded")), None)
    assert tally.status["uncountedTerminatedPods"] == {"succeeded": ["a"]}
    assert names(tally.release) == ["a"]


def test_what_has_no_finalizer_any_more_was_counted_before():
    tally = count(view(a_job(**MANY), a_pod("a", "Succeeded", tracked=False)), None)
    assert tally.status["uncountedTerminatedPods"] == {}
    assert tally.release == []


def test_a_pod_that_was_counted_as_failed_while_being_deleted_stays_failed():
    status = {"uncountedTerminatedPods": {"failed": ["a"]}}
    tally = count(view(a_job(status=status, **MANY), a_pod("a", "Succeeded")), None)
    assert tally.status["uncountedTerminatedPods"] == {"failed": ["a"]}


@pytest.mark.parametrize(
    ("verdict", "lists"),
    [(FAILED, {"failed": ["a"]}), (COMPLETE, {})],
    ids=["a failed Job fails them", "a complete one does not"],
)
def test_running_pods_of_a_job_that_is_over_are_released(verdict, lists):
    tally = count(view(a_job(**MANY), a_pod("a")), verdict)
    assert tally.status["uncountedTerminatedPods"] == lists
    assert names(tally.release) == ["a"]


def test_an_ignored_failure_is_released_without_being_counted():
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}
    job = a_job(podFailurePolicy={"rules": [rule]}, **MANY)
    tally = count(view(job, a_pod("a", "Failed")), None)
    assert tally.status["uncountedTerminatedPods"] == {}
    assert names(tally.release) == ["a"]


def test_indexes_are_counted_once_however_many_pods_had_them():
    pods = [a_pod(f"p{n}", "Succeeded", index=n // 2) for n in range(6)]
    pods.append(a_pod("far", "Succeeded", index=5000))
    pods.append(a_pod("none", "Succeeded"))
    tally = count(
        view(a_job(status={"completedIndexes": "7", "succeeded": 1}, **INDEXED), *pods), None
    )
    assert tally.status["completedIndexes"] == "0-2,7"
    assert tally.status["succeeded"] == 4
    assert len(tally.release) == 8


def test_only_so_many_are_taken_at_once():
    pods = [a_pod(f"p{n}", "Succeeded") for n in range(AT_ONCE + 10)]
    tally = count(view(a_job(**MANY), *pods), None)
    assert (
        len(tally.status["uncountedTerminatedPods"]["succeeded"]) == AT_ONCE == len(tally.release)
    )
    assert tally.is_partial


def test_settling_moves_only_those_whose_finalizer_is_gone():
    status = {
        "succeeded": 3,
        "uncountedTerminatedPods": {"succeeded": ["a", "b"], "failed": ["c"]},
    }
    settled = settle(status, {"b"}, is_indexed=False)
    assert settled == {
        "succeeded": 4,
        "failed": 1,
        "uncountedTerminatedPods": {"succeeded": ["b"]},
    }


def test_the_last_failed_pod_of_an_index_is_held_until_its_successor_exists():
    job = a_job(**{**INDEXED, "backoffLimitPerIndex": 3})
    first = a_pod("a", "Failed", index=0, failures=0)
    assert held_failures(view(job, first)) == {"a": 0}
    assert count(view(job, first), None).release == []
    second = a_pod("b", index=0, failures=1)
    assert held_failures(view(job, first, second)) == {}
    assert names(count(view(job, first, second), None).release) == ["a"]


@pytest.mark.parametrize("seed", range(20))
def test_crashes_between_any_two_writes_lose_nothing_and_count_nothing_twice(seed):
    """The controller's three writes, cut off at random, over pods that end in between."""
    rng = random.Random(seed)
    pods = {f"p{n}": a_pod(f"p{n}") for n in range(40)}
    job = a_job(completions=40, parallelism=40, backoffLimit=100)
    ends = {name: rng.choice(["Succeeded", "Failed"]) for name in pods}
    for _ in range(400):
        for name in rng.sample(sorted(pods), 3):
            if pods[name]["status"]["phase"] == "Running":
                pods[name]["status"]["phase"] = ends[name]
        seen = view(job, *pods.values())
        assert judge(seen) is None or all(p["status"]["phase"] != "Running" for p in pods.values())
        tally = count(seen, None)
        if rng.random() < 0.3:
            continue  # died before the first write
        job = {**job, "status": tally.status}
        for pod in tally.release:
            if rng.random() < 0.7:  # died between two of these
                pod["metadata"]["finalizers"] = []
        if rng.random() < 0.3:
            continue
        tracked = {name for name, pod in pods.items() if is_tracked(pod)}
        job = {**job, "status": settle(tally.status, tracked, is_indexed=False)}
    status = job["status"]
    assert FINALIZER not in str(pods)
    assert status["uncountedTerminatedPods"] == {}
    assert status.get("succeeded", 0) == sum(end == "Succeeded" for end in ends.values())
    assert status.get("failed", 0) == sum(end == "Failed" for end in ends.values())
