"""Computes the status of a PyTorchJob in the training operator's words; and what an end means.

Asked by the PyTorchJob controller. Pure: the moment is passed in. The master's success is the
job's, or that of all workers where there is no master; a pod that fails is made again where its
role's restart policy says so, until the limits of the run policy are reached.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...api import times
from ...api.objects import Obj, condition_of, is_deleting, meta, phase_of
from ..training.run_policy import is_lost, is_suspended, run_policy
from ..training.status import News, Statement
from .children import (
    CONTAINER,
    MASTER,
    WORKER,
    every,
    is_new_round,
    replicas,
    restart_policy,
    role_of,
    rounds,
    selector,
    specs,
)

RETRYABLE = 128  # exit codes from here on are of signals, or a program's own word for "again"
_FIRST_BACKOFF = 10.0  # seconds before pods are made again, doubling with each time
_LONGEST_BACKOFF = 360.0


def exit_code(pod: Obj) -> int | None:
    """Return the exit code of the program, if it has one."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    for one in statuses:
        ended = (one.get("state") or {}).get("terminated")
        if one.get("name") == CONTAINER and ended is not None:
            return int(ended.get("exitCode", 0))
    return None


def is_retried(job: Obj, pod: Obj) -> bool:
    """Return whether a failed pod is made again; if Slurm ended it, no exit code tells why."""
    policy = restart_policy(job, role_of(pod))
    if policy != "ExitCode":
        return policy != "Never"
    code = None if is_lost(pod) else exit_code(pod)
    return code is None or code >= RETRYABLE


def failed_now(pods: Sequence[Obj]) -> list[Obj]:
    """Return those that have failed and that nothing has been done about."""
    return [pod for pod in pods if phase_of(pod) == "Failed" and not is_deleting(pod)]


def counted(job: Obj, role: str) -> int:
    """Return how many of a role's pods have failed and were made again."""
    statuses = (job.get("status") or {}).get("replicaStatuses") or {}
    return int((statuses.get(role) or {}).get("failed") or 0)


def restarts(job: Obj, pods: Sequence[Obj]) -> int:
    """Return how often anything was started anew: containers in their pods, and whole pods."""
    statuses = [
        status
        for pod in pods
        for status in (pod.get("status") or {}).get("containerStatuses") or []
    ]
    return rounds(job) + sum(int(status.get("restartCount") or 0) for status in statuses)


def seconds_left(job: Obj, now: float) -> float | None:
    """Return seconds until the job has been active for too long; None without such a limit."""
    limit = run_policy(job).get("activeDeadlineSeconds")
    started = (job.get("status") or {}).get("startTime")
    if limit is None or not started or is_suspended(job):
        return None
    return times.parse(started) + float(limit) - now


def backoff_left(job: Obj, now: float) -> float:
    """Return seconds until pods may be made again: 10, 20, 40 ... since some failed, like Jobs."""
    told = condition_of(job, "Restarting")
    if told is None or told["status"] != "True":
        return 0.0
    delay = min(_FIRST_BACKOFF * 2.0 ** min(rounds(job) - 1, 30), _LONGEST_BACKOFF)
    return times.parse(told["lastUpdateTime"]) + delay - now


def verdict(job: Obj, pods: Sequence[Obj], now: float) -> tuple[str, str] | None:
    """Return how the job ends now: Succeeded or Failed, and why; None: it goes on."""
    title = f"PyTorchJob {meta(job)['name']}"
    decisive = MASTER if MASTER in specs(job) else WORKER
    done = sum(role_of(pod) == decisive and phase_of(pod) == "Succeeded" for pod in pods)
    if done >= replicas(job, decisive) > 0:
        return "Succeeded", f"{title} is successfully completed."
    failed = failed_now(pods)
    for pod in failed:
        if not is_retried(job, pod):
            role = role_of(pod)
            number = sum(role_of(one) == role for one in failed)
            return "Failed", f"{title} is failed because {number} {role} replica(s) failed."
    limit = run_policy(job).get("backoffLimit")
    so_far = restarts(job, pods) + is_new_round(job, failed)
    if limit is not None and so_far > int(limit):
        words = f"{title} has failed because it has reached the specified backoff limit"
        return "Failed", words + _last_words(failed)
    left = seconds_left(job, now)
    if left is not None and left <= 0:
        words = f"{title} has failed because it was active longer than specified deadline"
        return "Failed", words
    return None


