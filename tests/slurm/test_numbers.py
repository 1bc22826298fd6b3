"""Numbers and times of Slurm's, and what is none."""

from __future__ import annotations

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
