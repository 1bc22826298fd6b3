"""The table of end states: what Slurm and the agent say becomes what Kubernetes says."""

from __future__ import annotations

import pytest

from orlop.engine import JobState
from orlop.kubelet.status.termination_reason import ending_of

from ..objects import a_job, a_journal, exited, finished, running, started, terminating

RUNNING = a_journal(started(), running())
SUCCEEDED = a_journal(started(), running(), exited(0), finished("Succeeded"))
FAILED = a_journal(started(), running(), exited(3), finished("Failed"))
SIGNALLED = a_journal(
    started(), running(), terminating("signal"), exited(143), finished("Failed", "Terminated")
)
KILLED = a_journal(started(), running(), exited(137), finished("Failed"))
DEADLINE = a_journal(
    started(),
    running(),
    terminating("deadline"),
    exited(137),
    finished("Failed", "DeadlineExceeded"),
)
NEVER = a_journal()
ENDED = [state for state in JobState if state.has_ended]
NOT_ENDED = [state for state in JobState if not state.has_ended]


@pytest.mark.parametrize(
    ("state", "reason", "disruption", "words"),
    [
        (JobState.COMPLETED, "JobFailed", "", "left no last word"),
        (JobState.FAILED, "JobFailed", "", "left no last word"),
        (JobState.TIMEOUT, "DeadlineExceeded", "", "time limit"),
        (JobState.OUT_OF_MEMORY, "OOMKilled", "", "memory"),
        (JobState.NODE_FAIL, "NodeLost", "", "n1"),
        (JobState.PREEMPTED, "PreemptionByScheduler", "PreemptionByScheduler", "preempted"),
        (JobState.CANCELLED, "Cancelled", "Cancelled", "cancelled"),
    ],
)
def test_a_running_pod_whose_job_ended_ends_by_the_table(state, reason, disruption, words):
    ending = ending_of(RUNNING, a_job(state))
    assert ending is not None
    assert (ending.phase, ending.reason, ending.disruption) == ("Failed", reason, disruption)
    assert words in ending.message
    assert ending.is_oom == (state is JobState.OUT_OF_MEMORY)


@pytest.mark.parametrize("state", NOT_ENDED)
@pytest.mark.parametrize("journal", [RUNNING, NEVER], ids=["running", "never started"])
def test_a_pod_whose_job_has_not_ended_has_not_either(journal, state):
    assert ending_of(journal, a_job(state)) is None


def test_a_job_that_nobody_has_heard_of_yet_is_no_end():
    assert ending_of(RUNNING, None) is None
    assert ending_of(NEVER, None) is None


@pytest.mark.parametrize("state", list(JobState))
@pytest.mark.parametrize(
    ("journal", "phase"), [(SUCCEEDED, "Succeeded"), (FAILED, "Failed")], ids=["0", "3"]
)
def test_what_ended_by_itself_ended_as_its_agent_says_whatever_became_of_the_job(
    journal, phase, state
):
    ending = ending_of(journal, a_job(state))
    assert ending is not None
    assert (ending.phase, ending.reason, ending.disruption) == (phase, "", "")


@pytest.mark.parametrize("journal", [SIGNALLED, KILLED], ids=["signalled", "killed"])
@pytest.mark.parametrize("state", [None, *NOT_ENDED])
def test_what_somebody_ended_is_not_over_before_the_engine_says_why(journal, state):
    assert ending_of(journal, None if state is None else a_job(state)) is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (JobState.TIMEOUT, "DeadlineExceeded"),
        (JobState.CANCELLED, "Cancelled"),
        (JobState.PREEMPTED, "PreemptionByScheduler"),
        (JobState.OUT_OF_MEMORY, "OOMKilled"),
        (JobState.NODE_FAIL, "NodeLost"),
        (JobState.FAILED, "Terminated"),
        (JobState.COMPLETED, "Terminated"),
    ],
)
def test_what_the_engine_ended_has_the_engines_reason(state, reason):
    ending = ending_of(SIGNALLED, a_job(state))
    assert ending is not None
    assert (ending.phase, ending.reason) == ("Failed", reason)


def test_a_kill_that_slurm_knows_nothing_of_is_the_containers_own_code():
    ending = ending_of(KILLED, a_job(JobState.FAILED))
    assert ending is not None
    assert (ending.phase, ending.reason, ending.is_oom) == ("Failed", "", False)


def test_the_pods_own_deadline_needs_no_word_of_the_engine():
    ending = ending_of(DEADLINE, None)
    assert ending is not None
    assert ending.reason == "DeadlineExceeded"


@pytest.mark.parametrize("journal", [SIGNALLED, KILLED])
def test_a_deleted_pod_is_over_when_its_agent_says_so(journal):
    ending = ending_of(journal, None, is_deleting=True)
    assert ending is not None
    assert ending.disruption == ""


def test_a_job_cancelled_by_deleting_its_pod_is_no_disruption():
    ending = ending_of(RUNNING, a_job(JobState.CANCELLED), is_deleting=True)
    assert ending is not None
    assert (ending.phase, ending.reason, ending.disruption) == ("Failed", "", "")


def test_a_job_that_ended_before_its_agent_began_shows_what_it_printed():
    job = a_job(JobState.FAILED, reason="NonZeroExitCode")
    ending = ending_of(NEVER, job, output="python3: not found")
    assert ending is not None
    assert ending.message == (
        "job 17 ended (FAILED, NonZeroExitCode) before its agent began; "
        "the job printed: python3: not found"
    )
    silent = ending_of(NEVER, job)
    assert silent is not None
    assert silent.message.endswith("the job printed nothing")


@pytest.mark.parametrize(
    ("journal", "phase", "reason"),
    [
        (RUNNING, "Failed", "JobVanished"),
        (SUCCEEDED, "Succeeded", ""),
        (SIGNALLED, "Failed", "Terminated"),
    ],
)
def test_a_job_that_nobody_knows_any_more_ended_as_far_as_the_journal_knows(journal, phase, reason):
    ending = ending_of(journal, a_job(JobState.RUNNING), has_vanished=True)
    assert ending is not None
    assert (ending.phase, ending.reason) == (phase, reason)


def test_the_engines_own_sentence_on_a_time_limit_is_better_than_ours():
    job = a_job(JobState.TIMEOUT, message="job 17 reached its time limit of 1 minute")
    ending = ending_of(RUNNING, job)
    assert ending is not None
    assert ending.message == "job 17 reached its time limit of 1 minute"


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (("n3",), "node n3 failed"),
        (("n3", "n4"), "one of the nodes n3, n4 failed"),
        ((), "node n1"),
    ],
)
def test_a_lost_node_is_named(nodes, words):
    ending = ending_of(RUNNING, a_job(JobState.NODE_FAIL, nodes=nodes))
    assert ending is not None
    assert ending.message.startswith(words)


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING])
def test_a_requeued_job_is_not_over_although_its_last_run_is(state):
    assert ending_of(SIGNALLED, a_job(state, restarts=1)) is None
    assert ending_of(SUCCEEDED, a_job(state, restarts=1)) is None


def test_a_requeued_job_that_is_then_cancelled_is_over():
    ending = ending_of(SIGNALLED, a_job(JobState.CANCELLED, restarts=1))
    assert ending is not None
    assert ending.reason == "Cancelled"


@pytest.mark.parametrize("state", ENDED)
def test_every_end_of_a_job_is_an_end_of_its_pod(state):
    for journal in (NEVER, RUNNING, SUCCEEDED, FAILED, SIGNALLED, KILLED):
        assert ending_of(journal, a_job(state)) is not None
