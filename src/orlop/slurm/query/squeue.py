"""Reads what squeue and sacct print as jobs of ours.

Used by `queue`; pure. Lines that are no job of this cluster, or cannot be read, are left out: other
jobs of the user may have any name and comment they like.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...engine import Job, JobId, JobState
from .. import durations, hostlist, numbers, states
from ..numbers import DIGITS
from ..submit.job_arrays import Member
from ..submit.sbatch import part_of
from ..translate import job
from . import pending_reasons

SEPARATOR = "\x1f"
SIGNAL_SLACK = 60.0  # sbatch(1) --signal: "may be sent up to 60 seconds earlier"
# -O, not -o: only there is the count of requeues. The comment last: it may be anything.
SQUEUE_FIELDS = (
    "JobArrayID", "JobID", "State", "Reason", "RestartCnt", "Partition", "NodeList", "SubmitTime",
    "StartTime", "EndTime", "TimeLimit", "Account", "QOS", "NumNodes", "NumCPUs", "exit_code",
    "WorkDir", "Name", "Comment",
)  # fmt: skip
# -t all: jobs that ended within MinJobAge are still listed, with their last state.
# --all: also those in partitions that are hidden, or not for the user's groups.
SQUEUE = (
    "--me", "--local", "--all", "--array", "-h", "-t", "all", "-O",
    ",".join(f"{field}:{SEPARATOR}" for field in SQUEUE_FIELDS),
)  # fmt: skip

SACCT_FIELDS = (
    "JobID", "State", "Reason", "Partition", "NodeList", "Submit", "Start", "End", "Timelimit",
    "WorkDir", "JobName",
)  # fmt: skip
SACCT = ("-X", "-n", "-P", "--delimiter", SEPARATOR, "-o", ",".join(SACCT_FIELDS))

Lead = Callable[[str], float]
"""For a job's folder, how many seconds before its time limit its agent is told to end."""
Find = Callable[[str, str], Member | None]
"""For an array's comment and a task's number, the pod that it is."""

_LIMITED = (JobState.RUNNING, JobState.SUSPENDED)  # squeue's EndTime is when its limit ends it
_ID = re.compile(rf"({DIGITS})(?:_({DIGITS}))?")  # a job, or a task of an array


def no_lead(folder: str) -> float:
    return 0.0


def no_arrays(comment: str, task: str) -> Member | None:
    return None


class Listing:
    """Reads squeue's answers of one cluster, poll after poll.

    Mostly nothing changes between two polls, and of thousands of jobs few do: an answer that equals
    the last one is not read at all, and a line seen before is not read again.
    """

    def __init__(self, cluster_uid: str, lead: Lead = no_lead, find: Find = no_arrays) -> None:
        self._cluster_uid = cluster_uid
        self._lead = lead
        self._find = find
        self._known: dict[str, Job | None] = {}
        self._text = ""
        self._listed: dict[JobId, Job] = {}

    def read(self, text: str) -> dict[JobId, Job]:
        """Return the jobs of this cluster; those that sbatch was refused, which Slurm lists too,
        are left out.
        """
        if text != self._text:
            known = self._known
            self._known = {
                line: known[line] if line in known else self._job(line)
                for line in text.splitlines()
            }
            self._listed = {job.id: job for job in self._known.values() if job is not None}
            self._text = text
        return dict(self._listed)

    def _job(self, line: str) -> Job | None:
        fields = line.split(SEPARATOR)
        if len(fields) != len(SQUEUE_FIELDS) + 1:
            return None
        row = dict(zip(SQUEUE_FIELDS, fields, strict=False))
        uid = job.pod_uid_of(row["Comment"], self._cluster_uid)
        number = _ID.fullmatch(row["JobArrayID"])
        if not uid or number is None or was_refused(row):
            return None
        if number.group(2) is not None and job.array_of(row["Comment"]):
            member = self._find(row["Comment"], number.group(2))
            if member is None:
                return None
            uid, row["Name"] = member.uid, str(member.key)
        return _from_squeue(row, uid, self._lead)


def parse_squeue(text: str, cluster_uid: str, lead: Lead = no_lead) -> dict[JobId, Job]:
    """Parse one answer of squeue."""
    return Listing(cluster_uid, lead).read(text)


def was_refused(row: dict[str, str]) -> bool:
    """Return whether slurmctld refused the job: it lists a job that it did not accept as failed at
    once.
    """
    return row["State"] == "FAILED" and row["Reason"] == "BadConstraints" and not row["NodeList"]


def _from_squeue(row: dict[str, str], uid: str, lead: Lead) -> Job:
    started = numbers.moment(row["StartTime"])
    ended = numbers.moment(row["EndTime"])
    word = _final_word(row["State"], started, ended, row["TimeLimit"], row["WorkDir"], lead)
    state = states.state_of(word)
    reason = _reason(word, row["Reason"], state)
    about = _About(row["JobArrayID"], row["Partition"], row["TimeLimit"])
    return Job(
        id=JobId(row["JobArrayID"]),
        state=state,
        pod_uid=uid,
        name=row["Name"],
        reason=reason,
        message=about.message(state, word, reason, row["Reason"], started),
        partition=row["Partition"],
        nodes=_nodes(row["NodeList"]),
        submitted=numbers.moment(row["SubmitTime"]),
        started=None if state is JobState.PENDING else started,
        ended=ended if state.has_ended else None,
        is_hopeless=state is JobState.PENDING and pending_reasons.is_never(reason),
        ends=ended if state in _LIMITED and _limit(row["TimeLimit"]) else None,
        restarts=numbers.whole(row["RestartCnt"]) or 0,
    )


