"""Times on the wire, and ages as kubectl shows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.api import times

NOON = 1_767_355_445.0  # 2026-01-02T12:04:05Z


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (NOON, "2026-01-02T12:04:05Z"),
        (NOON + 0.999, "2026-01-02T12:04:05Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (-0.5, "1969-12-31T23:59:59Z"),
    ],
)
def test_times_are_cut_to_the_second(seconds: float, text: str) -> None:
    assert times.rfc3339(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (NOON, "2026-01-02T12:04:05.000000Z"),
        (NOON + 0.25, "2026-01-02T12:04:05.250000Z"),
        (0.000001, "1970-01-01T00:00:00.000001Z"),
    ],
)
def test_micro_times_have_six_digits(seconds: float, text: str) -> None:
    assert times.rfc3339_micro(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-02T12:04:05Z", NOON),
        ("2026-01-02T14:04:05+02:00", NOON),
        ("2026-01-02T06:34:05-05:30", NOON),
        ("2026-01-02T12:04:05.5Z", NOON + 0.5),
        ("2026-01-02T12:04:05.123456789Z", NOON + 0.123456789),
    ],
)
def test_reading_times(text: str, seconds: float) -> None:
    assert times.parse(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-02",
        "2026-01-02T12:04:05",
        "2026-01-02 12:04:05Z",
        "2026-13-02T12:04:05Z",
        "2026-01-02T12:04:5Z",
        "2026-01-02T25:04:05+00:00",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        times.parse(text)


def test_canonical_times_are_utc() -> None:
    assert times.canonical("2026-01-02T14:04:05.7+02:00") == "2026-01-02T12:04:05Z"
    assert times.canonical_micro("2026-01-02T14:04:05.7+02:00") == "2026-01-02T12:04:05.700000Z"


@given(st.integers(0, 4_000_000_000))
def test_whole_seconds_survive_the_way_there_and_back(seconds: int) -> None:
    assert times.parse(times.rfc3339(seconds)) == seconds


MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 5, "2m5s"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 59, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + HOUR, "2d1h"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + HOUR, "8d"),
        (729 * DAY, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR + DAY, "8y"),
    ],
)
def test_ages_are_shown_as_kubectl_shows_them(seconds: float, text: str) -> None:
    assert times.human_duration(seconds) == text
