"""Merge differences and conditions."""

from __future__ import annotations

import pytest

from orlop.api.patch import merge
from orlop.api.times import rfc3339
from orlop.controllers.framework.status import (
    condition,
    is_true,
    merge_diff,
    with_condition,
    without_condition,
)


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {}, {"a": None}),
        ({}, {"a": {}}, {"a": {}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1, 2]}, {"a": [2]}, {"a": [2]}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
    ],
    ids=["nothing", "equal", "changed", "removed", "empty", "nested", "list", "other type"],
)
def test_the_difference_makes_the_new_of_the_old(old, new, patch):
    assert merge_diff(old, new) == patch
    assert merge.apply(dict(old), patch) == new


def test_an_equal_condition_keeps_its_time_and_message():
    old = condition("Ready", "True", "Fine", "first words", 100.0)
    assert with_condition([old], condition("Ready", "True", "Fine", "others", 200.0)) == [old]


def test_another_reason_keeps_the_time_of_the_last_transition():
    old = condition("Ready", "False", "One", "", 100.0)
    (new,) = with_condition([old], condition("Ready", "False", "Two", "why", 200.0))
    assert (new["reason"], new["lastTransitionTime"]) == ("Two", rfc3339(100.0))


def test_another_status_is_a_transition():
    old = condition("Ready", "False", "One", "", 100.0)
    (new,) = with_condition([old], condition("Ready", "True", "One", "", 200.0))
    assert new["lastTransitionTime"] == rfc3339(200.0)


def test_others_stay_in_their_order():
    one, two = condition("A", "True", "", "", 1.0), condition("B", "True", "", "", 1.0)
    kinds = [c["type"] for c in with_condition([one, two], condition("A", "False", "", "", 2.0))]
    assert kinds == ["A", "B"]
    assert without_condition([one, two], "A") == [two]


@pytest.mark.parametrize(
    ("status", "answer"), [("True", True), ("False", False), ("Unknown", False)]
)
def test_is_true(status, answer):
    assert is_true([condition("A", status, "", "", 1.0)], "A") is answer
    assert is_true([], "A") is False
