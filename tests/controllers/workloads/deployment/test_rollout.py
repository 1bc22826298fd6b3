"""Sizes of ReplicaSets, step by step."""

from __future__ import annotations

import pytest

from orlop.controllers.workloads.deployment import rollout
from orlop.controllers.workloads.deployment.revisions import DESIRED, MAX


def deployment(replicas=10, surge="25%", unavailable="25%", kind="RollingUpdate", **status):
    strategy = {"type": kind}
    if kind == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {
        "metadata": {"name": "d"},
        "spec": {"replicas": replicas, "strategy": strategy},
        "status": status,
    }


def replica_set(name, replicas, available=None, *, desired=10, most=13):
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": name,
            "annotations": {DESIRED: str(desired), MAX: str(most)},
        },
        "spec": {"replicas": replicas},
        "status": {"availableReplicas": replicas if available is None else available},
    }


def sizes(scales):
    return {one["metadata"]["name"]: size for one, size in scales}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (4, 1, 0, (1, 0)),
        (4, 0, 0, (0, 1)),
        (4, "0%", "10%", (0, 1)),
        (2, 5, 5, (5, 2)),
        (0, "25%", "25%", (0, 0)),
    ],
)
def test_surge_rounds_up_and_unavailable_down_and_never_both_to_zero(
    replicas, surge, unavailable, expected
):
    assert rollout.limits(deployment(replicas, surge, unavailable)) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [(0, 10, 3), (3, 10, 3), (3, 8, 5), (10, 0, 10), (12, 0, 10), (9, 1, 10), (0, 0, 10)],
)
def test_the_new_one_grows_within_the_surge(new, old, expected):
    fresh, stale = replica_set("b", new), [replica_set("a", old)]
    assert rollout.new_size(deployment(), fresh, stale) == expected


def test_pods_that_old_ones_still_have_leave_no_room():
    told = replica_set("a", 8)
    told["status"]["replicas"] = 10
    assert rollout.new_size(deployment(), replica_set("b", 3), [told]) == 3


def test_the_new_one_of_a_recreated_deployment_is_whole_at_once():
    assert rollout.new_size(deployment(kind="Recreate"), None, [replica_set("a", 10)]) == 10


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (replica_set("b", 3, 0), [replica_set("a", 10)], {"a": 8}),
        (replica_set("b", 3, 3), [replica_set("a", 8)], {"a": 5}),
        (replica_set("b", 5, 3), [replica_set("a", 8)], {"a": 5}),
        (replica_set("b", 5, 0), [replica_set("a", 8)], {}),
        (replica_set("b", 3, 0), [replica_set("a", 10, 6)], {"a": 8}),
        (replica_set("b", 3, 3), [replica_set("a", 5, 0), replica_set("aa", 5)], {"a": 0}),
        (replica_set("b", 10, 10), [replica_set("a", 2)], {"a": 0}),
        (replica_set("b", 10, 10), [replica_set("a", 0)], {}),
    ],
    ids=["first step", "new are there", "some new are late", "all new are late",
         "unhealthy go first", "unhealthy set goes whole", "the rest", "nothing left"],
)  # fmt: skip
def test_old_ones_shrink_only_as_far_as_enough_stay_available(new, old, expected):
    assert sizes(rollout.shrink_old(deployment(), new, old)) == expected


def test_a_status_of_before_the_last_step_frees_nobody():
    """The old one was told 9 of 10 and has not acted yet: its tenth pod does not count."""
    new, old = replica_set("b", 1, 1), replica_set("a", 9, 10)
    assert sizes(rollout.shrink_old(deployment(10, 1, 0), new, [old])) == {}


def test_a_rollout_never_breaks_its_limits_and_ends():
    wanted = deployment(7, 2, 1)
    new, old = replica_set("b", 0), replica_set("a", 7)
    for _ in range(30):
        size = rollout.new_size(wanted, new, [old])
        if size != new["spec"]["replicas"]:
            new = replica_set("b", size, new["status"]["availableReplicas"])
        else:
            for one, shrunk in rollout.shrink_old(wanted, new, [old]):
                left = min(one["status"]["availableReplicas"], shrunk)
                old = replica_set("a", shrunk, left)
        assert rollout.total([new, old]) <= 9
        assert rollout.available_of(new) + rollout.available_of(old) >= 6
        if rollout.available_of(new) < rollout.replicas_of(new):
            new = replica_set("b", rollout.replicas_of(new), rollout.available_of(new) + 1)
    assert (rollout.replicas_of(new), rollout.replicas_of(old)) == (7, 0)


def test_a_size_that_changed_is_noticed_by_the_annotation():
    assert rollout.is_scaled(deployment(12), [replica_set("a", 10)])
    assert not rollout.is_scaled(deployment(10), [replica_set("a", 10)])
    assert not rollout.is_scaled(deployment(12), [replica_set("a", 0)])


@pytest.mark.parametrize(
    ("replicas", "new", "old", "expected"),
    [
        (5, replica_set("b", 10), [replica_set("a", 0)], {"b": 5}),
        (5, None, [replica_set("a", 3)], {"a": 5}),
        (5, replica_set("b", 0), [replica_set("a", 0)], {"b": 5}),
        (10, replica_set("b", 10), [replica_set("a", 2)], {"a": 0}),
        (20, replica_set("b", 5, 3), [replica_set("a", 8)], {"b": 10, "a": 15}),
        (5, replica_set("b", 5, 3), [replica_set("a", 8)], {"b": 3, "a": 4}),
        (0, replica_set("b", 5, 3), [replica_set("a", 8)], {"b": 0, "a": 0}),
    ],
    ids=["only the new", "only the old", "none has pods", "new is whole", "up", "down", "to zero"],
)
def test_a_new_size_is_shared_in_proportion(replicas, new, old, expected):
    assert sizes(rollout.rescale(deployment(replicas), new, old)) == expected


def test_shares_always_add_up_to_what_is_allowed():
    for replicas in range(1, 40):
        wanted = deployment(replicas)
        sets = [replica_set("a", 6), replica_set("b", 4), replica_set("c", 3)]
        scaled = sizes(rollout.rescale(wanted, replica_set("d", 0), sets))
        assert sum(scaled.values()) == rollout.max_replicas(wanted)
