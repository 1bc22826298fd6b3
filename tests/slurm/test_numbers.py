"""Numbers and times of Slurm's, and what is none."""

from __future__ import annotations

import time

import pytest

from orlop.slurm import numbers


@pytest.mark.parametrize(
    ("text", "number", "moment"),
    [
        ("17", 17, 17.0),
        ("0", 0, None),
        ("1794758610", 1794758610, 1794758610.0),
        ("9" * 18, 10**18 - 1, None),
        ("9" * 19, None, None),
        ("9" * 5000, None, None),
        ("²", None, None),
        ("-1", None, None),
        ("N/A", None, None),
        ("", None, None),
    ],
)
def test_what_is_no_number_of_slurms_is_none(text, number, moment):
    assert (numbers.whole(text), numbers.moment(text)) == (number, moment)


@pytest.mark.parametrize(
    ("text", "number"),
    [("8+", 8), ("3:9", 3), ("9" * 18 + "+", 10**18 - 1), ("9" * 5000, 0), ("+8", 0), ("", 0)],
)
def test_a_text_may_begin_with_a_number(text, number):
    assert numbers.leading(text) == number


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("JobId=3 TRES=cpu=1,mem=3M\n   Comment=a b Account=c", {
            "JobId": "3", "TRES": "cpu=1,mem=3M", "Comment": "a", "Account": "c"}),
        ("." * 200_000, {}),
    ],
)  # fmt: skip
def test_named_fields_are_read_in_linear_time(text, fields):
    began = time.process_time()
    assert numbers.fields(text) == fields
    assert time.process_time() - began < 0.5
