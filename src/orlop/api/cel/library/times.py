"""The functions timestamp() and duration(), and what can be asked of their values.

Part of the library. Parts of a timestamp are in UTC unless a time zone is given, by name or as an
offset; months and days count as CEL's specification has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ... import times
from ...formats import go_duration
from ..errors import CelError
from ..values import NANO, Duration, Timestamp, duration, timestamp

_FRACTION = re.compile(r"\.(\d{1,9})\d*")
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)")


def parse_timestamp(text: str) -> Timestamp:
    fraction = _FRACTION.search(text)
    try:
        seconds = times.parse(_FRACTION.sub("", text, count=1))
    except (ValueError, OverflowError) as error:
        raise CelError(f'invalid timestamp "{text}"') from error
    return timestamp(int(seconds) * NANO + (int(fraction[1].ljust(9, "0")) if fraction else 0))


def _timestamp(value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if type(value) is int:
        return timestamp(value * NANO)
    if type(value) is str:
        return parse_timestamp(value)
    raise CelError("no such overload")


def _duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    if type(value) is int:
        return duration(value)
    nanos = go_duration(value) if type(value) is str else None
    if nanos is None:
        raise CelError(f'time: invalid duration "{value}"')
    return duration(nanos)


def _zone(name: str) -> Any:
    match = _OFFSET.fullmatch(name)
    if match is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CelError(f"unknown time zone {name}") from error


def _part(of_time: Callable[[datetime], int], of_duration: int | None = None) -> Any:
    def get(value: Any, zone: str = "") -> int:
        if isinstance(value, Timestamp):
            moment = value.moment()
            return of_time(moment.astimezone(_zone(zone)) if zone else moment)
        if isinstance(value, Duration) and of_duration is not None and not zone:
            return int(value.nanos / of_duration)
        raise CelError("no such overload")

    return get


def _milliseconds(value: Any, zone: str = "") -> int:
    if isinstance(value, Timestamp):
        return value.nanos % NANO // 1_000_000
    if isinstance(value, Duration):
        return int(value.nanos / 1_000_000)
    raise CelError("no such overload")


FUNCTIONS: dict[str, Callable[..., Any]] = {"timestamp": _timestamp, "duration": _duration}
METHODS: dict[str, Callable[..., Any]] = {
    "getFullYear": _part(lambda moment: moment.year),
    "getMonth": _part(lambda moment: moment.month - 1),
    "getDate": _part(lambda moment: moment.day),
    "getDayOfMonth": _part(lambda moment: moment.day - 1),
    "getDayOfWeek": _part(lambda moment: moment.isoweekday() % 7),
    "getDayOfYear": _part(lambda moment: moment.timetuple().tm_yday - 1),
    "getHours": _part(lambda moment: moment.hour, 3600 * NANO),
    "getMinutes": _part(lambda moment: moment.minute, 60 * NANO),
    "getSeconds": _part(lambda moment: moment.second, NANO),
    "getMilliseconds": _milliseconds,
}
