"""Keeps what stands in a pod's way, tells it, and has the pod tried again after a while that grows.

Used by whatever starts pods. Pods that the engine has refused come back at times of their own, but
those of one owner together, so that they can be one job array.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ...api.objects import Obj, controller_of, key_of
from ...client.clock import Clock
from ...client.workqueue import Backoff, WorkQueue
from ..pod.events import Events
from ..pod.pods import PodState
from ..status.pod_status import PendingReason

_IMAGE = Backoff(first=10.0, longest=300.0)  # as upstream's image back-off
_CONFIG = Backoff(first=1.0, longest=30.0)
_REJECTED = Backoff(first=5.0, longest=300.0)
_DEFERRED = Backoff(first=2.0, longest=60.0)
_OTHERS = Backoff(first=0.5, longest=15.0)  # who waits for others is woken by them


@dataclass(frozen=True, slots=True)
class Backoffs:
    """The delays before another try, by what went wrong."""

    image: Backoff = _IMAGE
    config: Backoff = _CONFIG
    rejected: Backoff = _REJECTED
    deferred: Backoff = _DEFERRED
    others: Backoff = _OTHERS


@dataclass(frozen=True, slots=True)
class PodBackoff:
    events: Events
    queue: WorkQueue[str]
    clock: Clock
    delays: Backoffs

    def is_early(self, state: PodState) -> bool:
        """Return whether the pod's next try is not due yet; it is then looked at again."""
        left = state.retry_at - self.clock.now()
        if left > 0:
            self.queue.add_after(state.uid, left)  # what woke it may have taken that timer's place
        return left > 0

    def refuse(
        self,
        pod: Obj,
        state: PodState,
        trouble: PendingReason,
        event: tuple[str, str],
        retry: Backoff,
    ) -> None:
        """Keep what went wrong, tell it as the Event of that reason and message, and try again."""
        self.events.tell(pod, "Warning", *event)
        delay = retry.delay(state.failures)
        if trouble.by_engine:
            delay *= _spread(pod, state.failures)
        self._put_off(state, trouble, delay)

    def refuse_job(
        self, pod: Obj, state: PodState, reason: str, error: Exception, retry: Backoff
    ) -> None:
        """Do the same for what the engine has refused."""
        trouble = PendingReason(reason, str(error), by_engine=True)
        self.refuse(pod, state, trouble, (reason, str(error)), retry)

    def await_others(self, pod: Obj, state: PodState, reason: str, message: str) -> None:
        """Wait for others: said once, and looked at again when the last member of a gang comes, or
        a pod ends.
        """
        trouble = PendingReason(reason, message, by_engine=True)
        if state.trouble != trouble:
            self.events.tell(pod, "Normal", trouble.reason, message)
        self._put_off(state, trouble, self.delays.others.delay(state.failures))

    def _put_off(self, state: PodState, trouble: PendingReason, delay: float) -> None:
        state.trouble = trouble
        state.failures += 1
        state.retry_at = self.clock.now() + delay
        self.queue.add_after(state.uid, delay)


def _spread(pod: Obj, failures: int) -> float:
    """Return a factor from 1 to 1.5: pods of one owner, or of none, come back together, to be one
    array.
    """
    owner = controller_of(pod)
    whose = owner["uid"] if owner is not None else key_of(pod).namespace
    return 1.0 + random.Random(f"{whose} {failures}").random() / 2
