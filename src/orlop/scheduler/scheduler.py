"""Binds pods that name no node to one, or says in an Event and on the pod why it cannot.

Started by the composition; it looks after the pods whose schedulerName is its own, each when it
appears and again when nodes change. On our nodes Slurm does the placing: the scheduler chooses the
partition and never counts what is free. It never touches a pod that has a node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from .. import errors
from ..api.kinds import NODE, POD
from ..api.objects import (
    Key,
    Obj,
    annotations_of,
    condition_of,
    is_deleting,
    is_terminal,
    key_of,
    labels_of,
    meta,
)
from ..client.api import Api, WatchEvent
from ..client.clock import Clock, SystemClock
from ..client.informer import Informers
from ..client.recorder import Recorder
from ..client.workqueue import Backoff, WorkQueue
from ..log import logger
from .bind import bind, mark_unschedulable
from .filters import explain, refusal, wish_of
from .scores import best
from .volumes import PodVolumes

DEFAULT_SCHEDULER = "default-scheduler"
# As upstream's scheduling queue: 1 s to 10 s after a failed binding.
_BACKOFF = Backoff(first=1.0, longest=10.0)
_LOOK_AGAIN = 300.0  # seconds until a pod without a node is tried although nothing changed
_WORKERS = 32  # bindings under way at once: the store commits them together

log = logger(__name__)


class Scheduler:
    """One scheduler; several of different names live side by side."""

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        name: str = DEFAULT_SCHEDULER,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._name = name
        self._clock = clock or SystemClock()
        self._pods = informers.informer(POD)
        self._nodes = informers.informer(NODE)
        self._queue: WorkQueue[Key] = WorkQueue(
            backoff=_BACKOFF, clock=self._clock, name="scheduler"
        )
        self._recorder = Recorder(api, name, clock=self._clock)
        self._unschedulable: set[Key] = set()
        self._volumes = PodVolumes(api, informers, on_change=self._look_again)

    async def run(self) -> None:
        """Schedule until cancelled; no pod's failure ends it."""
        await self._nodes.synced()
        try:
            self._nodes.subscribe(self._node_changed)
            self._pods.subscribe(self._pod_changed)
            await self._pods.synced()
            await self._volumes.start()
            async with asyncio.TaskGroup() as group:
                for number in range(_WORKERS):
                    group.create_task(self._work(), name=f"scheduler {number}")
        finally:
            self._nodes.unsubscribe(self._node_changed)
            self._pods.unsubscribe(self._pod_changed)
            self._volumes.stop()
            self._queue.close()

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> None:
        key = key_of(event.object)
        if event.type == "DELETED" or not self._is_waiting(event.object):
            self._unschedulable.discard(key)
            self._queue.forget(key)
        elif previous is None or not _is_same_wish(event.object, previous):
            self._queue.add(key)

    def _node_changed(self, event: WatchEvent, previous: Obj | None) -> None:
        """Heartbeats change nothing; all else may help a pod that waits."""
        if (
            event.type != "DELETED"
            and previous is not None
            and _face(event.object) == _face(previous)
        ):
            return
        self._look_again(self._unschedulable)

    def _look_again(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if key in self._unschedulable:
                self._queue.add(key)

    def _is_waiting(self, pod: Obj) -> bool:
        spec = pod["spec"]
        return (
            not spec.get("nodeName")
            and (spec.get("schedulerName") or DEFAULT_SCHEDULER) == self._name
            and not spec.get("schedulingGates")
            and not is_terminal(pod)
            and not is_deleting(pod)
        )

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._try(key)
                await asyncio.sleep(0)  # a thousand pods must not have the loop for themselves
            finally:
                self._queue.done(key)

    async def _try(self, key: Key) -> None:
        try:
            await self._schedule(key)
        except (errors.NotFound, errors.Conflict) as error:
            # Gone, bound by another, or changed just now: the cache will tell.
            log.debug("pod changed meanwhile", pod=key, error=error)
            self._queue.add_rate_limited(key)
        except errors.Error as error:
            delay = self._queue.add_rate_limited(key)
            log.warning("scheduling failed", pod=key, error=error, again_in=f"{delay:.0f}s")
        except Exception:
            self._queue.add_rate_limited(key)
            log.error("scheduling broke", pod=key, exc_info=True)

    async def _schedule(self, key: Key) -> None:
        pod = self._pods.get(key)
        if pod is None or not self._is_waiting(pod):
            self._queue.forget(key)
            return
        wish = wish_of(pod)
        nodes = self._nodes.list()
        view = self._volumes.view(pod)
        if view.trouble:
            await self._give_up(pod, f"0/{len(nodes)} nodes are available: {view.trouble}.")
            return
        refusals = [refusal(wish, node) or view.refusal(node) for node in nodes]
        feasible = [node for node, reason in zip(nodes, refusals, strict=True) if not reason]
        if not feasible:
            await self._give_up(pod, explain(wish, nodes, refusals))
            return
        node = view.chosen(feasible) or best(pod, feasible)
        if not await self._volumes.bind(view, node):
            self._unschedulable.add(key)  # until its claims are bound
            return
        await bind(self._api, pod, node)
        self._unschedulable.discard(key)
        name = meta(node)["name"]
        log.debug("bound", pod=key, node=name)
        message = f"Successfully assigned {key} to {name}"
        await self._recorder.event(pod, "Normal", "Scheduled", message)

    async def _give_up(self, pod: Obj, message: str) -> None:
        """Until a node changes, or for a while."""
        key = key_of(pod)
        self._unschedulable.add(key)
        self._queue.add_after(key, _LOOK_AGAIN)
        await mark_unschedulable(self._api, pod, message, self._clock.now())
        await self._recorder.event(pod, "Warning", "FailedScheduling", message)


def _is_same_wish(pod: Obj, previous: Obj) -> bool:
    """Our own words on its status are no reason to try a pod again."""
    return bool(
        pod["spec"] == previous["spec"]
        and labels_of(pod) == labels_of(previous)
        and annotations_of(pod) == annotations_of(previous)
    )


def _face(node: Obj) -> tuple[object, ...]:
    """All of a node that filters and scores look at."""
    ready = condition_of(node, "Ready") or {}
    allocatable = (node.get("status") or {}).get("allocatable")
    return node.get("spec"), labels_of(node), allocatable, ready.get("status")
