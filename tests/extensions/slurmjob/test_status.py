"""Slurm's word on a SlurmJob, in its status."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.objects import Obj
from orlop.extensions.slurmjob import status
from orlop.slurm import states
from orlop.slurm.query.user_jobs import UserJob


def task(word: str, id: str = "17", **fields: Any) -> UserJob:
    return UserJob(id=id, state=states.state_of(word), word=word, partition="main", **fields)


def conditions(found: Obj) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in found["conditions"] if one["status"] == "True"}


@pytest.mark.parametrize(
    ("word", "phase", "ends"),
    [
        ("PENDING", "Pending", {}),
        ("CONFIGURING", "Pending", {}),
        ("RUNNING", "Running", {}),
        ("COMPLETING", "Running", {}),
        ("SUSPENDED", "Running", {}),
        ("COMPLETED", "Succeeded", {"Complete": "COMPLETED"}),
        ("FAILED", "Failed", {"Failed": "FAILED"}),
        ("TIMEOUT", "Failed", {"Failed": "TIMEOUT"}),
        ("NODE_FAIL", "Failed", {"Failed": "NODE_FAIL"}),
        ("OUT_OF_MEMORY", "Failed", {"Failed": "OUT_OF_MEMORY"}),
        ("CANCELLED", "Failed", {"Failed": "CANCELLED"}),
        ("PREEMPTED", "Failed", {"Failed": "PREEMPTED"}),
        ("DEADLINE", "Failed", {"Failed": "DEADLINE"}),
    ],
)
def test_every_state_has_a_phase(word: str, phase: str, ends: dict[str, str]) -> None:
    found = status.observed({}, [task(word)], 0, 0.0)
    assert (found["phase"], found["state"]) == (phase, word)
    assert conditions(found) == {"Submitted": "Accepted", **ends}


def test_a_word_that_nobody_knows_changes_no_phase() -> None:
    found = status.observed({"phase": "Running"}, [task("BRAND_NEW")], 0, 0.0)
    assert (found["phase"], found["state"]) == ("Running", "BRAND_NEW")


def test_the_exit_code_is_there_at_the_end_only() -> None:
    assert "exitCode" not in status.observed({}, [task("RUNNING")], 0, 0.0)
    found = status.observed({}, [task("FAILED", exit_code=3)], 0, 0.0)
    assert found["exitCode"] == 3
    assert "exit code 3" in found["message"]
    assert status.observed({}, [task("COMPLETED")], 0, 0.0)["exitCode"] == 0


def test_an_array_runs_while_any_task_does() -> None:
    tasks = [task("COMPLETED", "8_0"), task("RUNNING", "8_1"), task("PENDING", "8_2")]
    found = status.observed({}, tasks, 4, 0.0)
    assert found["phase"] == "Running"
    assert found["arrayTasks"] == {
        "total": 4,
        "pending": 2,
        "running": 1,
        "succeeded": 1,
        "failed": 0,
    }


def test_an_array_with_one_failed_task_has_failed() -> None:
    tasks = [task("COMPLETED", "8_0"), task("TIMEOUT", "8_1"), task("COMPLETED", "8_2")]
    found = status.observed({}, tasks, 3, 0.0)
    assert (found["phase"], found["state"]) == ("Failed", "TIMEOUT")


def test_a_job_that_waits_says_why_in_plain_words() -> None:
    found = status.observed({}, [task("PENDING", reason="Priority")], 0, 0.0)
    assert found["reason"] == "Priority"
    assert "jobs of higher priority are before it" in found["message"]


def test_a_requeued_job_is_no_longer_failed() -> None:
    ended = status.observed({}, [task("NODE_FAIL")], 0, 0.0)
    again = status.observed(ended, [task("PENDING")], 0, 0.0)
    assert again["phase"] == "Pending"
    assert conditions(again) == {"Submitted": "Accepted"}
