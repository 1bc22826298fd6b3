"""Evaluates a Job's podFailurePolicy: what the way in which a pod failed means for its Job.

Asked while a Job's pods are counted and judged. Pure. As pkg/controller/job/pod_failure_policy.go:
the first rule that matches decides, a pod that no rule matches counts.
"""

from __future__ import annotations

from typing import NamedTuple

from ....api.objects import Obj, annotations_of, condition_of, key_of, phase_of
from ....wellknown import ON_TIMEOUT, TIME_LIMIT

COUNT, IGNORE, FAIL_JOB, FAIL_INDEX = "Count", "Ignore", "FailJob", "FailIndex"


class Match(NamedTuple):
    action: str
    message: str = ""


def match(job: Obj, pod: Obj) -> Match:
    """Return what the Job's policy says of a failed pod."""
    policy = job["spec"].get("podFailurePolicy")
    if policy is None or phase_of(pod) != "Failed":
        return Match(COUNT)
    for number, rule in enumerate(policy.get("rules") or []):
        if rule.get("onExitCodes") is not None:
            why = _exit_code(rule["onExitCodes"], pod)
        else:
            why = _condition(rule.get("onPodConditions") or [], pod)
        if why:
            action = rule["action"]
            return Match(action, f"{why} matching {action} rule at index {number}")
    return Match(COUNT)


def is_ignored(job: Obj, pod: Obj) -> bool:
    """Return whether the policy ignores the failure, or the pod goes on in a successor."""
    return match(job, pod).action == IGNORE or goes_on(pod)


def goes_on(pod: Obj) -> bool:
    """Return whether the pod met its job's time limit, and wants a successor for that."""
    met = condition_of(pod, TIME_LIMIT) or {}
    is_asked = annotations_of(pod).get(ON_TIMEOUT) == "successor"
    return is_asked and phase_of(pod) == "Failed" and met.get("status") == "True"


def _exit_code(rule: Obj, pod: Obj) -> str:
    status = pod.get("status") or {}
    statuses = (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or [])
    for one in statuses:
        name = one.get("name")
        if rule.get("containerName") and rule["containerName"] != name:
            continue
        terminated = (one.get("state") or {}).get("terminated")
        if terminated is None or terminated.get("exitCode", 0) == 0:
            continue
        code = terminated["exitCode"]
        is_listed = code in (rule.get("values") or [])
        if is_listed == (rule.get("operator") == "In"):
            return f"Container {name} for pod {key_of(pod)} failed with exit code {code}"
    return ""


def _condition(patterns: list[Obj], pod: Obj) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or []
    for one in conditions:
        for pattern in patterns:
            if (one["type"], one["status"]) == (pattern["type"], pattern.get("status", "True")):
                return f"Pod {key_of(pod)} has condition {one['type']}"
    return ""
