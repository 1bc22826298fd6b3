"""Sorts a Job and its pods at one moment: what runs, what ended, what is counted already.

Made at the start of each reconcile of a Job and read by all its decisions. Pure. The rule of
counting: a pod holds the tracking finalizer until its end is in the Job's status, so that each end
is in exactly one of status counters, uncountedTerminatedPods, or pods that still hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ....api import times
from ....api.objects import (
    Obj,
    condition_of,
    is_deleting,
    is_ready,
    is_terminal,
    meta,
    phase_of,
    uid_of,
)
from .failure_policy import is_ignored
from .indexes import IndexSet, index_of, parse_indexes

FINALIZER = "batch.kubernetes.io/job-tracking"


def is_tracked(pod: Obj) -> bool:
    return FINALIZER in (meta(pod).get("finalizers") or ())


def is_finished(job: Obj) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(
        one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions
    )


class JobView:
    """A Job and its pods, to be read; one per reconcile."""

    def __init__(self, job: Obj, pods: Sequence[Obj], now: float) -> None:
        self.job = job
        self.pods = pods
        self.now = now
        self.spec: Obj = job["spec"]
        self.status: Obj = job.get("status") or {}
        uncounted = self.status.get("uncountedTerminatedPods") or {}
        self.uncounted_succeeded: list[str] = uncounted.get("succeeded") or []
        self.uncounted_failed: list[str] = uncounted.get("failed") or []
        alive = [pod for pod in pods if not is_terminal(pod)]
        self.active = [pod for pod in alive if not is_deleting(pod)]
        self.terminating = [pod for pod in alive if is_deleting(pod)]
        self.tracked = [pod for pod in pods if is_tracked(pod)]

    def again(self, job: Obj, pods: Sequence[Obj], now: float) -> JobView:
        """Return a view of the same Job a moment later; this one where nothing has changed."""
        return self if job is self.job and pods == self.pods else JobView(job, pods, now)

    @property
    def is_suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def is_indexed(self) -> bool:
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def completions(self) -> int | None:
        completions = self.spec.get("completions")
        return None if completions is None else int(completions)

    @property
    def parallelism(self) -> int:
        return int(self.spec.get("parallelism", 1))

    @property
    def limit_per_index(self) -> int | None:
        limit = self.spec.get("backoffLimitPerIndex")
        return int(limit) if limit is not None and self.is_indexed else None

    @property
    def replaces_only_ended(self) -> bool:
        """Return whether a pod is replaced once it has ended, not when it is being deleted."""
        return (
            self.spec.get("podReplacementPolicy") == "Failed"
            or self.spec.get("podFailurePolicy") is not None
        )

    @cached_property
    def ready(self) -> int:
        return sum(is_ready(pod) for pod in self.active)

    @cached_property
    def _uncounted(self) -> frozenset[str]:
        return frozenset((*self.uncounted_succeeded, *self.uncounted_failed))

    def is_uncounted(self, pod: Obj) -> bool:
        """Return whether the pod's end is in the status, though not yet in its counters."""
        return uid_of(pod) in self._uncounted

    def is_failed(self, pod: Obj) -> bool:
        """Return whether it ended badly, or is being deleted and may not say how it ended."""
        if phase_of(pod) == "Failed":
            return True
        return not self.replaces_only_ended and is_deleting(pod) and phase_of(pod) != "Succeeded"

    def is_in_range(self, pod: Obj) -> bool:
        """Return whether the pod counts: any pod, or one of an index that the Job (still) has."""
        if not self.is_indexed:
            return True
        index = index_of(pod)
        return index is not None and index < (self.completions or 0)

    @cached_property
    def new_succeeded(self) -> list[Obj]:
        return [
            pod
            for pod in self.tracked
            if phase_of(pod) == "Succeeded" and not self.is_uncounted(pod) and self.is_in_range(pod)
        ]

    @cached_property
    def new_failed(self) -> list[Obj]:
        return [
            pod
            for pod in self.tracked
            if self.is_failed(pod)
            and not self.is_uncounted(pod)
            and self.is_in_range(pod)
            and not is_ignored(self.job, pod)
        ]

    @cached_property
    def counted_indexes(self) -> IndexSet:
        text = str(self.status.get("completedIndexes", ""))
        return parse_indexes(text, self.completions or 0)

    @cached_property
    def succeeded_indexes(self) -> IndexSet:
        """Return all that have succeeded, those not yet in the status included."""
        new = (index_of(pod) for pod in self.new_succeeded)
        return self.counted_indexes | IndexSet.of(index for index in new if index is not None)

    @property
    def succeeded(self) -> int:
        if self.is_indexed:
            return len(self.succeeded_indexes)
        counted = int(self.status.get("succeeded", 0))
        return counted + len(self.uncounted_succeeded) + len(self.new_succeeded)

    @property
    def failed(self) -> int:
        counted = int(self.status.get("failed", 0))
        return counted + len(self.uncounted_failed) + len(self.new_failed)

    @property
    def started(self) -> float | None:
        text = self.status.get("startTime")
        return times.parse(text) if text else None

    def finished_at(self, pod: Obj) -> float:
        """Return when a pod ended, as well as it can be known."""
        statuses = (pod.get("status") or {}).get("containerStatuses") or []
        states = [(one.get("state") or {}).get("terminated") or {} for one in statuses]
        ends = [state.get("finishedAt") for state in states]
        if ends and all(ends):
            return max(times.parse(str(end)) for end in ends)
        if is_deleting(pod):
            grace = meta(pod).get("deletionGracePeriodSeconds") or 0
            return times.parse(meta(pod)["deletionTimestamp"]) - grace
        ready = condition_of(pod, "Ready") or {}
        since = ready.get("lastTransitionTime")
        return times.parse(since) if since else self.now
