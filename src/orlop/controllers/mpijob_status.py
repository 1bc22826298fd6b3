"""What is known of an MPIJob, in the words of the MPI operator: conditions and replica counts.

Asked by the MPIJob controller after it has looked and acted. Pure: the moment is passed in. The
launcher's Job decides how the job ends; workers only count, unless one was evicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..api.objects import Obj, condition_of, meta, phase_of
from ..api.times import rfc3339
from .mpijob_parts import JOB_NAME, JOB_ROLE, OPERATOR, OPERATOR_NAME, is_suspended
from .status import condition, is_true, with_condition

EventType = Literal["Normal", "Warning"]
MAX_MESSAGE = 1024
_BACKOFF = "BackoffLimitExceeded"


class News(NamedTuple):
    """Something that is told in an Event."""

    type: EventType
    reason: str
    message: str


class Seen(NamedTuple):
    """What there is of an MPIJob."""

    launcher: Obj | None  # its Job
    launchers: Sequence[Obj]  # the pods of that
    workers: Sequence[Obj]


def is_finished(job: Obj) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return is_true(conditions, "Succeeded") or is_true(conditions, "Failed")


def finished_time(job: Obj) -> str | None:
    """When it ended, as its status has it."""
    for kind in ("Succeeded", "Failed"):
        found = condition_of(job, kind)
        if found is not None and found["status"] == "True":
            return str(found["lastTransitionTime"])
    return None


class _Statement:
    """The status as it is to be, and what is to be told of it."""

    def __init__(self, job: Obj, now: float) -> None:
        self.job, self.now = job, now
        self.status: Obj = {**(job.get("status") or {})}
        self.news: list[News] = []

    def say(
        self, kind: str, status: str, reason: str, message: str, told: EventType | None = None
    ) -> bool:
        """Set a condition; True where that is new. `told` is the type of its Event, if any."""
        former: list[Obj] = self.status.get("conditions") or []
        new = {**condition(kind, status, reason, message, self.now)}
        new["lastUpdateTime"] = new["lastTransitionTime"]
        changed = with_condition(former, new)
        is_news = changed != former
        # The last to change comes last, which is what `kubectl get` shows.
        changed.sort(key=lambda one: one["type"] == kind and is_news)
        self.status["conditions"] = changed
        if is_news and told is not None:
            self.news.append(News(told, reason, message))
        return bool(is_news)

    def count(self, role: str, **numbers: int) -> None:
        counts = {name: number for name, number in numbers.items() if number}
        statuses = {**(self.status.get("replicaStatuses") or {}), role: counts}
        name = meta(self.job)["name"]
        pairs = {OPERATOR_NAME: OPERATOR, JOB_NAME: name, JOB_ROLE: role.lower()}
        statuses[role]["selector"] = ",".join(f"{key}={value}" for key, value in pairs.items())
        self.status["replicaStatuses"] = statuses


def observe(job: Obj, seen: Seen, now: float) -> tuple[Obj, list[News]]:
    """The new status, and what is to be told about it."""
    statement = _Statement(job, now)
    title = f"MPIJob {meta(job)['namespace']}/{meta(job)['name']}"
    if condition_of(job, "Created") is None:
        statement.say("Created", "True", "MPIJobCreated", f"{title} is created.", "Normal")
    _suspension(statement)
    if not is_suspended(job):
        statement.status.setdefault("startTime", rfc3339(now))
    _launcher(statement, seen, title)
    running = _workers(statement, seen)
    if is_finished({"status": statement.status}):
        return statement.status, statement.news
    if is_suspended(job):
        reason = "MPIJobSuspended"
        statement.say("Running", "False", reason, f"{title} is suspended.")
    elif running and running == len(seen.workers) + 1:
        statement.say("Running", "True", "MPIJobRunning", f"{title} is running.", "Normal")
    return statement.status, statement.news


def _suspension(statement: _Statement) -> None:
    if is_suspended(statement.job):
        statement.say("Suspended", "True", "MPIJobSuspended", "MPIJob suspended", "Normal")
    elif condition_of(statement.job, "Suspended") is not None:
        is_news = statement.say("Suspended", "False", "MPIJobResumed", "MPIJob resumed", "Normal")
        if is_news:
            statement.status["startTime"] = rfc3339(statement.now)


def _launcher(statement: _Statement, seen: Seen, title: str) -> None:
    """How the launcher is, and with it the job."""
    job = seen.launcher
    if job is None:
        return
    status = job.get("status") or {}
    conditions: list[Obj] = status.get("conditions") or []
    failed = int(status.get("failed") or 0)
    if is_true(conditions, "Complete"):
        statement.count("Launcher", succeeded=1, failed=failed)
        statement.status.setdefault("completionTime", status.get("completionTime"))
        _no_more(statement, title)
        message = f"{title} successfully completed."
        statement.say("Succeeded", "True", "MPIJobSucceeded", message, "Normal")
    elif is_true(conditions, "Failed"):
        statement.count("Launcher", failed=failed)
        statement.status.setdefault("completionTime", rfc3339(statement.now))
        _no_more(statement, title)
        reason, message = _failure(job, seen.launchers, title)
        statement.say("Failed", "True", reason, message, "Warning")
    else:
        active = sum(phase_of(pod) == "Running" for pod in seen.launchers)
        statement.count("Launcher", active=active, failed=failed)
        if failed and not active:
            message = f"{title} is restarting: its launcher has failed {failed} time(s)."
            statement.say("Restarting", "True", "MPIJobRestarting", message, "Warning")
        elif active and is_true(statement.status.get("conditions") or [], "Restarting"):
            statement.say("Restarting", "False", "MPIJobRunning", f"{title} is running.")


def _no_more(statement: _Statement, title: str) -> None:
    """What does not hold any more once a job is over."""
    for kind in ("Running", "Restarting"):
        if is_true(statement.status.get("conditions") or [], kind):
            statement.say(kind, "False", "MPIJobFinished", f"{title} is over.")


def _failure(job: Obj, launchers: Sequence[Obj], title: str) -> tuple[str, str]:
    """Why the launcher's Job failed, and with the last pod's own words where it gave up."""
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
    return reason, message[:MAX_MESSAGE]


def _workers(statement: _Statement, seen: Seen) -> int:
    """Count the workers; how many pods of the job run, the launcher among them."""
    phases = [phase_of(pod) for pod in seen.workers]
    running, failed = phases.count("Running"), phases.count("Failed")
    succeeded = phases.count("Succeeded")
    statement.count("Worker", active=running, failed=failed, succeeded=succeeded)
    statuses = [pod.get("status") or {} for pod in seen.workers]
    evicted = sum(one.get("reason") == "Evicted" for one in statuses)
    if evicted:
        message = f"{evicted}/{len(phases)} workers are evicted"
        statement.status.setdefault("completionTime", rfc3339(statement.now))
        _no_more(statement, "The MPIJob")
        statement.say("Failed", "True", "MPIJobEvicted", message, "Warning")
    return running + any(phase_of(pod) == "Running" for pod in seen.launchers)
