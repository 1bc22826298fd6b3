"""Slurm's job states against the engine's, as design.md promises."""

from __future__ import annotations

import pytest

from orlop.engine import JobState
from orlop.slurm import states

EXPECTED = {
    "PENDING": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
    "COMPLETING": JobState.COMPLETING,
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "TIMEOUT": JobState.TIMEOUT,
    "DEADLINE": JobState.TIMEOUT,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
    "NODE_FAIL": JobState.NODE_FAIL,
    "BOOT_FAIL": JobState.NODE_FAIL,
    "PREEMPTED": JobState.PREEMPTED,
    "CANCELLED": JobState.CANCELLED,
    "REVOKED": JobState.CANCELLED,
    "CONFIGURING": JobState.PENDING,
    "REQUEUED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "STOPPED": JobState.SUSPENDED,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.COMPLETING,
}


@pytest.mark.parametrize(("word", "state"), EXPECTED.items(), ids=EXPECTED)
def test_a_state_of_slurm_is_one_of_ours(word, state):
    assert states.state_of(word) is state


@pytest.mark.parametrize(("name", "code", "state"), states.TABLE, ids=lambda value: str(value))
def test_compact_codes_mean_the_same_as_names(name, code, state):
    assert states.state_of(code) is states.state_of(name) is state


@pytest.mark.parametrize("text", ["", "  ", "HIBERNATING", "17", "None"])
def test_what_is_not_known_is_unknown_and_no_end(text):
    assert states.state_of(text) is JobState.UNKNOWN
    assert not states.state_of(text).has_ended


@pytest.mark.parametrize("text", ["CANCELLED by 1001", "CANCELLED+", "cancelled", " CANCELLED "])
def test_what_sacct_adds_to_a_state_does_not_change_it(text):
    assert states.state_of(text) is JobState.CANCELLED


def test_names_and_codes_are_used_once():
    words = [word for name, code, _ in states.TABLE for word in (name, code)]
    assert len(words) == len(set(words))
