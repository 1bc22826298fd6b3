"""The short text of sets of indexes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.controllers.workloads.job.indexes import (
    FAILURES,
    INDEX,
    failures_of,
    format_indexes,
    index_of,
    parse_indexes,
)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        (set(), ""),
        ({0}, "0"),
        ({0, 1}, "0,1"),
        ({0, 1, 2}, "0-2"),
        ({1, 3, 4, 5, 7}, "1,3-5,7"),
        ({0, 1, 10, 11, 12}, "0,1,10-12"),
    ],
)
def test_runs_are_written_short(indexes, text):
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 100) == indexes


@given(st.sets(st.integers(0, 300)))
def test_what_is_written_is_read_again(indexes):
    assert parse_indexes(format_indexes(indexes), 301) == indexes


@pytest.mark.parametrize(
    ("text", "completions", "indexes"),
    [("0-9", 5, {0, 1, 2, 3, 4}), ("3,7", 5, {3}), ("5-9", 5, set())],
)
def test_indexes_beyond_a_job_that_shrank_do_not_count(text, completions, indexes):
    assert parse_indexes(text, completions) == indexes


@pytest.mark.parametrize(("text", "index"), [("0", 0), ("17", 17), ("-1", None), ("x", None)])
def test_the_index_of_a_pod(text, index):
    assert index_of({"metadata": {"annotations": {INDEX: text}}}) == index
    assert index_of({"metadata": {}}) is None


def test_the_failures_an_index_had_before_a_pod():
    assert failures_of({"metadata": {"annotations": {FAILURES: "3"}}}) == 3
    assert failures_of({"metadata": {}}) == 0
