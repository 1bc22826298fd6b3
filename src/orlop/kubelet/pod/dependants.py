"""Wakes pods that wait for others: for members of their gang, what they depend on, a ConfigMap.

Filled where a pod's start finds that it must wait, called where a pod ends, a gang is complete or
an object has changed that a pod names. Who must wait, and for whom, is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...client.workqueue import WorkQueue
from .pods import Pods, PodState


class Dependants:
    def __init__(self, pods: Pods, queue: WorkQueue[str]) -> None:
        self._pods = pods
        self._queue = queue
        self._waiting: dict[str, set[str]] = {}  # uids, by namespace

    def add(self, state: PodState) -> None:
        """Keep a pod that waits for what it depends on."""
        self._waiting.setdefault(state.key.namespace, set()).add(state.uid)

    def on_end(self, namespace: str) -> None:
        """Look again at what depends on a pod that has ended, or soon on its Job."""
        self.wake(self._waiting.pop(namespace, set()))

    def wake(self, uids: Iterable[str]) -> None:
        """Wake those of the pods that have no job yet and wait for something."""
        for uid in uids:
            state = self._pods.get(uid)
            if state is not None and state.job_id is None and state.trouble is not None:
                state.failures, state.retry_at = 0, 0.0
                self._queue.add_after(uid, 0.0)
