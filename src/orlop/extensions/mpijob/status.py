"""Computes the status of an MPIJob in the MPI operator's words: conditions and replica counts.

Asked by the MPIJob controller after it has looked and acted. Pure: the moment is passed in. The
launcher's Job decides how the job ends; workers only count, unless one was evicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...api.objects import Obj, condition_of, meta, phase_of
from ...controllers.framework.status import is_true
from ..training.run_policy import is_suspended
from ..training.status import News, Statement
from .children import labels

_BACKOFF = "BackoffLimitExceeded"


class Seen(NamedTuple):
    """The objects of an MPIJob at one moment."""

    launcher: Obj | None  # its Job
    launchers: Sequence[Obj]  # the pods of that
    workers: Sequence[Obj]


def observe(job: Obj, seen: Seen, now: float) -> tuple[Obj, list[News]]:
    """Return the new status, and what is to be told about it."""
    statement = Statement(job, now)
    statement.begin()
    title = statement.title
    _launcher(statement, seen)
    running = _workers(statement, seen)
    if statement.is_over:
        return statement.status, statement.news
    if is_suspended(job):
        statement.say("Running", "False", "MPIJobSuspended", f"{title} is suspended.")
    elif running and running == len(seen.workers) + 1:
        statement.say("Running", "True", "MPIJobRunning", f"{title} is running.", "Normal")
    return statement.status, statement.news


def _launcher(statement: Statement, seen: Seen) -> None:
    """Set how the launcher is, and with it the job."""
    job, title = seen.launcher, statement.title
    if job is None:
        return
    status = job.get("status") or {}
    conditions: list[Obj] = status.get("conditions") or []
    failed = int(status.get("failed") or 0)
    selector = labels(statement.job, "launcher")
    if is_true(conditions, "Complete"):
        statement.count("Launcher", selector, succeeded=1, failed=failed)
        if status.get("completionTime"):
            statement.status.setdefault("completionTime", status["completionTime"])
        statement.end("Succeeded", "MPIJobSucceeded", f"{title} successfully completed.")
    elif is_true(conditions, "Failed"):
        statement.count("Launcher", selector, failed=failed)
        statement.end("Failed", *_failure(job, seen.launchers, title))
    else:
        active = sum(phase_of(pod) == "Running" for pod in seen.launchers)
        statement.count("Launcher", selector, active=active, failed=failed)
        if failed and not active:
            message = f"{title} is restarting: its launcher has failed {failed} time(s)."
            statement.say("Restarting", "True", "MPIJobRestarting", message, "Warning")
        elif active and statement.says("Restarting"):
            statement.say("Restarting", "False", "MPIJobRunning", f"{title} is running.")


def _failure(job: Obj, launchers: Sequence[Obj], title: str) -> tuple[str, str]:
    """Return why the launcher's Job failed, with the last pod's own words where it gave up."""
    told = condition_of(job, "Failed") or {}
    reason = str(told.get("reason") or "MPIJobFailed")
    message = str(told.get("message") or f"{title} has failed")
    if reason == _BACKOFF:
        failed = [pod for pod in launchers if phase_of(pod) == "Failed"]
        last = max(failed, key=lambda pod: str(meta(pod)["creationTimestamp"]), default=None)
        status = (last or {}).get("status") or {}
        reason = f"{reason}/{status['reason']}" if status.get("reason") else reason
        words = status.get("message")
        message = f"{message}: {words}" if words else message
    return reason, message


def _workers(statement: Statement, seen: Seen) -> int:
    """Count the workers; return how many pods of the job run, the launcher among them."""
    phases = [phase_of(pod) for pod in seen.workers]
    running, failed = phases.count("Running"), phases.count("Failed")
    succeeded = phases.count("Succeeded")
    selector = labels(statement.job, "worker")
    statement.count("Worker", selector, active=running, failed=failed, succeeded=succeeded)
    statuses = [pod.get("status") or {} for pod in seen.workers]
    evicted = sum(one.get("reason") == "Evicted" for one in statuses)
    if evicted and not statement.is_over:
        message = f"{evicted}/{len(phases)} workers are evicted"
        statement.end("Failed", "MPIJobEvicted", message)
    return running + any(phase_of(pod) == "Running" for pod in seen.launchers)
