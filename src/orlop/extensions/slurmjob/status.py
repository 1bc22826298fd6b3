"""Computes the status of a SlurmJob from what Slurm says of its job, or of its array's tasks.

Called by the controllers that write it; pure. Slurm's words stay as they are in `state` and
`reason`; `phase` and the conditions say the same in Kubernetes' words, so that `kubectl wait` works
as it does for a Job.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...api.objects import Obj
from ...api.times import rfc3339
from ...controllers.framework.status import condition, with_condition, without_condition
from ...engine import JobState
from ...slurm.query import pending_reasons
from ...slurm.query.user_jobs import UserJob
from .kinds import ENDED, FAILED, PENDING, RUNNING, SUCCEEDED

SUBMITTED, COMPLETE, IS_FAILED = "Submitted", "Complete", "Failed"
_AT_WORK = (JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING)


def phase_of(state: JobState) -> str:
    """Return Kubernetes' word; empty where Slurm's says nothing."""
    if state is JobState.PENDING:
        return PENDING
    if state in _AT_WORK:
        return RUNNING
    if state is JobState.COMPLETED:
        return SUCCEEDED
    return FAILED if state.has_ended else ""


def foremost(tasks: Sequence[UserJob]) -> UserJob:
    """Return the task that speaks for all: one at work, else a waiting, else a failed one."""
    ranks = {RUNNING: 0, PENDING: 1, "": 1, FAILED: 2, SUCCEEDED: 3}
    return min(tasks, key=lambda task: ranks[phase_of(task.state)])


def has_ended(tasks: Sequence[UserJob]) -> bool:
    return all(task.state.has_ended for task in tasks)


def observed(former: Obj, tasks: Sequence[UserJob], total: int, now: float) -> Obj:
    """Return the status after Slurm has said this; `total` tasks has the array, 0 if it is none."""
    first = foremost(tasks)
    phase = phase_of(first.state) or former.get("phase") or PENDING
    status: Obj = {
        **former,
        "phase": phase,
        "state": first.word,
        "reason": first.reason,
        "message": _message(first),
        "jobName": first.name,
        "partition": first.partition,
        "account": first.account,
        "qos": first.qos,
        "timeLimit": first.limit,
        "nodes": first.nodes,
        "cpus": first.cpus,
        "nodeList": ",".join(dict.fromkeys(task.node_list for task in tasks if task.node_list)),
        "submitTime": _stamp([task.submitted for task in tasks], min),
        "startTime": _stamp([task.started for task in tasks], min),
    }
    if phase in ENDED:
        status["endTime"] = _stamp([task.ended for task in tasks], max)
        status["exitCode"] = max(task.exit_code for task in tasks)
        status["signal"] = max(task.signal for task in tasks)
    if total:
        status["arrayTasks"] = _counts(tasks, total)
    status = {key: value for key, value in status.items() if value not in ("", None)}
    if not status.get("signal"):
        status.pop("signal", None)
    status["conditions"] = _conditions(former, first, phase, now)
    return status


def _stamp(times: list[float | None], which: object) -> str:
    known = [moment for moment in times if moment is not None]
    if not known:
        return ""
    return rfc3339(min(known) if which is min else max(known))


def _counts(tasks: Sequence[UserJob], total: int) -> Obj:
    phases = [phase_of(task.state) for task in tasks]
    return {
        "total": total,
        "running": phases.count(RUNNING),
        "succeeded": phases.count(SUCCEEDED),
        "failed": phases.count(FAILED),
        "pending": total - sum(phases.count(one) for one in (RUNNING, SUCCEEDED, FAILED)),
    }


def _message(job: UserJob) -> str:
    if job.state is JobState.PENDING:
        plain, remedy = pending_reasons.in_words(job.reason or "None")
        words = plain or job.reason
        rest = f"; {remedy.replace('JOBID', job.id)}" if remedy else ""
        return f"job {job.id} waits in partition {job.partition}: {words}{rest}"
    if not job.state.has_ended or job.state is JobState.COMPLETED:
        return ""
    how = f" by signal {job.signal}" if job.signal else ""
    code = f" with exit code {job.exit_code}" if job.exit_code else ""
    return f"job {job.id} ended as {job.word}{code}{how}"


def accepted(former: Obj, number: str, now: float) -> list[Obj]:
    """Return the conditions, with the one that says that sbatch has taken it."""
    words = f"sbatch has accepted it as job {number}"
    one = condition(SUBMITTED, "True", "Accepted", words, now)
    return with_condition(former.get("conditions") or [], one)


def _conditions(former: Obj, job: UserJob, phase: str, now: float) -> list[Obj]:
    conditions = accepted(former, job.number, now)
    if phase == SUCCEEDED:
        return with_condition(conditions, condition(COMPLETE, "True", job.word, "", now))
    if phase == FAILED:
        reason = job.word or "UNKNOWN"
        return with_condition(conditions, condition(IS_FAILED, "True", reason, _message(job), now))
    return without_condition(without_condition(conditions, COMPLETE), IS_FAILED)


def waiting(former: Obj, reason: str, message: str, now: float) -> Obj:
    """Return the status of one that is not handed to sbatch yet, and why."""
    conditions = with_condition(
        former.get("conditions") or [], condition(SUBMITTED, "False", reason, message, now)
    )
    kept = {**former, "phase": PENDING, "reason": reason, "message": message}
    return {**kept, "conditions": conditions}


def refused(former: Obj, reason: str, message: str, now: float, *, state: str = "") -> Obj:
    """Return the status of one that ended without Slurm, or whose end Slurm has forgotten."""
    conditions = with_condition(
        former.get("conditions") or [], condition(IS_FAILED, "True", reason, message, now)
    )
    words = {"phase": FAILED, "reason": reason, "message": message, "endTime": rfc3339(now)}
    return {**former, **words, **({"state": state} if state else {}), "conditions": conditions}
