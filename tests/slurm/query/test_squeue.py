"""Jobs from what squeue and sacct print."""

from __future__ import annotations

import time

import pytest

from orlop.engine import JobState
from orlop.slurm.query import squeue
from orlop.slurm.query.squeue import (
    SACCT_FIELDS,
    SEPARATOR,
    SQUEUE_FIELDS,
    parse_sacct,
    parse_squeue,
)

UID = "6f1c"


def squeue_line(**fields: str) -> str:
    row = {
        "JobArrayID": "17",
        "JobID": "17",
        "State": "RUNNING",
        "Reason": "None",
        "RestartCnt": "0",
        "Partition": "main",
        "NodeList": "",
        "SubmitTime": "1794755000",
        "StartTime": "N/A",
        "EndTime": "N/A",
        "TimeLimit": "1:00:00",
        "Account": "research",
        "QOS": "normal",
        "NumNodes": "1",
        "NumCPUs": "1",
        "exit_code": "0",
        "WorkDir": "/home/ann/pod",
        "Name": "default/web-1",
        "Comment": f"orlop:c0ffee:{UID}",
    } | fields
    return "".join(row[field] + SEPARATOR for field in SQUEUE_FIELDS) + "\n"


def sacct_line(**fields: str) -> str:
    row = {
        "JobID": "17",
        "State": "COMPLETED",
        "Reason": "None",
        "Partition": "main",
        "NodeList": "n1",
        "Submit": "1794755000",
        "Start": "1794755010",
        "End": "1794755020",
        "Timelimit": "01:00:00",
        "WorkDir": "/home/ann/pod",
        "JobName": "default/web-1",
    } | fields
    return SEPARATOR.join(row[field] for field in SACCT_FIELDS) + "\n"


def one(text: str):
    (job,) = parse_squeue(text, "c0ffee").values()
    return job


def test_a_running_job_has_nodes_and_times_and_needs_no_words():
    job = one(squeue_line(NodeList="n[1-2]", StartTime="1794755010", EndTime="1794758610"))
    assert (job.id, job.state, job.pod_uid) == ("17", JobState.RUNNING, UID)
    assert job.nodes == ("n1", "n2")
    assert (job.submitted, job.started, job.ended) == (1794755000.0, 1794755010.0, None)
    assert (job.reason, job.message) == ("", "")


def test_a_waiting_job_says_why_where_and_until_about_when():
    job = one(squeue_line(State="PENDING", Reason="Priority", StartTime="1794758610"))
    assert (job.state, job.reason, job.started) == (JobState.PENDING, "Priority", None)
    assert job.message == (
        "job 17 waits in partition main: jobs of higher priority are before it; "
        "expected to start about 2026-11-15T16:03Z"
    )


@pytest.mark.parametrize(
    ("reason", "word", "words"),
    [
        ("PartitionTimeLimit", "PartitionTimeLimit", "slurm.orlop.dev/time"),
        ("JobHeldUser", "JobHeldUser", "`scontrol release 17` lets it go"),
        ("QOSMaxJobsPerUserLimit", "QOSMaxJobsPerUserLimit", "running jobs of your QOS"),
        ("ReqNodeNotAvail, UnavailableNodes:n3", "ReqNodeNotAvail", "not available now"),
        ("OfTomorrow", "OfTomorrow", "waits in partition main: OfTomorrow"),
        ("None", "", "Slurm has not looked at it yet"),
    ],
)
def test_a_waiting_jobs_reason_is_slurms_word_and_its_message_ours(reason, word, words):
    job = one(squeue_line(State="PENDING", Reason=reason))
    assert job.reason == word
    assert words in job.message


@pytest.mark.parametrize(
    ("state", "reason"),
    [("CONFIGURING", "Configuring"), ("REQUEUED", "REQUEUED"), ("SPECIAL_EXIT", "SPECIAL_EXIT")],
)
def test_other_ways_of_waiting_say_which(state, reason):
    job = one(squeue_line(State=state, NodeList="n1", StartTime="1794755010"))
    assert (job.state, job.reason, job.started) == (JobState.PENDING, reason, None)


def test_a_requeued_job_counts_its_restarts():
    assert one(squeue_line(RestartCnt="2")).restarts == 2


@pytest.mark.parametrize(
    ("state", "expected", "reason", "words"),
    [
        ("COMPLETED", JobState.COMPLETED, "COMPLETED", ""),
        ("FAILED", JobState.FAILED, "NonZeroExitCode", "ended as FAILED"),
        ("TIMEOUT", JobState.TIMEOUT, "TimeLimit", "time limit of 1 h; ask for more"),
        ("NODE_FAIL", JobState.NODE_FAIL, "NODE_FAIL", "ended as NODE_FAIL"),
        ("DEADLINE", JobState.TIMEOUT, "DEADLINE", "reached its time limit"),
    ],
)
def test_an_ended_job_says_how(state, expected, reason, words):
    slurms = {"FAILED": "NonZeroExitCode", "TIMEOUT": "TimeLimit"}.get(state, "None")
    text = squeue_line(State=state, Reason=slurms, StartTime="1794755010", EndTime="1794755020")
    job = one(text)
    assert (job.state, job.reason, job.ended) == (expected, reason, 1794755020.0)
    assert words in job.message


def test_jobs_of_others_and_of_other_clusters_are_left_out():
    text = squeue_line(Comment="") + squeue_line(Comment="orlop:other:1")
    text += squeue_line(JobArrayID="18", Comment="orlop:c0ffee:77")
    assert [job.pod_uid for job in parse_squeue(text, "c0ffee").values()] == ["77"]


