"""Which pods of a Job are made, and when."""

from __future__ import annotations

import pytest

from orlop.controllers.workloads.job.indexes import FAILURES, INDEX
from orlop.controllers.workloads.job.plan import Slot, backoff_left, plan, pod_for
from orlop.controllers.workloads.job.view import FINALIZER
from orlop.wellknown import ON_TIMEOUT, RESTART_COUNT, TIME_LIMIT
from tests.controllers.jobs import NOW, a_job, a_pod, view

INDEXED = {"completionMode": "Indexed", "completions": 5, "parallelism": 3}


def made(job, *pods):
    return len(plan(view(job, *pods)).create)


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        ({"completions": 20, "parallelism": 8}, [], 8),
        ({"completions": 3, "parallelism": 8}, [], 3),
        ({"completions": 3, "parallelism": 8}, [a_pod("a", "Succeeded"), a_pod("b")], 1),
        ({"completions": 20, "parallelism": 0}, [], 0),
        ({"completions": None, "parallelism": 4}, [], 4),
        ({"completions": None, "parallelism": 4}, [a_pod("a", "Succeeded"), a_pod("b")], 0),
        ({"completions": 2, "parallelism": 2, "suspend": True}, [], 0),
        ({"completions": 2, "parallelism": 2}, [a_pod("a", deleting=True)], 2),
        ({"completions": 2, "parallelism": 2, "podReplacementPolicy": "Failed"},
         [a_pod("a", deleting=True)], 1),
    ],
    ids=["parallelism", "completions", "what is left", "none wanted", "work queue",
         "work queue with a success", "suspended", "terminating ones are replaced",
         "unless only ended ones are"],
)  # fmt: skip
def test_how_many_are_made(spec, pods, expected):
    assert made(a_job(**spec), *pods) == expected


@pytest.mark.parametrize(
    ("spec", "gone"),
    [({"parallelism": 1, "completions": 9}, 2), ({"suspend": True, "completions": 9}, 3),
     ({"parallelism": 5, "completions": 9}, 0)],
)  # fmt: skip
def test_too_many_pods_go_and_none_is_made_meanwhile(spec, gone):
    todo = plan(view(a_job(**spec), a_pod("a"), a_pod("b"), a_pod("c")))
    assert len(todo.delete) == gone
    assert not (todo.delete and todo.create)


def test_the_lowest_free_indexes_are_taken():
    pods = [a_pod("a", index=0), a_pod("b", "Succeeded", index=1)]
    todo = plan(view(a_job(status={"completedIndexes": "2"}, **INDEXED), *pods))
    assert [slot.index for slot in todo.create] == [3, 4]


def test_of_two_pods_of_one_index_and_of_useless_ones_the_better_stays():
    pods = [
        a_pod("pending", "Pending", index=0),
        a_pod("running", index=0),
        a_pod("outside", index=9),
        a_pod("done", index=2),
    ]
    todo = plan(view(a_job(status={"completedIndexes": "2"}, **INDEXED), *pods))
    assert sorted(p["metadata"]["name"] for p in todo.delete) == ["done", "outside", "pending"]


@pytest.mark.parametrize(
    ("pods", "left"),
    [
        ([], 0),
        ([a_pod("a", "Failed", ended=NOW)], 10),
        ([a_pod("a", "Failed", ended=NOW - 4)], 6),
        ([a_pod("a", "Failed", ended=NOW - 30), a_pod("b", "Failed", ended=NOW)], 20),
        ([a_pod("a", "Failed", ended=NOW - 5), a_pod("b", "Succeeded", ended=NOW)], 0),
        ([a_pod(str(n), "Failed", ended=NOW) for n in range(20)], 600),
    ],
    ids=["none", "one", "some time ago", "two", "a success since", "many"],
)
def test_failures_double_the_wait_until_a_success(pods, left):
    assert max(backoff_left(view(a_job(), *pods)), 0) == left


def test_while_it_waits_nothing_is_made_and_the_wait_is_told():
    todo = plan(view(a_job(completions=2, parallelism=2), a_pod("a", "Failed")))
    assert (todo.create, todo.wait) == ([], 10)


def test_each_index_has_its_own_failures_and_wait():
    job = a_job(backoffLimitPerIndex=3, **INDEXED)
    pods = [
        a_pod("a", "Failed", index=0, failures=0, ended=NOW - 11),
        a_pod("b", "Failed", index=1, failures=1, ended=NOW - 11),
    ]
    todo = plan(view(job, *pods))
    assert todo.create == [Slot(0, failures=1), Slot(2), Slot(3)]
    assert todo.wait == 9


def test_a_pod_is_of_its_job_and_holds_the_finalizer():
    pod = pod_for(a_job(), Slot())
    assert pod["metadata"]["finalizers"] == [FINALIZER]
    assert pod["metadata"]["generateName"] == "j-"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "job-uid"


def test_a_pod_of_an_index_knows_it():
    job = a_job(backoffLimitPerIndex=3, **INDEXED)
    pod = pod_for(job, Slot(4, failures=2))
    metadata = pod["metadata"]
    assert metadata["generateName"] == "j-4-"
    assert (metadata["annotations"][INDEX], metadata["labels"][INDEX]) == ("4", "4")
    assert metadata["annotations"][FAILURES] == "2"
    assert pod["spec"]["hostname"] == "j-4"
    (env,) = pod["spec"]["containers"][0]["env"]
    assert env["name"] == "JOB_COMPLETION_INDEX"
    assert env["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    assert "env" not in job["spec"]["template"]["spec"]["containers"][0]


# Time limits


def timed_out(name, word="successor", restarts="", **more):
    pod = a_pod(name, "Failed", conditions=((TIME_LIMIT, "True"),), **more)
    pod["metadata"]["annotations"] |= {ON_TIMEOUT: word}
    if restarts:
        pod["metadata"]["annotations"][RESTART_COUNT] = restarts
    return pod


def test_a_pod_that_met_its_limit_has_a_successor_at_once_and_is_no_failure():
    found = view(a_job(backoffLimit=0), timed_out("a"))
    assert plan(found).create == [Slot(restarts=1)]
    assert found.failed == 0


def test_without_the_wish_it_is_a_failure_as_any():
    found = view(a_job(), timed_out("a", word="fail"))
    assert found.failed == 1
    assert plan(found).wait == 10.0


def test_successors_are_counted_also_over_failures_between():
    pods = [timed_out("a"), timed_out("b", restarts="1"), a_pod("c", "Failed", ended=NOW - 99)]
    [slot] = plan(view(a_job(), *pods)).create
    assert slot.restarts == 2
    assert pod_for(a_job(), slot)["metadata"]["annotations"] == {RESTART_COUNT: "2"}


@pytest.mark.parametrize("more", [{}, {"backoffLimitPerIndex": 1}])
def test_each_index_counts_its_own(more):
    pods = [timed_out("a", index=1, restarts="4"), a_pod("b", index=0)]
    job = a_job(**{**INDEXED, "parallelism": 2, **more})
    [slot] = plan(view(job, *pods)).create
    assert (slot.index, slot.restarts, slot.failures, slot.ignored) == (1, 5, 0, 0)
