"""Schedules: what robfig/cron reads, and what it refuses."""

from __future__ import annotations

import pytest

from orlop.api import cron
from orlop.api.cron import CronError


@pytest.mark.parametrize(
    ("text", "minutes", "hours"),
    [
        ("* * * * *", set(range(60)), set(range(24))),
        ("*/15 * * * *", {0, 15, 30, 45}, set(range(24))),
        ("0 9-17 * * *", {0}, set(range(9, 18))),
        ("0 9-17/4 * * *", {0}, {9, 13, 17}),
        ("5,10,15 0 * * *", {5, 10, 15}, {0}),
        ("10/20 ? * * ?", {10, 30, 50}, set(range(24))),
        ("@hourly", {0}, set(range(24))),
        ("@daily", {0}, {0}),
        ("  0   1  * * * ", {0}, {1}),
    ],
)
def test_minutes_and_hours(text: str, minutes: set[int], hours: set[int]) -> None:
    schedule = cron.parse(text)
    assert schedule.minutes == minutes
    assert schedule.hours == hours


@pytest.mark.parametrize(
    ("text", "months", "days"),
    [
        ("0 0 * jan,DEC *", {1, 12}, set(range(7))),
        ("0 0 * * mon-fri", set(range(1, 13)), {1, 2, 3, 4, 5}),
        ("0 0 * * SUN", set(range(1, 13)), {0}),
        ("@weekly", set(range(1, 13)), {0}),
        ("@yearly", {1}, set(range(7))),
    ],
)
def test_months_and_days_have_names(text: str, months: set[int], days: set[int]) -> None:
    schedule = cron.parse(text)
    assert schedule.months == months
    assert schedule.days_of_week == days


@pytest.mark.parametrize(
    ("text", "month", "day", "weekday", "happens"),
    [
        ("0 0 1 * *", 5, 1, 3, True),
        ("0 0 1 * *", 5, 2, 3, False),
        ("0 0 * * 1", 5, 2, 1, True),
        ("0 0 * * 1", 5, 2, 2, False),
        ("0 0 13 * 5", 5, 13, 1, True),
        ("0 0 13 * 5", 5, 12, 5, True),
        ("0 0 13 * 5", 5, 12, 4, False),
        ("0 0 * 6 *", 5, 1, 1, False),
    ],
)
def test_either_kind_of_day_suffices_where_both_are_given(
    text: str, month: int, day: int, weekday: int, happens: bool
) -> None:
    assert cron.parse(text).matches_day(month, day, weekday) is happens


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected exactly 5 fields, found 0: \[\]"),
        ("* * * *", r"expected exactly 5 fields, found 4"),
        ("* * * * * *", r"expected exactly 5 fields, found 6"),
        ("60 * * * *", r"end of range \(60\) above maximum \(59\): 60"),
        ("* 24 * * *", r"above maximum \(23\)"),
        ("* * 0 * *", r"beginning of range \(0\) below minimum \(1\): 0"),
        ("* * * 13 *", r"above maximum \(12\)"),
        ("* * * * 7", r"above maximum \(6\)"),
        ("5-1 * * * *", r"beginning of range \(5\) beyond end of range \(1\): 5-1"),
        ("*/0 * * * *", r"step of range should be a positive number"),
        ("1-2-3 * * * *", r"too many hyphens"),
        ("1/2/3 * * * *", r"too many slashes"),
        ("a * * * *", r"failed to parse int from a"),
        ("* * L * *", r"failed to parse int from L"),
        ("-1 * * * *", r"failed to parse int from "),
        ("@never", r"unrecognized descriptor: @never"),
    ],
)
def test_what_is_no_schedule(text: str, message: str) -> None:
    with pytest.raises(CronError, match=message):
        cron.parse(text)


def test_a_number_of_thousands_of_digits_is_out_of_range():
    with pytest.raises(CronError, match="value out of range"):
        cron.parse("0 0 1 1/" + "3" * 5000 + " *")
