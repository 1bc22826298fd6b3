"""Conditions: ours as they should be, others' as they are, times only when something changes."""

from __future__ import annotations

import pytest

from orlop.api.times import rfc3339
from orlop.kubelet.status.conditions import condition, merged_conditions, word
from orlop.kubelet.status.pod_status import Observed, pod_status

from ..objects import NOW, a_journal, a_pod, started


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Priority", "Priority"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "ReqNodeNotAvail"),
        ("(null)", "null"),
        ("QOSMaxJobs_Per", "QOSMaxJobs_Per"),
        ("2fast", "fast"),
        ("", "Unknown"),
        ("...", "Unknown"),
    ],
)
def test_a_reason_is_one_word(reason, expected):
    assert word(reason) == expected


def test_what_is_empty_is_left_out():
    assert condition("Ready", True) == {"type": "Ready", "status": "True"}
    assert condition("Ready", False, "No", "words") == {
        "type": "Ready",
        "status": "False",
        "reason": "No",
        "message": "words",
    }


def with_conditions(*conditions):
    return {"status": {"conditions": list(conditions)}}


def test_a_new_condition_is_stamped_now():
    [made] = merged_conditions({}, [condition("A", True)], (), NOW)
    assert made["lastTransitionTime"] == rfc3339(NOW)


def test_the_order_of_others_is_kept_and_new_ones_come_last():
    old = with_conditions({"type": "x", "status": "True"}, {"type": "A", "status": "False"})
    made = merged_conditions(old, [condition("B", True), condition("A", True)], (), NOW)
    assert [item["type"] for item in made] == ["x", "A", "B"]


@pytest.mark.parametrize(
    ("status", "since"), [(True, "then"), (False, rfc3339(NOW))], ids=["same", "changed"]
)
def test_a_transition_is_a_change_of_status(status, since):
    old = with_conditions({"type": "A", "status": "True", "lastTransitionTime": "then"})
    [made] = merged_conditions(old, [condition("A", status, "New", "words")], (), NOW)
    assert (made["lastTransitionTime"], made["reason"]) == (since, "New")


def test_owned_conditions_that_are_not_wanted_go_and_others_stay():
    old = with_conditions({"type": "ours", "status": "True"}, {"type": "theirs", "status": "True"})
    assert merged_conditions(old, [], ("ours",), NOW) == [{"type": "theirs", "status": "True"}]


@pytest.mark.parametrize("kind", ["Ready", "PodScheduled", "DisruptionTarget", "Initialized"])
def test_whether_a_pod_is_ready_is_not_for_its_agent_to_say(kind):
    said = {"type": "condition", "condition": kind, "status": "True", "reason": "Forged"}
    status = pod_status(a_pod(), Observed(journal=a_journal(started(), said)), NOW)
    assert "Forged" not in [item.get("reason") for item in status["conditions"]]
