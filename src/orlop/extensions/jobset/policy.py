"""Decides when a JobSet is done, has failed, or is made again; and how far its Jobs have come.

Asked by the JobSet controller. Pure. As the JobSet project documents its policies: the first
failure is judged by the first rule that fits it, and without a rule the whole set is made again as
long as it may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...api.objects import Obj, condition_of, labels_of, meta
from ...api.patterns import PatternError, TooMuchWork, compiled
from ...controllers.framework.status import is_true
from .children import JOB_INDEX, REPLICATED_JOB, pods_of, replicas, replicated, restarts


class End(NamedTuple):
    """The end of a JobSet."""

    type: str  # Completed or Failed
    reason: str
    message: str


class Again(NamedTuple):
    """Says what is made again: the whole set, or one Job of it."""

    job: Obj | None
    counts: bool  # towards maxRestarts
    message: str


def end_of(job: Obj) -> str:
    """Return Complete, Failed, or empty while it goes on."""
    conditions = (job.get("status") or {}).get("conditions") or []
    return next((kind for kind in ("Complete", "Failed") if is_true(conditions, kind)), "")


def is_finished(jobset: Obj) -> bool:
    conditions = (jobset.get("status") or {}).get("conditions") or []
    return is_true(conditions, "Completed") or is_true(conditions, "Failed")


def finished_time(jobset: Obj) -> str | None:
    for kind in ("Completed", "Failed"):
        found = condition_of(jobset, kind)
        if found is not None and found["status"] == "True":
            return str(found["lastTransitionTime"])
    return None


def judge(jobset: Obj, jobs: Sequence[Obj]) -> End | Again | None:
    """Return what the ends of its Jobs mean for the set; None: it goes on."""
    failed = [job for job in jobs if end_of(job) == "Failed"]
    if failed:
        return _on_failure(jobset, min(failed, key=_failed_at))
    if _has_succeeded(jobset, jobs):
        return End("Completed", "AllJobsCompleted", "jobset completed successfully")
    return None


def _failed_at(job: Obj) -> tuple[str, str]:
    told = condition_of(job, "Failed") or {}
    return str(told.get("lastTransitionTime", "")), str(meta(job)["name"])


def _has_succeeded(jobset: Obj, jobs: Sequence[Obj]) -> bool:
    policy = jobset["spec"].get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [one["name"] for one in replicated(jobset)]
    wanted = sum(replicas(one) for one in replicated(jobset) if one["name"] in targets)
    done = [job for job in jobs if end_of(job) == "Complete" and _of(job) in targets]
    return bool(done) if policy.get("operator") == "Any" else len(done) >= wanted > 0


def _of(job: Obj) -> str:
    return labels_of(job).get(REPLICATED_JOB, "")


def _on_failure(jobset: Obj, job: Obj) -> End | Again:
    policy = jobset["spec"].get("failurePolicy")
    first = f"(first failed job: {meta(job)['name']})"
    if policy is None:
        words = f"jobset failed due to one or more job failures {first}"
        return End("Failed", "FailedJobs", words)
    rule = _rule_for(policy, job)
    action = rule["action"] if rule is not None else "RestartJobSet"
    if action == "FailJobSet":
        words = f"jobset failed due to FailJobSet failure policy action {first}"
        return End("Failed", "FailJobSetFailurePolicyAction", words)
    counts = not action.endswith("IgnoreMaxRestarts")
    if counts and counted(jobset) >= int(policy.get("maxRestarts") or 0):
        words = f"jobset failed due to reaching max number of restarts {first}"
        return End("Failed", "ReachedMaxRestarts", words)
    message = f"restarting by failure policy action {action} {first}"
    return Again(job if action.startswith("RestartJobA") or action == "RestartJob" else None,
                 counts, message)  # fmt: skip


def counted(jobset: Obj) -> int:
    """Return how many restarts count towards the limit."""
    status = jobset.get("status") or {}
    single: list[int] = [
        sum(one.get("jobRestartsCountTowardsMax") or [])
        for one in status.get("replicatedJobsStatus") or []
    ]
    return int(status.get("restartsCountTowardsMax") or 0) + sum(single)


def _rule_for(policy: Obj, job: Obj) -> Obj | None:
    told = condition_of(job, "Failed") or {}
    reason, message = str(told.get("reason", "")), str(told.get("message", ""))
    for rule in policy.get("rules") or []:
        reasons = rule.get("onJobFailureReasons") or [reason]
        patterns = rule.get("onJobFailureMessagePatterns") or [""]
        targets = rule.get("targetReplicatedJobs") or [_of(job)]
        fits = any(_matches(pattern, message) for pattern in patterns)
        if reason in reasons and fits and _of(job) in targets:
            found: Obj = rule
            return found
    return None


def _matches(pattern: str, message: str) -> bool:
    """Match an expression; an invalid one, or one that is too large, matches nothing."""
    try:
        return compiled(pattern).matches(message)
    except (PatternError, TooMuchWork):
        return False


def after(jobset: Obj, again: Again) -> Obj:
    """Return the counters of the status once something is to be made again."""
    status = {**(jobset.get("status") or {})}
    if again.job is None:
        status["restarts"] = restarts(jobset) + 1
        if again.counts:
            former = int(status.get("restartsCountTowardsMax") or 0)
            status["restartsCountTowardsMax"] = former + 1
        return status
    index = int(labels_of(again.job)[JOB_INDEX])
    names = ["jobRestarts", *(["jobRestartsCountTowardsMax"] if again.counts else [])]
    changed = []
    for one in status.get("replicatedJobsStatus") or []:
        if one["name"] == _of(again.job):
            one = {**one, **{name: _raised(one.get(name) or [], index) for name in names}}
        changed.append(one)
    status["replicatedJobsStatus"] = changed
    return status


def _raised(counts: list[int], index: int) -> list[int]:
    padded = [*counts, *([0] * (index + 1 - len(counts)))]
    return [*padded[:index], padded[index] + 1, *padded[index + 1 :]]


def progress(jobset: Obj, jobs: Sequence[Obj]) -> list[Obj]:
    """Return `replicatedJobsStatus`; the counters of restarts are kept."""
    former = {
        one["name"]: one for one in (jobset.get("status") or {}).get("replicatedJobsStatus") or []
    }
    return [_progress_of(one, jobs, former.get(one["name"]) or {}) for one in replicated(jobset)]


def _progress_of(one: Obj, jobs: Sequence[Obj], former: Obj) -> Obj:
    own = [job for job in jobs if _of(job) == one["name"]]
    going = [job for job in own if not end_of(job)]
    statuses = [job.get("status") or {} for job in going]
    expected = pods_of(one)
    ready = sum(
        int(s.get("ready") or 0) + int(s.get("succeeded") or 0) >= expected for s in statuses
    )
    kept = ("jobRestarts", "jobRestartsCountTowardsMax")
    return {
        "name": one["name"],
        "ready": ready,
        "succeeded": sum(end_of(job) == "Complete" for job in own),
        "failed": sum(end_of(job) == "Failed" for job in own),
        "active": sum(bool(s.get("active")) for s in statuses),
        "suspended": sum(bool(job["spec"].get("suspend")) for job in going),
        **{name: former[name] for name in kept if name in former},
    }


def may_start(jobset: Obj, one: Obj, reached: Sequence[Obj]) -> bool:
    """Return whether the Jobs of a set may start, as far as those before it have come."""
    by_name = {status["name"]: status for status in reached}
    every = {each["name"]: each for each in replicated(jobset)}
    for wait in one.get("dependsOn") or []:
        known, status = every.get(wait["name"]), by_name.get(wait["name"])
        if known is None or status is None or not _has_come(known, status, wait["status"]):
            return False
    policy = jobset["spec"].get("startupPolicy") or {}
    if policy.get("startupPolicyOrder") != "InOrder":
        return True
    names = list(every)
    before = names[: names.index(one["name"])]
    return all(_has_come(every[name], by_name[name], "Ready") for name in before)


def _has_come(one: Obj, status: Obj, wanted: str) -> bool:
    if wanted == "Complete":
        return int(status["succeeded"]) >= replicas(one)
    return int(status["ready"]) + int(status["succeeded"]) + int(status["failed"]) >= replicas(one)
