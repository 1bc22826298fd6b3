"""Counts the ended pods of a Job so that none is lost and none counted twice.

Called by the Job controller. Pure; the order of the writes is the controller's: `count` puts the
newly ended into the status (uncountedTerminatedPods, or completedIndexes), which is written first;
then their finalizers go; then `settle` moves them into the counters. A crash between any two of
these is made good by doing them again. As pkg/controller/job: trackJobStatusAndRemoveFinalizers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ....api.objects import Obj, phase_of, uid_of
from .completion import Verdict, failed_indexes
from .failure_policy import is_ignored
from .indexes import IndexSet, failures_of, index_of
from .view import JobView

AT_ONCE = 500  # ends taken into one status, so that it stays a small object


class Tally(NamedTuple):
    status: Obj  # the Job's status with the newly ended in it
    release: list[Obj]  # pods whose finalizer may go once that status is written
    is_partial: bool  # more have ended than were taken in


def count(view: JobView, verdict: Verdict | None) -> Tally:
    """Take the pods that have ended into the status."""
    book = _Book(view, verdict)
    for pod in view.tracked:
        if book.is_full:
            break
        book.enter(pod)
    return Tally(book.status(), book.release, book.is_full)


class _Book:
    """The lists as they grow while one pod after the other is entered."""

    def __init__(self, view: JobView, verdict: Verdict | None) -> None:
        self._view = view
        self._verdict = verdict
        self._succeeded = list(view.uncounted_succeeded)
        self._failed = list(view.uncounted_failed)
        self._new_indexes: set[int] = set()
        self._held = held_failures(view)
        self._taken = 0
        self.release: list[Obj] = []

    @property
    def is_full(self) -> bool:
        return self._taken >= AT_ONCE

    def enter(self, pod: Obj) -> None:
        view, verdict = self._view, self._verdict
        if view.is_uncounted(pod):
            pass
        elif phase_of(pod) == "Succeeded":
            self._enter_success(pod)
        elif view.is_failed(pod) or (verdict is not None and verdict.type == "Failed"):
            # A Job that has failed takes its running pods down with it.
            self._enter_failure(pod)
        elif verdict is None:
            return  # still running
        if verdict is not None or uid_of(pod) not in self._held:
            self.release.append(pod)

    def _enter_success(self, pod: Obj) -> None:
        index = index_of(pod)
        if not self._view.is_in_range(pod):
            return
        if not self._view.is_indexed:
            self._succeeded.append(uid_of(pod))
            self._taken += 1
        elif index is not None and not self._has(index):
            self._new_indexes.add(index)
            self._taken += 1

    def _has(self, index: int) -> bool:
        return index in self._new_indexes or index in self._view.counted_indexes

    def _enter_failure(self, pod: Obj) -> None:
        if self._view.is_in_range(pod) and not is_ignored(self._view.job, pod):
            self._failed.append(uid_of(pod))
            self._taken += 1

    def status(self) -> Obj:
        status = dict(self._view.status)
        status["uncountedTerminatedPods"] = uncounted(self._succeeded, self._failed)
        if self._view.is_indexed:
            indexes = self._view.counted_indexes | IndexSet.of(self._new_indexes)
            status["succeeded"] = len(indexes)
            status["completedIndexes"] = str(indexes)
            if self._view.limit_per_index is not None:
                status["failedIndexes"] = str(failed_indexes(self._view))
        return _without_nothing(status)


def uncounted(succeeded: Collection[str], failed: Collection[str]) -> Obj:
    lists = {"succeeded": list(succeeded), "failed": list(failed)}
    return {name: uids for name, uids in lists.items() if uids}


def held_failures(view: JobView) -> dict[str, int]:
    """Return uids of failed pods that carry their index's failure count (backoffLimitPerIndex).

    The last failed pod of an index keeps its finalizer until its successor exists: its annotation
    says how often the index has failed.
    """
    if view.limit_per_index is None:
        return {}
    last: dict[int, Obj] = {}
    for pod in view.tracked:
        index = index_of(pod)
        if index is None or not view.is_in_range(pod):
            continue
        if index not in last or failures_of(pod) >= failures_of(last[index]):
            last[index] = pod
    over = view.succeeded_indexes | failed_indexes(view)
    return {
        uid_of(pod): index
        for index, pod in last.items()
        if index not in over and view.is_failed(pod)
    }


def settle(status: Obj, tracked: Collection[str], *, is_indexed: bool) -> Obj:
    """Move the ends of pods that no longer hold the finalizer into the counters."""
    lists = status.get("uncountedTerminatedPods") or {}
    succeeded, failed = lists.get("succeeded") or [], lists.get("failed") or []
    still_succeeded = [uid for uid in succeeded if uid in tracked]
    still_failed = [uid for uid in failed if uid in tracked]
    settled = dict(status)
    settled["uncountedTerminatedPods"] = uncounted(still_succeeded, still_failed)
    settled["failed"] = status.get("failed", 0) + len(failed) - len(still_failed)
    if not is_indexed:
        moved = len(succeeded) - len(still_succeeded)
        settled["succeeded"] = status.get("succeeded", 0) + moved
    return _without_nothing(settled)


def _without_nothing(status: Obj) -> Obj:
    """Drop zero counters and empty texts, which are absent on the wire."""
    optional = ("succeeded", "failed", "active", "completedIndexes")
    return {name: value for name, value in status.items() if value or name not in optional}