def _final_word(
    word: str, started: float | None, ended: float | None, limit: str, folder: str, lead: Lead
) -> str:
    """Return Slurm's state, but TIMEOUT for a job that failed because it was told to end ahead of
    its time limit: to Slurm it then ended by itself.
    """
    seconds = _limit(limit)
    if states.word_of(word) != "FAILED" or not (started and ended and seconds):
        return word
    ahead = lead(folder)
    # Slurm looks at limits now and then, so its signal may be early by as much.
    is_due = ended - started >= seconds - ahead - SIGNAL_SLACK
    return "TIMEOUT" if ahead and is_due else word


def _reason(word: str, reason: str, state: JobState) -> str:
    """Return Slurm's own word: why it waits, or how it ended."""
    slurm_state = states.word_of(word)
    if state is JobState.PENDING and slurm_state != "PENDING":
        return "Configuring" if slurm_state in ("CONFIGURING", "POWER_UP_NODE") else slurm_state
    if state in (JobState.RUNNING, JobState.COMPLETING):
        return ""
    if slurm_state == "TIMEOUT":
        return "TimeLimit"
    return pending_reasons.word_of(reason) or (slurm_state if state.has_ended else "")


@dataclass(frozen=True, slots=True)
class _About:
    """The facts that a sentence about a job needs."""

    job: str
    partition: str
    limit: str

    def message(
        self, state: JobState, word: str, reason: str, slurms: str, expected: float | None
    ) -> str:
        """Return a sentence for people; empty while the job runs."""
        if state is JobState.PENDING:
            return self._waits(reason, slurms, expected)
        if state is JobState.TIMEOUT:
            limit = _limit(self.limit)
            words = f" of {durations.in_words(limit)}" if limit else ""
            remedy = "ask for more with slurm.orlop.dev/time"
            return f"job {self.job} reached its time limit{words}; {remedy}"
        if state.has_ended and state is not JobState.COMPLETED:
            return f"job {self.job} in partition {self.partition} ended as {states.word_of(word)}"
        return ""

    def _waits(self, reason: str, slurms: str, expected: float | None) -> str:
        plain, remedy = pending_reasons.in_words(reason)
        verb = "cannot start" if pending_reasons.is_never(reason) else "waits"
        parts = [f"job {self.job} {verb} in partition {self.partition}: {plain or slurms}"]
        parts += [remedy.replace("JOBID", self.job)] if remedy else []
        if expected and not pending_reasons.is_never(reason):
            parts.append(f"expected to start about {_minute(expected)}")
        return "; ".join(parts)


def parse_sacct(text: str, lead: Lead = no_lead) -> dict[JobId, Job]:
    """Return the last word of the accounting on each job; a requeued job's newest line comes
    last.
    """
    found: dict[JobId, Job] = {}
    for row in _sacct_rows(text):
        started, ended = numbers.moment(row["Start"]), numbers.moment(row["End"])
        word = _final_word(row["State"], started, ended, row["Timelimit"], row["WorkDir"], lead)
        state = states.state_of(word)
        reason = _reason(word, row["Reason"], state)
        about = _About(row["JobID"], row["Partition"], row["Timelimit"])
        job_id = JobId(row["JobID"])
        found[job_id] = Job(
            id=job_id,
            # Gone from squeue, and yet not ended: the accounting has not heard of its end.
            state=state if state.has_ended else JobState.UNKNOWN,
            name=row["JobName"],
            reason=reason,
            message=about.message(state, word, reason, "", None) if state.has_ended else "",
            partition=row["Partition"],
            nodes=_nodes(row["NodeList"]),
            submitted=numbers.moment(row["Submit"]),
            started=started,
            ended=ended,
        )
    return found


def folders_of(text: str) -> dict[str, str]:
    """Return the working directory of each job that sacct lists."""
    return {row["JobID"]: row["WorkDir"] for row in _sacct_rows(text)}


def job_in_folder(text: str, folder: str, task: str = "") -> JobId | None:
    """Return the newest job that sacct lists with that working directory, or its task of that
    number.

    Tasks that wait have one line for all of them, `17_[3-9]`.
    """
    rows = [row for row in _rows(text) if row["WorkDir"] == folder]
    if not rows:
        return None
    number = rows[-1]["JobID"].partition("_")[0]
    return part_of(number, task) if task else JobId(number)


def _rows(text: str) -> Iterable[dict[str, str]]:
    for line in text.splitlines():
        values = line.split(SEPARATOR)
        if len(values) == len(SACCT_FIELDS) and values[0][:1].isdecimal():
            yield dict(zip(SACCT_FIELDS, values, strict=True))


def _sacct_rows(text: str) -> Iterable[dict[str, str]]:
    return (row for row in _rows(text) if _ID.fullmatch(row["JobID"]))


def _limit(text: str) -> float | None:
    """Return a job's time limit if it has one that can be read."""
    try:
        limit = durations.seconds(text)
    except ValueError:
        return None
    return None if limit == durations.UNLIMITED else limit


def _nodes(text: str) -> tuple[str, ...]:
    """Return the hosts of a job; none where they cannot be read, as the rest of the line is still
    valid.
    """
    try:
        return hostlist.expand(text)
    except ValueError:
        return ()


def _minute(moment: float) -> str:
    """Return a time to the minute: Slurm's estimate moves, and each change would be a change of the
    pod.
    """
    return time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(moment))
