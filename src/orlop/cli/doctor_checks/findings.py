"""The findings of `doctor`: each a sentence, and a remedy where it is not well.

Made by the checks, printed by `doctor`. A check that fails is a finding, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`ok`: as it should be. `note`: Orlop works, with less. `problem`: it cannot work."""

    level: Level
    subject: str
    found: str
    remedy: str = ""


def ok(subject: str, found: str) -> Finding:
    return Finding("ok", subject, found)


def note(subject: str, found: str, remedy: str) -> Finding:
    return Finding("note", subject, found, remedy)


def problem(subject: str, found: str, remedy: str) -> Finding:
    return Finding("problem", subject, found, remedy)
