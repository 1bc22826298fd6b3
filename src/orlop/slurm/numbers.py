"""Numbers and times as Slurm's commands print them.

Used by everything that reads what they print; pure. What is no number, or more than Slurm has
anywhere, is none: a line of a job that is named or exits oddly must not keep others from being
read.
"""

from __future__ import annotations

MOST_DIGITS = 18
_LAST = 253402300799  # the last second of the year 9999


def whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def moment(text: str) -> float | None:
    """A time, as seconds; 0 is none."""
    found = whole(text)
    return float(found) if found and found <= _LAST else None
