"""How many replicas a metric asks for, with the cautions of upstream."""

from __future__ import annotations

import pytest

from orlop.api.times import rfc3339
from orlop.controllers.autoscaling.replica_calculator import (
    Caution,
    Measured,
    NoReplicas,
    average_replicas,
    group_pods,
    requests_of,
    shared_replicas,
    utilization_replicas,
    value_replicas,
)

NOW = 1_800_000_000.0
CAUTION = Caution()


def a_pod(name, *, phase="Running", ready="True", age=1000.0, changed=900.0, cpu="1", **metadata):
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": rfc3339(NOW - changed)}]
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {
            "phase": phase,
            "conditions": conditions if ready else [],
            "startTime": rfc3339(NOW - age),
        },
    }


def pods(count, **fields):
    return [a_pod(f"p{number}", **fields) for number in range(count)]


def measured(values, *, time=NOW, window=15.0):
    """p0 uses the first value, p1 the second, ...; None: nobody measured it."""
    return {
        f"p{number}": Measured(value, time, window)
        for number, value in enumerate(values)
        if value is not None
    }


def by_utilization(found, values, target=50, current=None, caution=CAUTION):
    samples = measured(values)
    groups = group_pods(found, samples, is_cpu=True, caution=caution, now=NOW)
    count = len(found) if current is None else current
    return utilization_replicas(
        count, target, found, groups, samples, requests_of(found, "cpu"), caution
    )


@pytest.mark.parametrize(
    ("values", "target", "replicas", "utilization"),
    [
        ([500, 500, 500], 50, 3, 50),
        ([900, 900, 900], 50, 6, 90),
        ([100, 100, 100], 50, 1, 10),
        ([540, 540, 540], 50, 3, 54),
        ([560, 560, 560], 50, 4, 56),
        ([460, 460, 460], 50, 3, 46),
        ([0, 0, 0], 50, 0, 0),
    ],
    ids=["met", "above", "below", "within tolerance", "just out of it", "within, below", "idle"],
)
def test_utilization(values, target, replicas, utilization):
    found = by_utilization(pods(3), values, target)
    assert (found.replicas, found.utilization) == (replicas, utilization)


@pytest.mark.parametrize(
    ("values", "replicas"),
    [
        ([1000, 1000, None], 4),
        ([100, 100, None], 3),
        ([600, 600, None], 3),
        ([10, 10, None, None], 4),
    ],
    ids=[
        "it grows as if the missing used nothing",
        "it does not shrink because one is missing",
        "a small excess is no excess with the missing",
        "nor if two are",
    ],
)
def test_pods_that_nobody_measured_speak_against_a_change(values, replicas):
    assert by_utilization(pods(len(values)), values).replicas == replicas


def test_pods_that_start_count_as_idle_where_it_would_grow():
    found = [*pods(2), a_pod("p2", phase="Pending")]
    assert by_utilization(found, [1000, 1000, None]).replicas == 4
    assert by_utilization(found, [600, 600, None]).replicas == 3
    assert by_utilization(found, [100, 100, None]).replicas == 1


@pytest.mark.parametrize(
    ("fields", "group"),
    [
        ({}, "ready"),
        ({"deletionTimestamp": "x"}, "ignored"),
        ({"phase": "Failed"}, "ignored"),
        ({"phase": "Pending"}, "unready"),
        ({"ready": ""}, "unready"),
        ({"age": 60, "ready": "False", "changed": 50}, "unready"),
        ({"age": 60, "changed": 5}, "unready"),
        ({"age": 60, "changed": 40}, "ready"),
        ({"age": 1000, "ready": "False", "changed": 990}, "unready"),
        ({"age": 1000, "ready": "False", "changed": 100}, "ready"),
    ],
    ids=[
        "running",
        "deleted",
        "failed",
        "pending",
        "never ready or not",
        "starting and not ready",
        "ready for less than a window",
        "ready for a window",
        "never was ready",
        "was ready once",
    ],
)
def test_whose_cpu_counts(fields, group):
    groups = group_pods(
        [a_pod("p0", **fields)], measured([500]), is_cpu=True, caution=CAUTION, now=NOW
    )
    names = {name: getattr(groups, name) for name in ("unready", "missing", "ignored")}
    found = next((name for name, members in names.items() if members), "ready")
    assert (found, groups.ready) == (group, int(group == "ready"))


def test_memory_of_a_starting_pod_counts():
    starting = a_pod("p0", age=10, ready="False", changed=10)
    groups = group_pods([starting], measured([5]), is_cpu=False, caution=CAUTION, now=NOW)
    assert groups.ready == 1


def by_average(found, values, target, current=None):
    samples = measured(values)
    groups = group_pods(found, samples, is_cpu=False, caution=CAUTION, now=NOW)
    count = len(found) if current is None else current
    return average_replicas(count, target, found, groups, samples, CAUTION)


@pytest.mark.parametrize(
    ("values", "replicas"),
    [([100, 100], 2), ([300, 300], 6), ([10, 10], 1), ([300, None], 3), ([10, None], 2)],
    ids=["met", "above", "below", "above, one missing", "below, one missing"],
)
def test_averages(values, replicas):
    assert by_average(pods(2), values, 100).replicas == replicas


@pytest.mark.parametrize(
    ("found", "samples", "words"),
    [
        ([], [], "no pods returned by selector"),
        (pods(1, phase="Pending"), [500], "pods might be unready"),
    ],
    ids=["no pods", "none that counts"],
)
def test_what_cannot_be_said_is_not(found, samples, words):
    with pytest.raises(NoReplicas, match=words):
        by_utilization(found, samples)


def test_a_container_without_a_request_is_named():
    pod = a_pod("web")
    pod["spec"]["containers"].append({"name": "side"})
    with pytest.raises(NoReplicas, match="missing request for cpu in container side of Pod web"):
        requests_of([pod], "cpu")
    assert requests_of([pod], "cpu", "c") == {"web": 1000}


def test_sidecars_are_asked_too():
    pod = a_pod("web")
    side = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
    pod["spec"]["initContainers"] = [{"name": "once"}, side]
    assert requests_of([pod], "cpu") == {"web": 1500}


@pytest.mark.parametrize(
    ("current", "value", "replicas"),
    [(2, 100, 2), (2, 105, 2), (2, 300, 6), (2, 50, 1), (0, 300, 3), (0, 10, 1)],
)
def test_one_value_of_the_whole(current, value, replicas):
    assert value_replicas(current, 100, value, pods(2), CAUTION).replicas == replicas


def test_only_ready_pods_carry_a_value_of_the_whole():
    found = [*pods(1), a_pod("p1", ready="False")]
    assert value_replicas(2, 100, 300, found, CAUTION).replicas == 3


@pytest.mark.parametrize(
    ("replicas", "value", "wanted", "average"),
    [(4, 400, 4, 100), (4, 800, 8, 200), (4, 100, 1, 25), (4, 410, 4, 103), (0, 50, 1, 50)],
)
def test_a_value_that_is_shared(replicas, value, wanted, average):
    found = shared_replicas(replicas, 100, value, CAUTION)
    assert (found.replicas, found.average) == (wanted, average)
