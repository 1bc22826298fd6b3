"""Slurm's way of writing durations, as sbatch reads them and as squeue and sinfo print them.

Used where limits are compared or written into a script; pure. Limits are rounded up.
"""

from __future__ import annotations

import math
import re

from .numbers import DIGITS

UNLIMITED = math.inf
_UNLIMITED_WORDS = {"infinite", "unlimited", "-1"}
_NOTHING_WORDS = {"", "n/a", "none", "not_set", "partition_limit", "invalid", "unknown", "(null)"}
_SYNTAX = re.compile(rf"(?:({DIGITS})-)?({DIGITS})(?::({DIGITS}))?(?::({DIGITS}))?")


def seconds(text: str) -> float | None:
    """Return the seconds of `[days-]hours:minutes:seconds` and the shorter forms; None if it says
    none.

    As sbatch(1) --time: a lone number is minutes, two are minutes:seconds, but after `days-`
    the first number is hours.
    """
    word = text.strip().lower()
    if word in _UNLIMITED_WORDS:
        return UNLIMITED
    if word in _NOTHING_WORDS:
        return None
    match = _SYNTAX.fullmatch(word)
    if match is None:
        raise ValueError(f"{text[:50]!r} is no duration such as 30, 1:30:00 or 2-12:00:00")
    days, first, second, third = (int(part) if part else None for part in match.groups())
    one, two, three = first or 0, second or 0, third or 0
    if days is not None:
        return ((days * 24 + one) * 60 + two) * 60 + three
    if third is not None:
        return (one * 60 + two) * 60 + three
    return one * 60 + two


def limit(duration: float) -> str:
    """Return what --time takes for that many seconds: whole minutes, Slurm's resolution, rounded
    up.
    """
    if duration == UNLIMITED:
        return "UNLIMITED"
    minutes = max(1, math.ceil(duration / 60))
    days, rest = divmod(minutes, 24 * 60)
    hours, minutes = divmod(rest, 60)
    return f"{days}-{hours:02}:{minutes:02}:00" if days else f"{hours:02}:{minutes:02}:00"


def in_words(duration: float) -> str:
    """Return a duration for sentences: `2 days 3 h`, `5 min`."""
    if duration == UNLIMITED:
        return "unlimited"
    minutes = math.ceil(duration / 60)
    days, rest = divmod(minutes, 24 * 60)
    hours, minutes = divmod(rest, 60)
    parts = [(days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min")]
    return " ".join(f"{amount} {unit}" for amount, unit in parts if amount) or "0 min"
