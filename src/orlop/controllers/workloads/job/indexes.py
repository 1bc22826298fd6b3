"""Reads and writes the completion indexes of Indexed Jobs: short text of a set, `1,3-5,7`.

Used where a Job's status keeps which indexes have succeeded or failed. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from ....api.objects import Obj, annotations_of
from ....wellknown import RESTART_COUNT

INDEX = "batch.kubernetes.io/job-completion-index"  # annotation and label of a pod
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
_DIGITS = 10  # of the largest int32


class IndexSet:
    """A set of indexes, kept as runs: two thousand million in a row take no more than one."""

    __slots__ = ("_firsts", "runs")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        merged: list[tuple[int, int]] = []
        for first, last in sorted(run for run in runs if run[0] <= run[1]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((first, last))
        self.runs = tuple(merged)
        self._firsts = [first for first, _ in merged]

    @classmethod
    def of(cls, indexes: Iterable[int]) -> IndexSet:
        return cls((index, index) for index in indexes)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        at = bisect_right(self._firsts, index) - 1
        return at >= 0 and index <= self.runs[at][1]

    def __eq__(self, other: object) -> bool:
        return self.runs == (other.runs if isinstance(other, IndexSet) else None)

    def __hash__(self) -> int:
        return hash(self.runs)

    def __or__(self, other: IndexSet) -> IndexSet:
        return IndexSet((*self.runs, *other.runs))

    def __and__(self, other: IndexSet) -> IndexSet:
        return self - (self - other)

    def __sub__(self, other: IndexSet) -> IndexSet:
        if not other.runs:
            return self
        left: list[tuple[int, int]] = []
        ends = [last for _, last in other.runs]
        for first, last in self.runs:
            at = bisect_left(ends, first)
            while at < len(ends) and other.runs[at][0] <= last:
                left.append((first, other.runs[at][0] - 1))
                first = ends[at] + 1
                at += 1
            left.append((first, last))
        return IndexSet(left)

    def missing(self, count: int) -> Iterator[int]:
        """Yield the indexes below `count` that are not in the set, in order."""
        first = 0
        for start, last in self.runs:
            yield from range(first, min(start, count))
            first = last + 1
        yield from range(first, count)

    def __str__(self) -> str:
        """Write single ones and pairs with a comma, longer runs with a dash, as upstream does."""
        return ",".join(_run(first, last) for first, last in self.runs)


NO_INDEXES = IndexSet()


def parse_indexes(text: str, completions: int) -> IndexSet:
    """Return the indexes in `text` below `completions`; a Job may have shrunk since.

    What is no list of indexes counts as none: a status may be written by others.
    """
    runs: list[tuple[int, int]] = []
    for part in filter(None, text.split(",")):
        first, last = (_number(word) for word in (part.partition("-")[::2]))
        if first is None or ("-" in part and last is None):
            return NO_INDEXES
        runs.append((first, min(first if last is None else last, completions - 1)))
    return IndexSet(runs)


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def _number(text: str) -> int | None:
    """Read a number of at most as many digits as an int32 has."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def index_of(pod: Obj) -> int | None:
    """Return the completion index of a pod; None where it has none that can be read."""
    return _number(annotations_of(pod).get(INDEX, ""))


def failures_of(pod: Obj) -> int:
    """Return how often its index had failed before this pod was made."""
    return _number(annotations_of(pod).get(FAILURES, "")) or 0


def ignored_of(pod: Obj) -> int:
    return _number(annotations_of(pod).get(IGNORED, "")) or 0


def restarts_of(pod: Obj) -> int:
    """Return how many pods before it met their time limit, and were followed by another."""
    return _number(annotations_of(pod).get(RESTART_COUNT, "")) or 0
