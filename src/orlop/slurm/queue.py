"""What squeue and sacct print, as jobs of ours.

Used by `jobs`; pure. Lines that are no job of this cluster, or cannot be read, are left out: other
jobs of the user may have any name and comment they like.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..engine import Job, JobId, JobState
from . import durations, hostlist, job, reasons, states

SEPARATOR = "\x1f"
# -O, not -o: only there is the count of requeues. The comment last: it may be anything.
SQUEUE_FIELDS = (
    "JobID", "State", "Reason", "RestartCnt", "Partition", "NodeList", "SubmitTime", "StartTime",
    "EndTime", "TimeLimit", "Name", "Comment",
)  # fmt: skip
# -t all: jobs that ended within MinJobAge are still listed, with their last state.
SQUEUE = (
    "--me", "-h", "-t", "all", "-O",
    ",".join(f"{field}:{SEPARATOR}" for field in SQUEUE_FIELDS),
)  # fmt: skip

SACCT_FIELDS = (
    "JobIDRaw", "State", "Reason", "Partition", "NodeList", "Submit", "Start", "End", "Restarts",
    "JobName", "WorkDir",
)  # fmt: skip
# Restarts is newer than 22.05, so it is asked for only where it is known.
SACCT_OLD_FIELDS = tuple(field for field in SACCT_FIELDS if field != "Restarts")


def parse_squeue(text: str, cluster_uid: str) -> dict[JobId, Job]:
    """Jobs of this cluster; what sbatch was refused, which Slurm lists too, is none."""
    found: dict[JobId, Job] = {}
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) != len(SQUEUE_FIELDS) + 1:
            continue
        row = dict(zip(SQUEUE_FIELDS, fields, strict=False))
        uid = job.pod_uid_of(row["Comment"], cluster_uid)
        if uid and row["JobID"].isdigit() and not _was_refused(row):
            found[JobId(row["JobID"])] = _from_squeue(row, uid)
    return found


def _was_refused(row: dict[str, str]) -> bool:
    """slurmctld lists a job that it never accepted as failed at once."""
    return row["State"] == "FAILED" and row["Reason"] == "BadConstraints" and not row["NodeList"]


def _from_squeue(row: dict[str, str], uid: str) -> Job:
    state = states.state_of(row["State"])
    started = _time(row["StartTime"])
    is_waiting = state is JobState.PENDING
    return Job(
        id=JobId(row["JobID"]),
        state=state,
        pod_uid=uid,
        name=row["Name"],
        reason=_reason(row["State"], row["Reason"], state),
        message=message(row, state, started),
        partition=row["Partition"],
        nodes=hostlist.expand(row["NodeList"]),
        submitted=_time(row["SubmitTime"]),
        started=None if is_waiting else started,
        ended=_time(row["EndTime"]) if state.has_ended else None,
        restarts=int(row["RestartCnt"]) if row["RestartCnt"].isdigit() else 0,
    )


def _reason(word: str, reason: str, state: JobState) -> str:
    """Slurm's own word: why it waits, or how it ended."""
    slurm_state = states.word_of(word)
    if state is JobState.PENDING and slurm_state != "PENDING":
        return "Configuring" if slurm_state in ("CONFIGURING", "POWER_UP_NODE") else slurm_state
    if state in (JobState.RUNNING, JobState.COMPLETING):
        return ""
    return reasons.word_of(reason) or (slurm_state if state.has_ended else "")


def message(row: dict[str, str], state: JobState, expected: float | None) -> str:
    """A sentence for people; empty while the job runs."""
    job_id, partition = row["JobID"], row["Partition"]
    reason = _reason(row["State"], row["Reason"], state)
    if state is JobState.PENDING:
        plain, remedy = reasons.in_words(reason or "None")
        parts = [f"job {job_id} waits in partition {partition}"]
        parts += [f": {plain}"] if plain else [f": {row['Reason']}"]
        parts += [f"; {remedy.replace('JOBID', job_id)}"] if remedy else []
        parts += [f"; expected to start about {_minute(expected)}"] if expected else []
        return "".join(parts)
    if state is JobState.TIMEOUT:
        limit = _limit_in_words(row.get("TimeLimit", ""))
        return f"job {job_id} reached its time limit{limit}; ask for more with slurm.orlop.dev/time"
    if state.has_ended and state is not JobState.COMPLETED:
        return f"job {job_id} in partition {partition} ended as {states.word_of(row['State'])}"
    return ""


def _limit_in_words(text: str) -> str:
    try:
        limit = durations.seconds(text)
    except ValueError:
        return ""
    return f" of {durations.in_words(limit)}" if limit else ""


def parse_sacct(text: str, fields: tuple[str, ...] = SACCT_OLD_FIELDS) -> dict[JobId, Job]:
    """The last word of the accounting on each job; a requeued job's newest line comes last."""
    found: dict[JobId, Job] = {}
    for row in _sacct_rows(text, fields):
        state = states.state_of(row["State"])
        job_id = JobId(row["JobIDRaw"])
        restarts = row.get("Restarts", "")
        found[job_id] = Job(
            id=job_id,
            # Gone from squeue, and yet not ended: the accounting has not heard of its end.
            state=state if state.has_ended else JobState.UNKNOWN,
            name=row["JobName"],
            reason=_reason(row["State"], row["Reason"], state),
            message=message({**row, "JobID": job_id}, state, None) if state.has_ended else "",
            partition=row["Partition"],
            nodes=hostlist.expand(row["NodeList"]),
            submitted=_time(row["Submit"]),
            started=_time(row["Start"]),
            ended=_time(row["End"]),
            restarts=int(restarts) if restarts.isdigit() else 0,
        )
    return found


def job_in_folder(text: str, folder: str, fields: tuple[str, ...]) -> JobId | None:
    """The newest job that sacct lists with that working directory."""
    rows = [row for row in _sacct_rows(text, fields) if row["WorkDir"] == folder]
    return JobId(rows[-1]["JobIDRaw"]) if rows else None


def _sacct_rows(text: str, fields: tuple[str, ...]) -> Iterable[dict[str, str]]:
    for line in text.splitlines():
        values = line.split(SEPARATOR)
        if len(values) == len(fields) and values[0].isdigit():
            yield dict(zip(fields, values, strict=True))


def _time(text: str) -> float | None:
    return float(text) if text.isdigit() and text != "0" else None


def _minute(moment: float) -> str:
    """To the minute: Slurm's estimate moves, and each change would be a change of the pod."""
    return time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(moment))
