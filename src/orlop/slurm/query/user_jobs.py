"""Reads every job of the user as squeue and sacct print it, whoever submitted it.

Used where Slurm's own jobs are shown as objects; pure. Unlike `squeue.py`, which knows pods, it
keeps Slurm's words as they are. Lines that cannot be read are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...engine import JobState
from .. import numbers, states
from ..numbers import DIGITS
from . import pending_reasons, squeue
from .squeue import SEPARATOR, SQUEUE_FIELDS

# What sacct is asked for, and what squeue calls the same.
SACCT_FIELDS = {
    "JobID": "JobArrayID", "JobIDRaw": "JobID", "State": "State", "Reason": "Reason",
    "Partition": "Partition", "Account": "Account", "QOS": "QOS", "NodeList": "NodeList",
    "NNodes": "NumNodes", "AllocCPUS": "NumCPUs", "Timelimit": "TimeLimit", "Submit": "SubmitTime",
    "Start": "StartTime", "End": "EndTime", "ExitCode": "exit_code", "WorkDir": "WorkDir",
    "JobName": "Name",
}  # fmt: skip
SACCT = ("-X", "-n", "-P", "--delimiter", SEPARATOR, "-o", ",".join(SACCT_FIELDS))
# Beside the rest, to find a job by the script it was submitted with.
SUBMIT_LINE = ("-X", "-n", "-P", "--delimiter", SEPARATOR, "-o", "JobID,SubmitLine,WorkDir")
_COMMENT = "orlop-job:"
_ID = re.compile(rf"({DIGITS})(?:_{DIGITS}|\+{DIGITS})?")
_NOTHING = ("(null)", "N/A", "None", "None assigned", "Unknown")


@dataclass(frozen=True, slots=True)
class UserJob:
    """One job, or one task of an array, at one moment."""

    id: str  # `17`, or `17_3`; a part of a heterogeneous job is read as `17+1`
    state: JobState
    word: str  # Slurm's own for the state
    reason: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    node_list: str = ""
    nodes: int = 0
    cpus: int = 0
    limit: str = ""
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    exit_code: int = 0
    signal: int = 0
    folder: str = ""  # where it was started
    name: str = ""
    comment: str = ""
    restarts: int = 0
    own_number: str = ""  # that a task of an array has for itself; for a job, its number

    @property
    def number(self) -> str:
        """Return the number of the job, or of the array or heterogeneous job it is a part of."""
        return re.split(r"[_+]", self.id)[0]

    @property
    def task(self) -> str:
        return self.id.partition("_")[2]


class UserJobs:
    """Reads squeue's answers poll after poll; a line seen before is not read again."""

    def __init__(self) -> None:
        self._known: dict[str, UserJob | None] = {}

    def read(self, text: str) -> dict[str, tuple[UserJob, ...]]:
        """Return, by the numbers of jobs and arrays, the job or all its tasks that are listed."""
        known = self._known
        self._known = {
            line: known[line] if line in known else _listed(line) for line in text.splitlines()
        }
        return grouped(job for job in self._known.values() if job is not None)


def grouped(jobs: Iterable[UserJob]) -> dict[str, tuple[UserJob, ...]]:
    found: dict[str, list[UserJob]] = {}
    for job in jobs:
        found.setdefault(job.number, []).append(job)
    return {number: _tasks_of(listed) for number, listed in found.items()}


def _tasks_of(listed: list[UserJob]) -> tuple[UserJob, ...]:
    """Join the parts of a heterogeneous job: the first, which has the script, stands for it with
    all nodes.
    """
    if "+" not in listed[0].id:
        return tuple(listed)
    parts = sorted(listed, key=lambda part: numbers.leading(part.id.partition("+")[2]))
    whole = replace(
        parts[0],
        id=parts[0].number,
        node_list=",".join(part.node_list for part in parts if part.node_list),
        nodes=sum(part.nodes for part in parts),
        cpus=sum(part.cpus for part in parts),
    )
    return (whole,)


def _listed(line: str) -> UserJob | None:
    fields = line.split(SEPARATOR)
    if len(fields) != len(SQUEUE_FIELDS) + 1:
        return None
    row = dict(zip(SQUEUE_FIELDS, fields, strict=False))
    if not _ID.fullmatch(row["JobArrayID"]) or squeue.was_refused(row):
        return None
    state = states.state_of(row["State"])
    if state is JobState.PENDING:
        row["StartTime"] = ""  # a guess, which moves
    if not state.has_ended:
        row["EndTime"] = row["exit_code"] = ""
    return _job(row)


def parse_sacct(text: str) -> dict[str, tuple[UserJob, ...]]:
    """Return the last word of the accounting on each job; of a requeued one the newest line is
    last.
    """
    found: dict[str, UserJob] = {}
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) != len(SACCT_FIELDS) or not _ID.fullmatch(fields[0]):
            continue
        job = _job(dict(zip(SACCT_FIELDS.values(), fields, strict=True)))
        found[job.id] = job
    return grouped(found.values())


def _job(row: Mapping[str, str]) -> UserJob:
    """Return the job of a row, whose fields have squeue's names."""
    state = states.state_of(row["State"])
    code, signal = _exit(row["exit_code"])
    return UserJob(
        id=row["JobArrayID"],
        state=state,
        word=states.word_of(row["State"]),
        reason=_reason(row["Reason"], state),
        partition=row["Partition"],
        account=_text(row["Account"]),
        qos=_text(row["QOS"]),
        node_list=_text(row["NodeList"]),
        nodes=numbers.leading(row["NumNodes"]),
        cpus=numbers.leading(row["NumCPUs"]),
        limit=_text(row["TimeLimit"]),
        submitted=numbers.moment(row["SubmitTime"]),
        started=numbers.moment(row["StartTime"]),
        ended=numbers.moment(row["EndTime"]),
        exit_code=code,
        signal=signal,
        folder=row["WorkDir"],
        name=row["Name"],
        comment=_text(row.get("Comment", "")),
        restarts=numbers.leading(row.get("RestartCnt", "")),
        own_number=row["JobID"],
    )


def submitted_with(text: str, script: str) -> str:
    """Return the number of the newest job in sacct's list that was submitted with that very
    script.
    """
    newest = ""
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) == 3 and script in fields[1].split():
            newest = re.split(r"[_+]", fields[0])[0]
    return newest


def _exit(text: str) -> tuple[int, int]:
    """Return exit code and signal: squeue prints wait(2)'s status, sacct and newer squeues
    `3:0`.
    """
    status = numbers.whole(text)
    if status is not None and status < 1 << 31:
        return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0), status & 0x7F
    code, colon, signal = text.partition(":")
    return (numbers.leading(code), numbers.leading(signal)) if colon else (0, 0)


def _reason(text: str, state: JobState) -> str:
    return "" if state in (JobState.RUNNING, JobState.COMPLETED) else pending_reasons.word_of(text)


def _text(text: str) -> str:
    return "" if text in _NOTHING else text


def comment_of(cluster_uid: str, uid: str, users: str = "") -> str:
    """Return the comment by which the job of an object is known, before whatever the user says
    there.
    """
    return f"{_COMMENT}{cluster_uid}:{uid}{' ' + users if users else ''}"


def uid_of_comment(comment: str, cluster_uid: str) -> str:
    """Return the uid of a job's object; empty if the job is of none of this cluster's."""
    prefix = f"{_COMMENT}{cluster_uid}:"
    return comment.removeprefix(prefix).split(" ")[0] if comment.startswith(prefix) else ""
