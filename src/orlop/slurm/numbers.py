"""Reads numbers, times and named fields as Slurm's commands print them, or as users write them.

Used by everything that reads such words; pure, and linear in what it reads. What is no number, or
more than Slurm has anywhere, is none: a line of a job that is named or exits oddly must not keep
others from being read.
"""

from __future__ import annotations

import re

MOST_DIGITS = 18
DIGITS = rf"\d{{1,{MOST_DIGITS}}}"  # of a number, in patterns
_BEGINNING = re.compile(rf"{DIGITS}(?!\d)")
_LAST = 253402300799  # the last second of the year 9999


def whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def leading(text: str) -> int:
    """Return the number that a text begins with, as `8+` does; 0 where it begins with none."""
    found = _BEGINNING.match(text)
    return int(found.group()) if found else 0


def moment(text: str) -> float | None:
    """Return a time as seconds; 0 is none."""
    found = whole(text)
    return float(found) if found and found <= _LAST else None


def fields(text: str) -> dict[str, str]:
    """Return what `scontrol -o show` says as Name=value, one word each."""
    return dict(word.split("=", 1) for word in text.split() if "=" in word)
