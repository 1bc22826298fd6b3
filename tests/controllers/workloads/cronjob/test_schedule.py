"""When schedules fire, also where clocks leap."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from orlop.api.cron import parse
from orlop.controllers.workloads.cronjob.schedule import fire_times, missed, next_time

NEW_YORK, BERLIN, KOLKATA = map(ZoneInfo, ("America/New_York", "Europe/Berlin", "Asia/Kolkata"))


def at(text: str, zone=UTC) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-03-01 12:00:00", "2026-03-01 12:01:00"),
        ("* * * * *", "2026-03-01 12:00:30", "2026-03-01 12:01:00"),
        ("*/15 * * * *", "2026-03-01 12:59:00", "2026-03-01 13:00:00"),
        ("@hourly", "2026-03-01 23:30:00", "2026-03-02 00:00:00"),
        ("30 4 1 * *", "2026-03-01 04:30:00", "2026-04-01 04:30:00"),
        ("0 0 29 2 *", "2026-03-01 00:00:00", "2028-02-29 00:00:00"),
        ("0 9 * * mon-fri", "2026-03-06 10:00:00", "2026-03-09 09:00:00"),
        ("0 0 13 * 5", "2026-03-07 00:00:00", "2026-03-13 00:00:00"),
    ],
)
def test_the_next_time(schedule, after, expected):
    assert next_time(parse(schedule), UTC, at(after)) == at(expected)


def test_a_day_that_never_comes():
    assert next_time(parse("0 0 30 2 *"), UTC, at("2026-01-01 00:00:00")) is None


@pytest.mark.parametrize("zone", [NEW_YORK, BERLIN, KOLKATA])
def test_a_schedule_is_in_its_own_zone(zone):
    found = next_time(parse("0 9 * * *"), zone, at("2026-06-10 12:00:00", zone))
    assert found == at("2026-06-11 09:00:00", zone)


def test_a_time_that_is_leapt_over_does_not_fire():
    times = list(
        islice(fire_times(parse("30 2 * * *"), NEW_YORK, at("2026-03-07 00:00", NEW_YORK)), 2)
    )
    assert times == [at("2026-03-07 02:30", NEW_YORK), at("2026-03-09 02:30", NEW_YORK)]


def test_a_time_that_comes_twice_fires_twice():
    start = at("2026-11-01 00:00", NEW_YORK)
    times = list(islice(fire_times(parse("30 1 * * *"), NEW_YORK, start), 3))
    assert [t - times[0] for t in times] == [0, 3600, 25 * 3600]


def test_through_a_change_of_clocks_an_hourly_schedule_stays_hourly():
    for start in (at("2026-03-08 00:00", NEW_YORK), at("2026-11-01 00:00", NEW_YORK)):
        times = list(islice(fire_times(parse("0 * * * *"), NEW_YORK, start), 8))
        assert [t - times[0] for t in times] == [3600 * n for n in range(8)]


@pytest.mark.parametrize(
    ("schedule", "since", "now", "last", "many"),
    [
        ("0 * * * *", "2026-03-01 12:00", "2026-03-01 12:59", None, False),
        ("0 * * * *", "2026-03-01 12:00", "2026-03-01 13:00", "2026-03-01 13:00", False),
        ("0 * * * *", "2026-03-01 12:00", "2026-03-01 15:30", "2026-03-01 15:00", False),
        ("* * * * *", "2026-01-01 12:00", "2026-03-01 15:30", "2026-03-01 15:30", True),
        ("0 0 1 * *", "2000-01-01 12:00", "2026-03-05 15:30", "2026-03-01 00:00", True),
    ],
    ids=["none", "just now", "the latest of three", "minutes over weeks", "months over years"],
)
def test_the_last_missed_time(schedule, since, now, last, many):
    found = missed(parse(schedule), UTC, at(since), at(now))
    assert found == (at(last) if last else None, many)


def test_a_schedule_that_slept_for_years_is_still_quickly_read():
    began = time.process_time()
    missed(parse("* * * * *"), UTC, at("2000-01-01 00:00"), at("2026-01-01 00:00"))
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("schedule", ["0 , * * *", ", * * * *", ", , * * ?"])
def test_a_schedule_without_any_hour_or_minute_is_never_due_and_known_at_once(schedule):
    began = time.process_time()
    assert next_time(parse(schedule), UTC, 1.7e9) is None
    assert missed(parse(schedule), UTC, 1.6e9, 1.7e9) == (None, False)
    assert time.process_time() - began < 0.1
