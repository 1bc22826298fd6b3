"""The agent's course: which job it is in, and what a journal says of an earlier one."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from orlop.agent.main import Job, active_since, end_of

STARTED = {"type": "started"}
SUCCEEDED = {"type": "finished", "phase": "Succeeded"}
FAILED = {"type": "finished", "phase": "Failed"}
WARNED = {"type": "condition", "condition": "orlop.dev/TimeLimit", "status": "True"}
NOT_WARNED = {**WARNED, "status": "False"}


def terminating(why):
    return {"type": "terminating", "why": why}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], None),
        ([STARTED], None),
        ([STARTED, SUCCEEDED], 0),
        ([STARTED, FAILED], 1),
        ([STARTED, terminating("deleted"), SUCCEEDED], 0),
        ([STARTED, terminating("deadline"), FAILED], 1),
        ([STARTED, terminating("signal"), FAILED], None),
        ([STARTED, terminating("signal"), FAILED, STARTED], None),
        ([STARTED, terminating("signal"), FAILED, STARTED, SUCCEEDED], 0),
        ([STARTED, terminating("signal"), FAILED, STARTED, terminating("deleted"), FAILED], 1),
        ([STARTED, WARNED, FAILED], None),
        ([STARTED, WARNED, SUCCEEDED], 0),
        ([STARTED, WARNED, terminating("deadline"), FAILED], 1),
        ([STARTED, WARNED, FAILED, STARTED, NOT_WARNED, FAILED], 1),
    ],
    ids=[
        "new", "killed", "succeeded", "failed", "deleted", "deadline", "requeued", "requeued twice",
        "succeeded after a requeue", "deleted after a requeue", "failed when warned",
        "succeeded when warned", "deadline when warned", "failed after a requeue",
    ],
)  # fmt: skip
def test_only_what_the_engine_ended_may_run_again(records, expected):
    assert end_of(records) == expected


@pytest.fixture
def environment(monkeypatch):
    for name in ("ORLOP_JOB_ID", "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


def test_a_slurm_job_is_known_by_slurms_variables(environment):
    environment("SLURM_JOB_ID", "17")
    environment("SLURM_RESTART_COUNT", "2")
    environment("SLURMD_NODENAME", "n3")
    job = Job()
    assert (job.id, job.restart, job.node) == ("17", 2, "n3")


def test_the_local_engines_job_is_its_own_even_inside_a_slurm_job(environment):
    environment("SLURM_JOB_ID", "17")
    environment("ORLOP_JOB_ID", "local-1")
    assert Job().id == "local-1"


def test_without_an_engine_there_still_is_a_job(environment):
    job = Job()
    assert job.id
    assert job.node
    assert job.restart == 0


def test_a_requeue_gives_the_deadline_no_second_beginning():
    first = {"type": "started", "time": 100.0}
    records = [first, {"type": "container", "time": 101.0}, {"type": "started", "time": 500.0}]
    assert active_since(records) == 100.0
    assert active_since([]) is None


ATTENDING = """
import os, signal
from orlop.agent.main import attend
held = {signal.SIGTERM, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, {*held, signal.SIGCHLD})
pid = os.fork()
if pid == 0:
    first = signal.sigwait(held)
    os.kill(os.getppid(), signal.SIGUSR1)
    os._exit(first + signal.sigwait(held))
os.kill(os.getpid(), signal.SIGTERM)
print(os.WEXITSTATUS(attend(pid, held)))
"""


def test_what_is_signalled_before_and_while_a_child_is_waited_for_reaches_it():
    done = subprocess.run(
        [sys.executable, "-c", ATTENDING], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == f"{signal.SIGTERM + signal.SIGUSR1}\n", done.stderr
