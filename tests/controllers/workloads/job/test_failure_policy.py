"""What the way in which a pod failed means for its Job."""

from __future__ import annotations

import pytest

from orlop.controllers.workloads.job.failure_policy import is_ignored, match
from tests.controllers.jobs import a_job, a_pod


def rule(action: str, operator: str = "In", *values: int, container: str = "") -> dict:
    codes = {"operator": operator, "values": list(values)}
    if container:
        codes["containerName"] = container
    return {"action": action, "onExitCodes": codes}


def condition(action: str, kind: str, status: str = "True") -> dict:
    return {"action": action, "onPodConditions": [{"type": kind, "status": status}]}


def action(pod: dict, *rules: dict) -> str:
    return match(a_job(podFailurePolicy={"rules": list(rules)}), pod).action


@pytest.mark.parametrize(
    ("rules", "code", "expected"),
    [
        ([], 1, "Count"),
        ([rule("FailJob", "In", 1, 2)], 2, "FailJob"),
        ([rule("FailJob", "In", 1, 2)], 3, "Count"),
        ([rule("Ignore", "NotIn", 1)], 3, "Ignore"),
        ([rule("Ignore", "NotIn", 3)], 3, "Count"),
        ([rule("Ignore", "In", 3), rule("FailJob", "In", 3)], 3, "Ignore"),
        ([rule("FailJob", "In", 9), rule("FailIndex", "In", 3)], 3, "FailIndex"),
        ([rule("FailJob", "In", 3, container="other")], 3, "Count"),
        ([rule("FailJob", "In", 3, container="main")], 3, "FailJob"),
    ],
    ids=["no rules", "listed", "not listed", "all but", "but this", "the first rule counts",
         "the first that matches", "another container", "its container"],
)  # fmt: skip
def test_exit_codes(rules, code, expected):
    assert action(a_pod("a", "Failed", code=code), *rules) == expected


def test_a_container_that_ended_well_matches_no_rule():
    pod = a_pod("a", "Failed", code=0)
    assert action(pod, rule("FailJob", "NotIn", 42)) == "Count"


def test_init_containers_count_too():
    pod = a_pod("a", "Failed", code=0)
    state = {"terminated": {"exitCode": 42}}
    pod["status"]["initContainerStatuses"] = [{"name": "setup", "state": state}]
    found = match(a_job(podFailurePolicy={"rules": [rule("FailJob", "In", 42)]}), pod)
    assert found.message.startswith("Container setup for pod ns/a failed with exit code 42")


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [("DisruptionTarget", "True", "Ignore"), ("DisruptionTarget", "False", "Count"),
     ("Ready", "True", "Count")],
)  # fmt: skip
def test_conditions(kind, status, expected):
    pod = a_pod("a", "Failed", conditions=((kind, status),))
    assert action(pod, condition("Ignore", "DisruptionTarget")) == expected


def test_only_failed_pods_and_only_with_a_policy():
    rules = {"podFailurePolicy": {"rules": [rule("Ignore", "NotIn", 0)]}}
    assert is_ignored(a_job(**rules), a_pod("a", "Failed"))
    assert not is_ignored(a_job(**rules), a_pod("a", deleting=True))
    assert not is_ignored(a_job(), a_pod("a", "Failed"))
