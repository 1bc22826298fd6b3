"""Of two pods, which goes first."""

from __future__ import annotations

import random

import pytest

from orlop.api.times import rfc3339
from orlop.controllers.workloads.deletion_order import DELETION_COST, cheapest_first, deletion_cost

NOW = 1_800_000_000.0


def pod(
    name,
    *,
    node="n1",
    phase="Running",
    ready=True,
    ready_for=1000.0,
    age=2000.0,
    restarts=0,
    cost=None,
):
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": rfc3339(NOW - age),
            "annotations": {DELETION_COST: cost} if cost is not None else {},
        },
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "lastTransitionTime": rfc3339(NOW - ready_for),
                }
            ],
            "containerStatuses": [{"restartCount": restarts}],
        },
    }


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        ({"node": ""}, {"phase": "Pending", "ready": False}),
        ({"phase": "Pending", "ready": False}, {"phase": "Unknown", "ready": False}),
        ({"phase": "Unknown", "ready": False}, {"phase": "Running", "ready": False}),
        ({"ready": False}, {"ready": True}),
        ({"cost": "-5"}, {}),
        ({}, {"cost": "10"}),
        ({"cost": "not a number"}, {"cost": "1"}),
        ({"ready_for": 10}, {"ready_for": 1000}),
        ({"restarts": 3}, {"restarts": 0}),
        ({"age": 10}, {"age": 100_000}),
    ],
    ids=[
        "unassigned before pending", "pending before unknown", "unknown before running",
        "not ready before ready", "cheap before default", "default before dear",
        "no number is zero", "shortly ready before long ready", "restless before calm",
        "young before old",
    ],
)  # fmt: skip
def test_which_of_two_goes_first(goes, stays):
    first, second = pod("a", **goes), pod("b", **stays)
    for order in ([first, second], [second, first]):
        assert cheapest_first(order, order, NOW)[0] is first


def test_the_more_crowded_node_gives_up_a_pod_first():
    lone, one, two = pod("a", node="n1"), pod("b", node="n2"), pod("c", node="n2")
    assert cheapest_first([lone, one, two], [lone, one, two], NOW)[-1] is lone


def test_pods_of_about_the_same_age_are_equals_and_their_uid_decides():
    one, other = pod("a", age=1100, ready_for=1100), pod("b", age=1200, ready_for=1200)
    assert [p["metadata"]["name"] for p in cheapest_first([other, one], [], NOW)] == ["a", "b"]


def test_the_order_does_not_depend_on_the_order_given():
    rng = random.Random(7)
    pods = [
        pod(str(n), ready=rng.random() < 0.5, age=rng.uniform(1, 1e5), restarts=rng.randint(0, 3))
        for n in range(50)
    ]
    expected = cheapest_first(pods, pods, NOW)
    rng.shuffle(pods)
    assert cheapest_first(pods, pods, NOW) == expected


@pytest.mark.parametrize(("text", "cost"), [("7", 7), ("-7", -7), ("x", 0), ("", 0), (None, 0)])
def test_deletion_cost(text, cost):
    assert deletion_cost(pod("a", cost=text)) == cost
