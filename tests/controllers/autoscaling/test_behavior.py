"""Limits, rates and windows, by the second."""

from __future__ import annotations

import pytest

from orlop.controllers.autoscaling.behavior import Bounds, History, Moment, decide

NOW = 10_000.0
BOUNDS = Bounds(1, 100)


def rules(*policies, select="Max", window=0):
    made = [{"type": kind, "value": value, "periodSeconds": p} for kind, value, p in policies]
    return {"policies": made, "selectPolicy": select, "stabilizationWindowSeconds": window}


def behavior(up=None, down=None):
    at_once = rules(("Percent", 100, 15))
    return {"scaleUp": up or at_once, "scaleDown": down or at_once}


def decided(current, desired, how=None, *, history=None, bounds=BOUNDS, now=NOW, window=300.0):
    return decide(history or History(), current, desired, bounds, how, now=now, down_window=window)


@pytest.mark.parametrize(
    ("current", "desired", "bounds", "replicas", "reason", "is_limited"),
    [
        (3, 5, Bounds(1, 10), 5, "DesiredWithinRange", False),
        (3, 12, Bounds(1, 10), 6, "ScaleUpLimit", True),
        (1, 12, Bounds(1, 10), 4, "ScaleUpLimit", True),
        (8, 12, Bounds(1, 10), 10, "TooManyReplicas", True),
        (3, 1, Bounds(2, 10), 2, "TooFewReplicas", True),
    ],
    ids=["in range", "twice at most", "or four", "the maximum", "the minimum"],
)
def test_without_a_behavior(current, desired, bounds, replicas, reason, is_limited):
    found = decided(current, desired, bounds=bounds)
    assert (found.replicas, found.limited[0], found.is_limited) == (replicas, reason, is_limited)


def test_it_shrinks_only_once_the_window_has_forgotten_more():
    history = History([Moment(NOW - 299, 8)])
    found = decided(8, 2, history=history)
    assert (found.replicas, found.able[0]) == (8, "ScaleDownStabilized")
    found = decided(8, 2, history=history, now=NOW + 2)
    assert (found.replicas, found.able[0]) == (2, "ReadyForNewScale")


def test_the_highest_recommendation_of_the_window_holds():
    history = History()
    assert [
        decided(10, wanted, history=history, now=NOW + step * 15).replicas
        for step, wanted in enumerate([10, 4, 6, 3])
    ] == [10, 10, 10, 10]
    assert decided(10, 3, history=history, now=NOW + 302).replicas == 6
    assert decided(10, 3, history=history, now=NOW + 320).replicas == 6
    assert decided(10, 3, history=history, now=NOW + 331).replicas == 3


@pytest.mark.parametrize(
    ("up", "current", "replicas"),
    [
        (rules(("Pods", 4, 15)), 10, 14),
        (rules(("Percent", 50, 15)), 10, 15),
        (rules(("Pods", 4, 15), ("Percent", 100, 15)), 10, 20),
        (rules(("Pods", 4, 15), ("Percent", 100, 15), select="Min"), 10, 14),
        (rules(("Percent", 10, 15)), 3, 4),
        (rules(("Pods", 4, 15), select="Disabled"), 10, 10),
    ],
    ids=["pods", "percent", "the most", "the least", "rounded up", "disabled"],
)
def test_policies_limit_how_fast_it_grows(up, current, replicas):
    found = decided(current, 50, behavior(up=up))
    assert (found.replicas, found.limited[0]) == (replicas, "ScaleUpLimit")


@pytest.mark.parametrize(
    ("down", "current", "replicas"),
    [
        (rules(("Pods", 4, 15)), 10, 6),
        (rules(("Percent", 10, 15)), 10, 9),
        (rules(("Percent", 10, 15)), 15, 13),
        (rules(("Pods", 4, 15), ("Percent", 10, 15)), 10, 6),
        (rules(("Pods", 4, 15), ("Percent", 10, 15), select="Min"), 10, 9),
        (rules(("Pods", 4, 15), select="Disabled"), 10, 10),
    ],
    ids=["pods", "percent", "cut off", "the most", "the least", "disabled"],
)
def test_policies_limit_how_fast_it_shrinks(down, current, replicas):
    found = decided(current, 1, behavior(down=down))
    assert (found.replicas, found.limited[0]) == (replicas, "ScaleDownLimit")


def test_what_was_added_within_the_period_counts():
    how = behavior(up=rules(("Pods", 4, 60)))
    history = History()
    first = decided(10, 50, how, history=history).replicas
    history.scaled(10, first, how, NOW)
    assert first == 14
    assert decided(14, 50, how, history=history, now=NOW + 30).replicas == 14
    assert decided(14, 50, how, history=history, now=NOW + 61).replicas == 18


def test_what_was_removed_within_the_period_may_come_back():
    how = behavior(up=rules(("Pods", 1, 60)), down=rules(("Pods", 5, 60)))
    history = History()
    history.scaled(10, 5, how, NOW)
    assert decided(5, 50, how, history=history, now=NOW + 10).replicas == 11


@pytest.mark.parametrize(
    ("past", "desired", "replicas", "reason"),
    [
        ([5], 3, 5, "ScaleDownStabilized"),
        ([3, 4], 2, 4, "ScaleDownStabilized"),
        ([5], 9, 5, "ScaleUpStabilized"),
        ([7], 9, 7, "ScaleUpStabilized"),
        ([9], 9, 9, "ReadyForNewScale"),
    ],
    ids=["still wanted", "highest of what was", "not yet", "the lowest of what was", "agreed"],
)
def test_windows_of_a_behavior_hold_both_ways(past, desired, replicas, reason):
    how = behavior(up=rules(("Pods", 50, 15), window=60), down=rules(("Pods", 50, 15), window=60))
    history = History([Moment(NOW - 10, one) for one in past])
    found = decided(5, desired, how, history=history)
    assert (found.replicas, found.able[0]) == (replicas, reason)


def test_a_behavior_without_a_window_down_has_the_settings():
    how = {
        "scaleUp": rules(("Pods", 9, 15)),
        "scaleDown": {"policies": rules(("Pods", 9, 15))["policies"]},
    }
    history = History([Moment(NOW - 100, 5)])
    assert decided(5, 1, how, history=history, window=120.0).replicas == 5
    assert decided(5, 1, how, history=history, window=90.0).replicas == 1


def test_bounds_come_after_rates():
    found = decided(8, 50, behavior(up=rules(("Pods", 50, 15))), bounds=Bounds(1, 10))
    assert (found.replicas, found.limited[0]) == (10, "TooManyReplicas")
    found = decided(8, 1, behavior(down=rules(("Pods", 50, 15))), bounds=Bounds(2, 10))
    assert (found.replicas, found.limited[0]) == (2, "TooFewReplicas")
