"""The short text of sets of indexes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.controllers.workloads.job.indexes import (
    FAILURES,
    INDEX,
    IndexSet,
    failures_of,
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
    assert str(IndexSet.of(indexes)) == text
    assert parse_indexes(text, 100) == IndexSet.of(indexes)


@given(st.sets(st.integers(0, 300)))
def test_what_is_written_is_read_again(indexes):
    assert parse_indexes(str(IndexSet.of(indexes)), 301) == IndexSet.of(indexes)


_SETS = st.sets(st.integers(0, 40))


@given(_SETS, _SETS, st.integers(0, 45))
def test_they_are_as_sets_of_numbers(some, others, count):
    one, other = IndexSet.of(some), IndexSet.of(others)
    assert one | other == IndexSet.of(some | others)
    assert one & other == IndexSet.of(some & others)
    assert one - other == IndexSet.of(some - others)
    assert (len(one), [n for n in range(45) if n in one]) == (len(some), sorted(some))
    assert list(one.missing(count)) == sorted(set(range(count)) - some)


def test_thousands_of_millions_take_no_room():
    every = 2**31 - 1
    done = parse_indexes("0-2000000000,2000000002", every)
    assert len(done) == 2_000_000_002
    assert len(done & parse_indexes("1999999999-2100000000", every)) == 3
    assert next(done.missing(every)) == 2_000_000_001


@pytest.mark.parametrize("text", ["x", "1-x", "1-", "-", "1-2-3", "9" * 5000, "1,,x", "٣,x"])
def test_what_is_no_list_of_indexes_counts_as_none(text):
    assert not parse_indexes(text, 100).runs


@pytest.mark.parametrize(
    ("text", "completions", "indexes"),
    [("0-9", 5, {0, 1, 2, 3, 4}), ("3,7", 5, {3}), ("5-9", 5, set())],
)
def test_indexes_beyond_a_job_that_shrank_do_not_count(text, completions, indexes):
    assert parse_indexes(text, completions) == IndexSet.of(indexes)


@pytest.mark.parametrize(("text", "index"), [("0", 0), ("17", 17), ("-1", None), ("x", None)])
def test_the_index_of_a_pod(text, index):
    assert index_of({"metadata": {"annotations": {INDEX: text}}}) == index
    assert index_of({"metadata": {}}) is None


def test_the_failures_an_index_had_before_a_pod():
    assert failures_of({"metadata": {"annotations": {FAILURES: "3"}}}) == 3
    assert failures_of({"metadata": {}}) == 0
