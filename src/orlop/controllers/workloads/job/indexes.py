"""Reads and writes the completion indexes of Indexed Jobs: short text of a set, `1,3-5,7`.

Used where a Job's status keeps which indexes have succeeded or failed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....api.objects import Obj, annotations_of
from ....wellknown import RESTART_COUNT

INDEX = "batch.kubernetes.io/job-completion-index"  # annotation and label of a pod
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def parse_indexes(text: str, completions: int) -> set[int]:
    """Return the indexes in `text` below `completions`; a Job may have shrunk since."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """Write single ones and pairs with a comma, longer runs with a dash, as upstream does."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(_run(first, last) for first, last in runs)


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def index_of(pod: Obj) -> int | None:
    """Return the completion index of a pod; None where it has none that can be read."""
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdecimal() else None


def failures_of(pod: Obj) -> int:
    """Return how often its index had failed before this pod was made."""
    text = annotations_of(pod).get(FAILURES, "")
    return int(text) if text.isdecimal() else 0


def ignored_of(pod: Obj) -> int:
    text = annotations_of(pod).get(IGNORED, "")
    return int(text) if text.isdecimal() else 0


def restarts_of(pod: Obj) -> int:
    """Return how many pods before it met their time limit, and were followed by another."""
    text = annotations_of(pod).get(RESTART_COUNT, "")
    return int(text) if text.isdecimal() else 0