def _last_words(failed: Sequence[Obj]) -> str:
    for pod in failed:
        words = (pod.get("status") or {}).get("message")
        if words:
            return f": {words}"
    return ""


def observe(
    job: Obj, pods: Sequence[Obj], end: tuple[str, str] | None, again: Sequence[Obj], now: float
) -> tuple[Obj, list[News]]:
    """Return the status, and what is told; `again` are the failed pods that are made again."""
    statement = Statement(job, now)
    statement.begin()
    _count(statement, pods, end is not None, again)
    title = f"PyTorchJob {meta(job)['name']}"
    if end is not None:
        statement.end(end[0], f"PyTorchJob{end[0]}", end[1])
    elif is_suspended(job):
        if statement.says("Running"):
            words = f"{title} is suspended."
            statement.say("Running", "False", "PyTorchJobSuspended", words)
    elif again:
        role = role_of(again[0])
        number = sum(role_of(pod) == role for pod in again)
        words = f"{title} is restarting because {number} {role} replica(s) failed."
        statement.status["restarts"] = rounds(job) + is_new_round(job, again)
        if statement.says("Running"):
            statement.say("Running", "False", "PyTorchJobRestarting", words)
        statement.say("Restarting", "True", "PyTorchJobRestarting", words, "Warning")
        if is_new_round(job, again):
            statement.renew("Restarting")
    elif _is_running(job, pods, is_whole=statement.says("Restarting")):
        words = f"{title} is running."
        if statement.says("Restarting"):
            statement.say("Restarting", "False", "PyTorchJobRunning", words)
        statement.say("Running", "True", "PyTorchJobRunning", words, "Normal")
    return statement.status, statement.news


def _is_running(job: Obj, pods: Sequence[Obj], *, is_whole: bool) -> bool:
    """Return whether the master runs, or any worker without one; after a restart all of it must."""
    if is_whole:
        begun = [pod for pod in pods if phase_of(pod) in ("Running", "Succeeded")]
        return len(begun) >= every(job)
    decisive = MASTER if MASTER in specs(job) else WORKER
    return any(role_of(pod) == decisive and phase_of(pod) == "Running" for pod in pods)


def _count(statement: Statement, pods: Sequence[Obj], is_end: bool, again: Sequence[Obj]) -> None:
    """Count what has failed: pods that are made again are soon gone."""
    job = statement.job
    for role in specs(job):
        own = [pod for pod in pods if role_of(pod) == role and not is_deleting(pod)]
        phases = [phase_of(pod) for pod in own]
        lost = phases.count("Failed") if is_end else sum(role_of(pod) == role for pod in again)
        statement.count(
            role,
            selector(job, role),
            active=phases.count("Running"),
            succeeded=phases.count("Succeeded"),
            failed=counted(job, role) + lost,
        )


def left_over(job: Obj) -> Obj:
    """Return the status of a job whose remaining pods were deleted; they succeeded if it did."""
    status = {**(job.get("status") or {})}
    is_good = any(
        one["type"] == "Succeeded" and one["status"] == "True" for one in status["conditions"]
    )
    counts = {}
    for role, one in (status.get("replicaStatuses") or {}).items():
        active = int(one.get("active") or 0)
        kept = {name: value for name, value in one.items() if name != "active"}
        if active and is_good:
            kept["succeeded"] = int(one.get("succeeded") or 0) + active
        counts[role] = kept
    return {**status, "replicaStatuses": counts}