def test_lines_that_cannot_be_read_are_left_out():
    broken = squeue_line(Name="two\nlines") + "slurm_load_jobs warning\n\n"
    text = broken + squeue_line(JobArrayID="18")
    assert list(parse_squeue(text, "c0ffee")) == ["18"]


def test_what_sbatch_was_refused_is_no_job_though_slurm_lists_it():
    refused = squeue_line(State="FAILED", Reason="BadConstraints")
    assert parse_squeue(refused, "c0ffee") == {}


@pytest.mark.parametrize(
    ("ran", "lead", "state"),
    [
        (3515, 90.0, JobState.TIMEOUT),
        (3460, 90.0, JobState.TIMEOUT),
        (3000, 90.0, JobState.FAILED),
        (3515, 0.0, JobState.FAILED),
    ],
)
def test_a_job_told_to_end_ahead_of_its_limit_has_timed_out(ran, lead, state):
    start = 1794755010
    times = {"StartTime": str(start), "EndTime": str(start + ran)}
    text = squeue_line(State="FAILED", Reason="NonZeroExitCode", **times)
    (job,) = parse_squeue(text, "c0ffee", lambda folder: lead).values()
    assert job.state is state


@pytest.mark.parametrize("limit", ["1:" + "9" * 400, "1-" + "9" * 5000])
def test_a_limit_beyond_all_numbers_is_none(limit):
    times = {"StartTime": "1794755010", "EndTime": "1794758600", "TimeLimit": limit}
    text = squeue_line(State="FAILED", **times)
    (job,) = parse_squeue(text, "c0ffee", lambda folder: 90.0).values()
    assert job.state is JobState.FAILED


def test_a_job_that_completed_has_completed_however_late():
    times = {"StartTime": "1794755010", "EndTime": "1794758600"}
    text = squeue_line(State="COMPLETED", **times)
    (job,) = parse_squeue(text, "c0ffee", lambda folder: 90.0).values()
    assert job.state is JobState.COMPLETED


def test_the_accounting_tells_the_end_of_jobs():
    text = sacct_line() + sacct_line(JobID="18", State="CANCELLED by 1001", NodeList="n[2-3]")
    jobs = parse_sacct(text)
    assert jobs["17"].state is JobState.COMPLETED
    assert jobs["17"].ended == 1794755020.0
    assert (jobs["18"].state, jobs["18"].nodes) == (JobState.CANCELLED, ("n2", "n3"))
    assert jobs["18"].message == "job 18 in partition main ended as CANCELLED"


def test_a_job_that_the_accounting_calls_alive_is_unknown():
    assert parse_sacct(sacct_line(State="RUNNING", End="Unknown"))["17"].state is JobState.UNKNOWN


def test_the_newest_line_of_a_requeued_job_is_the_last_word():
    text = sacct_line(State="NODE_FAIL") + sacct_line(State="COMPLETED")
    assert parse_sacct(text)["17"].state is JobState.COMPLETED


def test_a_job_is_found_by_the_folder_it_ran_in():
    text = sacct_line() + sacct_line(JobID="18", WorkDir="/home/ann/other")
    text += sacct_line(JobID="19")
    assert squeue.job_in_folder(text, "/home/ann/pod") == "19"
    assert squeue.job_in_folder(text, "/nowhere") is None


def test_a_line_seen_before_is_not_read_again():
    text = "".join(
        squeue_line(JobArrayID=str(n), Comment=f"orlop:c0ffee:{n}") for n in range(10000)
    )
    listing = squeue.Listing("c0ffee")
    started = time.process_time()
    first = listing.read(text)
    between = time.process_time()
    second = listing.read(text + squeue_line(JobArrayID="10001"))
    assert time.process_time() - between < (between - started) / 2
    assert len(second) == 10001
    assert all(second[job] is first[job] for job in first)


def test_a_job_that_changed_or_left_is_read_anew():
    listing = squeue.Listing("c0ffee")
    listing.read(squeue_line(State="PENDING") + squeue_line(JobArrayID="18"))
    jobs = listing.read(squeue_line(State="RUNNING"))
    assert list(jobs) == ["17"]
    assert jobs["17"].state is JobState.RUNNING


@pytest.mark.parametrize(
    ("state", "limit", "ends"),
    [
        ("RUNNING", "1:00:00", 1794758610.0),
        ("SUSPENDED", "1:00:00", 1794758610.0),
        ("RUNNING", "UNLIMITED", None),
        ("PENDING", "1:00:00", None),
        ("COMPLETED", "1:00:00", None),
    ],
)
def test_a_running_jobs_end_is_that_of_its_time_limit(state, limit, ends):
    assert one(squeue_line(State=state, TimeLimit=limit, EndTime="1794758610")).ends == ends


def test_a_job_that_can_never_start_says_so():
    job = one(squeue_line(State="PENDING", Reason="PartitionTimeLimit"))
    assert job.is_hopeless
    assert job.message.startswith("job 17 cannot start in partition main: its time limit is longer")
    assert not one(squeue_line(State="PENDING", Reason="Priority")).is_hopeless


def test_a_job_whose_hosts_cannot_be_read_is_listed_without_them():
    found = squeue.parse_squeue(
        squeue_line(NodeList="n[1-") + squeue_line(JobArrayID="18"), "c0ffee"
    )
    assert {str(job.id): job.nodes for job in found.values()} == {"17": (), "18": found["18"].nodes}
