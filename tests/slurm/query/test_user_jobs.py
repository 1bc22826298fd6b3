"""Jobs of the user as squeue and sacct print them."""

from __future__ import annotations

import pytest

from orlop.engine import JobState
from orlop.slurm.query.squeue import SEPARATOR, SQUEUE_FIELDS
from orlop.slurm.query.user_jobs import (
    SACCT_FIELDS,
    UserJobs,
    comment_of,
    parse_sacct,
    submitted_with,
    uid_of_comment,
)


def squeue_line(**fields: str) -> str:
    row = {
        "JobArrayID": "17",
        "JobID": "17",
        "State": "RUNNING",
        "Reason": "None",
        "RestartCnt": "0",
        "Partition": "main",
        "NodeList": "n[1-2]",
        "SubmitTime": "1794755000",
        "StartTime": "1794755010",
        "EndTime": "N/A",
        "TimeLimit": "1:00:00",
        "Account": "research",
        "QOS": "normal",
        "NumNodes": "2",
        "NumCPUs": "16",
        "exit_code": "0",
        "WorkDir": "/home/ann",
        "Name": "train.sh",
        "Comment": "(null)",
    } | fields
    return "".join(row[field] + SEPARATOR for field in SQUEUE_FIELDS) + "\n"


def sacct_line(**fields: str) -> str:
    row = dict.fromkeys(SACCT_FIELDS, "") | {
        "JobID": "17",
        "State": "COMPLETED",
        "ExitCode": "0:0",
        "NNodes": "1",
        "AllocCPUS": "4",
        "Start": "1794755010",
        "End": "1794755020",
    }
    return SEPARATOR.join((row | fields)[field] for field in SACCT_FIELDS) + "\n"


def test_a_task_has_a_number_of_its_own() -> None:
    (listed,) = UserJobs().read(squeue_line(JobArrayID="17_3", JobID="20"))["17"]
    (accounted,) = parse_sacct(sacct_line(JobID="17_3", JobIDRaw="20"))["17"]
    assert (listed.own_number, accounted.own_number) == ("20", "20")


def test_a_line_keeps_slurms_own_words() -> None:
    (job,) = UserJobs().read(squeue_line())["17"]
    assert (job.word, job.state, job.node_list, job.nodes) == (
        "RUNNING",
        JobState.RUNNING,
        "n[1-2]",
        2,
    )
    assert (job.account, job.qos, job.limit, job.name) == (
        "research",
        "normal",
        "1:00:00",
        "train.sh",
    )
    assert (job.started, job.ended, job.comment) == (1794755010.0, None, "")


def test_the_parts_of_a_heterogeneous_job_are_one_job() -> None:
    """As its script sees it: it has all nodes, and ends as its first part does."""
    parts = squeue_line(JobArrayID="9+1", NodeList="n3", NumNodes="1", NumCPUs="4")
    (job,) = UserJobs().read(parts + squeue_line(JobArrayID="9+0"))["9"]
    assert (job.id, job.task, job.number) == ("9", "", "9")
    assert (job.node_list, job.nodes, job.cpus) == ("n[1-2],n3", 3, 20)
    ended = sacct_line(JobID="9+0", State="FAILED", ExitCode="3:0") + sacct_line(JobID="9+1")
    (last,) = parse_sacct(ended)["9"]
    assert (last.word, last.exit_code, last.cpus) == ("FAILED", 3, 8)


@pytest.mark.parametrize("other", ["9_3", "9", "9+" + "1" * 5000])
def test_a_part_beside_what_is_none_keeps_no_job_from_being_read(other: str) -> None:
    lines = squeue_line(JobArrayID="9+1") + squeue_line(JobArrayID=other) + squeue_line()
    assert UserJobs().read(lines).keys() == {"9", "17"}


def test_the_tasks_of_an_array_are_together() -> None:
    text = squeue_line(JobArrayID="8_0") + squeue_line(JobArrayID="8_1") + squeue_line()
    found = UserJobs().read(text)
    assert [job.task for job in found["8"]] == ["0", "1"]
    assert [job.task for job in found["17"]] == [""]


def test_an_expected_start_is_no_start() -> None:
    (job,) = UserJobs().read(squeue_line(State="PENDING", Reason="Priority"))["17"]
    assert (job.started, job.reason) == (None, "Priority")


@pytest.mark.parametrize(
    ("status", "code", "signal"),
    [("768", 3, 0), ("36608", 143, 0), ("9", 0, 9), ("0", 0, 0), ("3:0", 3, 0), ("0:15", 0, 15)],
    ids=["exit 3", "exit 143", "killed", "well", "as newer ones print", "by a signal"],
)
def test_exit_codes_and_signals(status: str, code: int, signal: int) -> None:
    (job,) = UserJobs().read(squeue_line(State="FAILED", exit_code=status))["17"]
    assert (job.exit_code, job.signal) == (code, signal)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        squeue_line(JobArrayID="17_[3-9]"),
        squeue_line(State="FAILED", Reason="BadConstraints", NodeList=""),
    ],
    ids=["garbled", "many tasks in one", "refused by sbatch"],
)
def test_what_is_no_job_is_left_out(line: str) -> None:
    assert UserJobs().read(line) == {}


def test_the_accounting_has_the_last_word_on_a_requeued_job() -> None:
    text = sacct_line(State="NODE_FAIL") + sacct_line(State="CANCELLED by 1001", ExitCode="0:15")
    (job,) = parse_sacct(text)["17"]
    assert (job.word, job.state, job.signal) == ("CANCELLED", JobState.CANCELLED, 15)


def test_a_job_is_found_by_the_script_it_was_submitted_with() -> None:
    lines = (
        ("9", "sbatch --parsable /home/ann/other/job.sh", "/home/ann"),
        ("12_3", "sbatch --parsable --array=0-3 /home/ann/j/job.sh arg", "/home/ann"),
        ("13", "sbatch --parsable /home/ann/j/job.sh.old", "/home/ann"),
    )
    text = "\n".join(SEPARATOR.join(fields) for fields in lines)
    assert submitted_with(text, "/home/ann/j/job.sh") == "12"
    assert submitted_with(text, "/nowhere") == ""


def test_a_comment_names_the_object_and_goes_on_with_the_users_own() -> None:
    comment = comment_of("c0ffee", "u1", "for the paper")
    assert uid_of_comment(comment, "c0ffee") == "u1"
    assert uid_of_comment(comment, "other") == ""
    assert uid_of_comment("orlop:c0ffee:pod", "c0ffee") == ""
