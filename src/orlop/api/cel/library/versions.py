"""Semantic versions: semver, isSemver, and what they are compared by.

Read by the library's table. As apiserver/pkg/cel/library/semverlib.go; a version is ordered as
semver.org has it, build metadata aside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

from ..errors import CelError

_NUMBER = r"(0|[1-9]\d*)"
_WORD = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORD}(?:\.{_WORD})*))?(?:\+[0-9A-Za-z.-]+)?"
)
_LOOSE = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?([-+].*)?")


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    numbers: tuple[int, int, int]
    before: tuple[str, ...]  # the words of a pre-release
    cel_type = "kubernetes.Semver"

    @property
    def _order(self) -> tuple[Any, ...]:
        words = [(0, int(w), "") if w.isdecimal() else (1, 0, w) for w in self.before]
        return (*self.numbers, not self.before, words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._order == other._order

    def __hash__(self) -> int:
        return hash((self.numbers, self.before))

    def __lt__(self, other: Version) -> bool:
        return self._order < other._order


def parse(text: Any, normalize: Any = False) -> Version:
    if type(text) is not str or type(normalize) is not bool:
        raise CelError("no such overload")
    match = _SEMVER.fullmatch(_normal(text) if normalize else text)
    if match is None:
        raise CelError(f"semver parse error: {text!r} is no version such as 1.2.3")
    major, minor, patch, before = match.groups()
    return Version((int(major), int(minor), int(patch)), tuple((before or "").split("."))
                   if before else ())  # fmt: skip


def _normal(text: str) -> str:
    """Bring `v1.02` into its normal form, 1.2.0."""
    match = _LOOSE.fullmatch(text)
    if match is None:
        return text
    numbers = [str(int(one or 0)) for one in match.groups()[:3]]
    return ".".join(numbers) + (match[4] or "")


def _is(text: Any, normalize: Any = False) -> bool:
    try:
        parse(text, normalize)
    except CelError:
        if type(text) is not str or type(normalize) is not bool:
            raise
        return False
    return True


def _number(place: int) -> Callable[[Any], int]:
    def number(value: Any) -> int:
        if not isinstance(value, Version):
            raise CelError("no such overload")
        return value.numbers[place]

    return number


FUNCTIONS: dict[str, Callable[..., Any]] = {"semver": parse, "isSemver": _is}
METHODS: dict[str, Callable[..., Any]] = {
    "major": _number(0),
    "minor": _number(1),
    "patch": _number(2),
}
