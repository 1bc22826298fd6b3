"""Decides whether a Job is over, and how: the rules of failing and succeeding, in upstream's order.

Asked in each reconcile of a Job. Pure. A verdict once told (conditions FailureTarget or
SuccessCriteriaMet) stands; it becomes Failed or Complete when the last pod has ended.
"""

from __future__ import annotations

from typing import NamedTuple

from ....api.objects import Obj, condition_of, phase_of
from . import failure_policy as policy
from .indexes import NO_INDEXES, IndexSet, failures_of, index_of, parse_indexes
from .view import JobView

FAILURE_TARGET, SUCCESS_CRITERIA_MET = "FailureTarget", "SuccessCriteriaMet"


class Verdict(NamedTuple):
    """The end of a Job: whether it failed or succeeded, and why."""

    type: str  # Failed or Complete
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """Return the condition that announces it."""
        return FAILURE_TARGET if self.type == "Failed" else SUCCESS_CRITERIA_MET


def judge(view: JobView) -> Verdict | None:
    """Return the verdict on a Job, or None while it goes on."""
    return (
        _standing(view)
        or _failed_by_policy(view)
        or _failed_by_backoff(view)
        or _failed_by_deadline(view)
        or _failed_by_index(view)
        or _succeeded_by_policy(view)
        or _succeeded(view)
    )


def _standing(view: JobView) -> Verdict | None:
    for interim, final in ((FAILURE_TARGET, "Failed"), (SUCCESS_CRITERIA_MET, "Complete")):
        told = condition_of(view.job, interim)
        if told is not None and told["status"] == "True":
            return Verdict(final, told.get("reason", ""), told.get("message", ""))
    return None


def _failed_by_policy(view: JobView) -> Verdict | None:
    if view.spec.get("podFailurePolicy") is None:
        return None
    for pod in view.tracked:
        match = policy.match(view.job, pod)
        if match.action == policy.FAIL_JOB:
            return Verdict("Failed", "PodFailurePolicy", match.message)
    return None


def _failed_by_backoff(view: JobView) -> Verdict | None:
    limit = int(view.spec.get("backoffLimit", 6))
    if view.failed > limit or _restarted_too_often(view, limit):
        message = "Job has reached the specified backoff limit"
        return Verdict("Failed", "BackoffLimitExceeded", message)
    return None


def _restarted_too_often(view: JobView, limit: int) -> bool:
    """Return whether the kubelet's restarts, failures under OnFailure, are too many."""
    if view.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(_restarts(pod) for pod in view.active if phase_of(pod) != "Unknown")
    return restarts > 0 if limit == 0 else restarts >= limit


def _restarts(pod: Obj) -> int:
    status = pod.get("status") or {}
    names = ("initContainerStatuses", "containerStatuses")
    return sum(one.get("restartCount", 0) for name in names for one in status.get(name) or [])


def deadline_left(view: JobView) -> float | None:
    """Return the seconds until activeDeadlineSeconds have passed; None without such a limit."""
    deadline = view.spec.get("activeDeadlineSeconds")
    if deadline is None or view.is_suspended or view.started is None:
        return None
    return view.started + float(deadline) - view.now


def _failed_by_deadline(view: JobView) -> Verdict | None:
    left = deadline_left(view)
    if left is None or left > 0:
        return None
    return Verdict("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")


def failed_indexes(view: JobView) -> IndexSet:
    """Return the indexes that have failed for good, by their own limit or by the policy."""
    limit = view.limit_per_index
    if limit is None:
        return NO_INDEXES
    completions = view.completions or 0
    counted = parse_indexes(str(view.status.get("failedIndexes", "")), completions)
    failed: set[int] = set()
    for pod in view.tracked:
        index = index_of(pod)
        if index is None or not view.is_in_range(pod) or not view.is_failed(pod):
            continue
        action = policy.match(view.job, pod).action
        if action == policy.FAIL_INDEX or (action == policy.COUNT and failures_of(pod) >= limit):
            failed.add(index)
    return (counted | IndexSet.of(failed)) - view.succeeded_indexes


def _failed_by_index(view: JobView) -> Verdict | None:
    failed = failed_indexes(view)
    most = view.spec.get("maxFailedIndexes")
    if most is not None and len(failed) > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Verdict("Failed", "MaxFailedIndexesExceeded", message)
    if failed and len(failed) + len(view.succeeded_indexes) >= (view.completions or 0):
        return Verdict("Failed", "FailedIndexes", "Job has failed indexes")
    return None


def _succeeded_by_policy(view: JobView) -> Verdict | None:
    rules = (view.spec.get("successPolicy") or {}).get("rules") or []
    for number, rule in enumerate(rules):
        counted = view.succeeded_indexes
        if rule.get("succeededIndexes") is not None:
            wanted = parse_indexes(rule["succeededIndexes"], view.completions or 0)
            counted = counted & wanted
            enough = rule.get("succeededCount", len(wanted))
        else:
            enough = rule["succeededCount"]
        if len(counted) >= enough:
            return Verdict("Complete", "SuccessPolicy", f"Matched rules at index {number}")
    return None


def _succeeded(view: JobView) -> Verdict | None:
    completions = view.completions
    if completions is None:
        is_over = view.succeeded > 0 and not view.active
    else:
        is_over = view.succeeded >= completions
    if not is_over:
        return None
    message = "Reached expected number of succeeded pods"
    return Verdict("Complete", "CompletionsReached", message)
