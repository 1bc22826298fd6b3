"""Schedules of CronJobs: the five fields of cron, and @hourly and its like.

Used by validation, and by whoever starts jobs. Reads what robfig/cron reads, which upstream uses:
names of months and days, steps, ranges, `?` for `*`, Sunday as 0; no seconds, no `L`, `#` or 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_DAYS = "sun mon tue wed thu fri sat"
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


_MOST_DIGITS = 18  # of what fits into 64 bits


class CronError(ValueError):
    """A text that is no schedule; the message is what upstream says."""


class _Bounds(NamedTuple):
    low: int
    high: int
    names: dict[str, int]


_MINUTES = _Bounds(0, 59, {})
_HOURS = _Bounds(0, 23, {})
_DAYS_OF_MONTH = _Bounds(1, 31, {})
_MONTHS_OF_YEAR = _Bounds(1, 12, {name: index + 1 for index, name in enumerate(_MONTHS.split())})
_DAYS_OF_WEEK = _Bounds(0, 6, {name: index for index, name in enumerate(_DAYS.split())})
_FIELDS = (_MINUTES, _HOURS, _DAYS_OF_MONTH, _MONTHS_OF_YEAR, _DAYS_OF_WEEK)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The minutes at which something happens."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days_of_month: frozenset[int]
    months: frozenset[int]
    days_of_week: frozenset[int]
    any_day_of_month: bool
    any_day_of_week: bool

    def matches_day(self, month: int, day: int, weekday: int) -> bool:
        """Return whether it happens at all on a day; Sunday is 0.

        Where both kinds of day are restricted either suffices, as cron has always had it.
        """
        if month not in self.months:
            return False
        by_month, by_week = day in self.days_of_month, weekday in self.days_of_week
        if self.any_day_of_month or self.any_day_of_week:
            return by_month and by_week
        return by_month or by_week


def parse(text: str) -> Schedule:
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise CronError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    words = text.split()
    if len(words) != 5:
        raise CronError(f"expected exactly 5 fields, found {len(words)}: [{' '.join(words)}]")
    sets = [_field(word, bounds) for word, bounds in zip(words, _FIELDS, strict=True)]
    return Schedule(
        sets[0], sets[1], sets[2], sets[3], sets[4],
        any_day_of_month=words[2][0] in "*?", any_day_of_week=words[4][0] in "*?",
    )  # fmt: skip


def _field(text: str, bounds: _Bounds) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        if part:
            values |= _range(part, bounds)
    return frozenset(values)


def _range(text: str, bounds: _Bounds) -> set[int]:
    span, *steps = text.split("/")
    low_text, *high_texts = span.split("-")
    if low_text in ("*", "?"):
        low, high = bounds.low, bounds.high
    else:
        low = _number(low_text, bounds)
        high = _number(high_texts[0], bounds) if high_texts else low
        if len(high_texts) > 1:
            raise CronError(f"too many hyphens: {text}")
    step = 1
    if len(steps) > 1:
        raise CronError(f"too many slashes: {text}")
    if steps:
        step = _number(steps[0], _Bounds(0, 10**9, {}))
        if not high_texts and low_text not in ("*", "?"):
            high = bounds.high  # "N/step" means from N on
    return _checked(low, high, step, text, bounds)


def _checked(low: int, high: int, step: int, text: str, bounds: _Bounds) -> set[int]:
    if low < bounds.low:
        raise CronError(f"beginning of range ({low}) below minimum ({bounds.low}): {text}")
    if high > bounds.high:
        raise CronError(f"end of range ({high}) above maximum ({bounds.high}): {text}")
    if low > high:
        raise CronError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise CronError(f"step of range should be a positive number: {text}")
    return set(range(low, high + 1, step))


def _number(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    if named is not None:
        return named
    if not text.isascii() or not text.isdigit():
        raise CronError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    if len(text) > _MOST_DIGITS:
        raise CronError(
            f"failed to parse int from {text[:40]}: strconv.Atoi: parsing "
            f'"{text[:40]}": value out of range'
        )
    return int(text)
