"""Decides how a pod ended, from the agent's last word and the engine's: the table of end states.

Asked whenever a status is computed. The agent's word on exit codes stands wherever the pod ended by
itself; where the engine ended it, the engine says why. Unknown is not an end. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...engine import Job, JobState
from ...wellknown import SLURM_PREFIX, TIME_LIMIT
from ..agents.journal import Journal, Record


@dataclass(frozen=True, slots=True)
class Ending:
    """The pod's last phase, and what its containers without a last word are told to be."""

    phase: str
    reason: str = ""
    message: str = ""
    disruption: str = ""  # reason of the condition DisruptionTarget, where it applies
    lost_reason: str = "ContainerStatusUnknown"
    is_oom: bool = False
    is_time_limit: bool = False


def ending_of(
    journal: Journal,
    job: Job | None,
    *,
    has_vanished: bool = False,
    is_deleting: bool = False,
    output: str = "",
) -> Ending | None:
    """Return how the pod ended; None while it has not, or while it cannot be known.

    1. What ended by itself, or by the kubelet's own order, ended as its agent says.
    2. What the engine told to end, or somebody killed, is over when the engine says why.
    3. Without the agent's last word the engine's state decides.
    """
    finished = None if is_requeued(journal, job) else journal.finished
    if finished is not None and (is_deleting or not _awaits_verdict(journal)):
        return _as_told(finished)
    if job is not None and job.state.has_ended:
        return _by_engine(journal, job, finished, is_deleting, output)
    if has_vanished:
        return _as_told(finished) if finished is not None else _vanished(job, output)
    return None


def is_requeued(journal: Journal, job: Job | None) -> bool:
    """Return whether the engine has put the job back into its queue since the agent last started.

    The counts decide and not the state: an answer of the engine may be older than the journal.
    """
    return (
        job is not None and journal.started is not None and job.restarts > journal.started.restart
    )


def failed_when_warned(journal: Journal) -> bool:
    """Return whether it failed by itself, but was told before that its time limit is near."""
    told, finished = journal.conditions.get(TIME_LIMIT), journal.finished
    is_warned = told is not None and told.status == "True"
    has_failed = finished is not None and finished.phase == "Failed"
    return is_warned and has_failed and journal.terminating is None


def may_be_limit(journal: Journal) -> bool:
    """Return whether a pod that is over may be so because of its time limit, as far as its agent
    knows.
    """
    return _awaits_verdict(journal) or failed_when_warned(journal)


def was_killed(record: Record) -> bool:
    """Return whether a container was ended by a KILL that the agent cannot explain."""
    return record.state == "terminated" and record.exitCode == 137 and record.reason == "Error"


def _awaits_verdict(journal: Journal) -> bool:
    """Return whether only the engine knows why the pod ended: a time limit, scancel, the memory."""
    if journal.terminating is not None:
        return journal.was_signalled
    current = (container.current for container in journal.containers.values())
    return any(record is not None and was_killed(record) for record in current)


def _as_told(finished: Record) -> Ending:
    disruption = "TerminationByKubelet" if finished.reason == "Evicted" else ""
    return Ending(finished.phase, finished.reason, finished.message, disruption)


def _by_engine(
    journal: Journal, job: Job, finished: Record | None, is_deleting: bool, output: str
) -> Ending:
    state = job.state
    if state in (JobState.COMPLETED, JobState.FAILED):
        return _as_told(finished) if finished is not None else _no_last_word(journal, job, output)
    if state is JobState.TIMEOUT:
        words = f"job {job.id} reached its time limit; ask for more with {SLURM_PREFIX}time"
        reason = "DeadlineExceeded"
        return Ending(
            "Failed", reason, job.message or words, lost_reason=reason, is_time_limit=True
        )
    if state is JobState.OUT_OF_MEMORY:
        words = f"job {job.id} used more memory than it asked for"
        message = f"{words}; raise the memory requests of its containers"
        return Ending("Failed", "OOMKilled", message, lost_reason="OOMKilled", is_oom=True)
    if state is JobState.NODE_FAIL:
        return _failed("NodeLost", f"{_nodes(journal, job)} failed under job {job.id}")
    if state is JobState.PREEMPTED:
        words = f"job {job.id} was preempted by one of higher priority"
        return _failed("PreemptionByScheduler", words, disrupted=True)
    if is_deleting:
        return Ending("Failed", lost_reason="Deleted", message="the pod was deleted")
    words = f"job {job.id} was cancelled, not by deleting the pod (scancel, or an administrator)"
    return _failed("Cancelled", words, disrupted=True)


def _failed(reason: str, message: str, *, disrupted: bool = False) -> Ending:
    disruption = reason if disrupted else ""
    return Ending("Failed", reason, message, disruption=disruption, lost_reason=reason)


def _no_last_word(journal: Journal, job: Job, output: str) -> Ending:
    state = job.state.value + (f", {job.reason}" if job.reason not in ("", "None") else "")
    if journal.started is None:
        words = f"job {job.id} ended ({state}) before its agent began"
    else:
        words = f"job {job.id} ended ({state}) and its agent left no last word"
    return Ending("Failed", "JobFailed", words + _printed(output), lost_reason="JobFailed")


def _vanished(job: Job | None, output: str) -> Ending:
    which = f"job {job.id}" if job is not None else "the pod's job"
    words = f"{which} is not known any more and its agent left no last word"
    return Ending("Failed", "JobVanished", words + _printed(output), lost_reason="JobVanished")


def _printed(output: str) -> str:
    return f"; the job printed: {output}" if output else "; the job printed nothing"


def _nodes(journal: Journal, job: Job) -> str:
    names = job.nodes or ((journal.started.node,) if journal.started is not None else ())
    if not names:
        return "a node"
    return f"node {names[0]}" if len(names) == 1 else f"one of the nodes {', '.join(names)}"
