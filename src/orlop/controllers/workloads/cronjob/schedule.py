"""Computes when a schedule fires, in its time zone: the next moment, and the last ones missed.

Used by the CronJob controller. Pure; moments are Unix times. A wall-clock time that daylight saving
leaps over does not exist and is left out, one that it repeats fires each time, as robfig/cron does.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import islice
from typing import NamedTuple

from ....api.cron import Schedule

_YEARS = 5  # a schedule that does not fire within these (30 February) never does
TOO_MANY = 100  # missed times after which upstream warns


class Missed(NamedTuple):
    """The last moment that should have fired, and whether suspiciously many did not."""

    last: float | None
    is_too_many: bool


def fire_times(schedule: Schedule, zone: tzinfo, after: float) -> Iterator[float]:
    """Yield all moments later than `after`, in order."""
    if not schedule.hours or not schedule.minutes:  # as of `, * * * *`: no moment of any day
        return
    day = datetime.fromtimestamp(after, zone).date()
    idle = 0
    while idle < 366 * _YEARS:
        idle += 1
        if schedule.matches_day(day.month, day.day, day.isoweekday() % 7):
            idle = 0
            for hour in sorted(schedule.hours):
                moments = {
                    moment
                    for minute in schedule.minutes
                    for moment in _moments(day, hour, minute, zone)
                }
                yield from (moment for moment in sorted(moments) if moment > after)
        day += timedelta(days=1)


def _moments(day: date, hour: int, minute: int, zone: tzinfo) -> Iterator[float]:
    """Yield the Unix times at which a clock in the zone shows this: none, one or two."""
    for fold in (0, 1):
        wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone, fold=fold)
        back = wall.astimezone(UTC).astimezone(zone)
        if (back.hour, back.minute) == (hour, minute):
            yield wall.timestamp()


def next_time(schedule: Schedule, zone: tzinfo, after: float) -> float | None:
    """Return the first moment later than `after`; None for a schedule that does not fire."""
    return next(fire_times(schedule, zone, after), None)


def missed(schedule: Schedule, zone: tzinfo, since: float, now: float) -> Missed:
    """Return the latest moment in (since, now], in a few steps however long ago `since` is."""
    first = list(islice(fire_times(schedule, zone, since), TOO_MANY + 1))
    due = [moment for moment in first if moment <= now]
    if len(due) <= TOO_MANY:
        return Missed(due[-1] if due else None, False)
    # Look back from now, a day, a week, a year: only the latest one matters.
    for days in (1, 8, 32, 367, 366 * _YEARS):
        start = max(since, now - days * 86_400)
        recent = _last_until(schedule, zone, start, now)
        if recent is not None:
            return Missed(recent, True)
    return Missed(due[-1], True)


def _last_until(schedule: Schedule, zone: tzinfo, start: float, now: float) -> float | None:
    last: float | None = None
    for moment in fire_times(schedule, zone, start):
        if moment > now:
            break
        last = moment
    return last
