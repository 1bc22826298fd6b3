"""Times on the wire: RFC 3339 in UTC, to the second (Time) or the microsecond (MicroTime).

Used by everything that stamps or reads an object; times are Unix seconds in between. Callers pass
the moment in: no clock is read here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SYNTAX = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:(Z)|([+-])(\d\d):(\d\d))"
)


def rfc3339(seconds: float) -> str:
    """Write `2026-01-02T15:04:05Z`: a metav1.Time, cut to the second."""
    return _whole_second(int(seconds // 1))


@lru_cache(maxsize=64)  # all writes of one second bear the same time
def _whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Write `2026-01-02T15:04:05.000000Z`: a metav1.MicroTime."""
    moment = _EPOCH + timedelta(microseconds=int(seconds * 1_000_000))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(text: str) -> float:
    """Return the Unix seconds of an RFC 3339 time; ValueError for anything else."""
    if len(text) == 20 and text[19] == "Z" and text[10] == "T":  # what the server itself writes
        return datetime.fromisoformat(text).timestamp()
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time as RFC 3339 writes it (2026-01-02T15:04:05Z)")
    year, month, day, hour, minute, second, fraction, utc, sign, off_h, off_m = match.groups()
    zone: timezone = UTC
    if utc is None:
        offset = timedelta(hours=int(off_h), minutes=int(off_m))
        zone = timezone(-offset if sign == "-" else offset)
    numbers = [int(part) for part in (year, month, day, hour, minute, second)]
    moment = datetime(*numbers, tzinfo=zone)  # type: ignore[arg-type,misc]
    return (moment - _EPOCH).total_seconds() + (float(f"0.{fraction}") if fraction else 0.0)


def canonical(text: str) -> str:
    """Return a metav1.Time as upstream stores it: UTC, whole seconds; ValueError if it is none."""
    try:
        return rfc3339(parse(text))
    except OverflowError:
        raise ValueError(f"{text!r} is outside of the years 1 to 9999") from None


def canonical_micro(text: str) -> str:
    try:
        return rfc3339_micro(parse(text))
    except OverflowError:
        raise ValueError(f"{text!r} is outside of the years 1 to 9999") from None


def human_duration(seconds: float) -> str:
    """Write `5m30s`, `3d4h`: how kubectl shows an age. As duration.HumanDuration."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    if years < 8:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
