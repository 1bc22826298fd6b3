"""Replaces pods of services before their job's time limit ends them.

Called by the controller manager with the key of a pod whenever it changes, and again when its time
has come. A pod of a ReplicaSet is marked here: its ReplicaSet makes another, and lets the marked
one go when the other is available. A pod of a StatefulSet is evicted, one at a time while all
others are well, because no two pods may have its name. Pods without a limit, or that do not want
it, stay; so does every other kind of pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from ... import errors
from ...api import times
from ...api.gangs import mark_of
from ...api.kinds import POD, REPLICA_SET, STATEFUL_SET
from ...api.objects import (
    Key,
    Obj,
    annotations_of,
    condition_of,
    controller_of,
    is_deleting,
    is_terminal,
    key_of,
    meta,
    phase_of,
    uid_of,
)
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...settings import WallTimeSettings
from ...wellknown import ALLOCATED, END_TIME, EXPIRING, REPLACE
from ..framework.controller import BY_CONTROLLER, Loop, Result, by_controller
from .pod_control import eviction_of, is_expiring
from .statefulset.pods import is_healthy, ordinal_of, ordinals_of

AGAIN = 5.0  # seconds until a pod that may not go yet is looked at again
MOST = 0.5  # of its time a pod may have a successor, however long others waited
MOST_ASKED = 0.9  # and where the pod itself says how long


class Successors(Loop[Key]):
    name: ClassVar[str] = "wall-time-controller"

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        clock: Clock | None = None,
        settings: WallTimeSettings | None = None,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._settings = settings or WallTimeSettings()
        self._sets = informers.informer(STATEFUL_SET)
        self._pods = informers.informer(POD)
        self._pods.add_index(BY_CONTROLLER, by_controller)
        self.watch(self._sets, lambda event, previous: ())
        self.watch(self._pods, self._pod_changed)

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        pod = event.object
        is_news = previous is None or _face(previous) != _face(pod)
        if event.type == "DELETED" or not is_news or END_TIME not in annotations_of(pod):
            return ()
        return (key_of(pod),) if self._settings.replace else ()

    async def reconcile(self, key: Key) -> Result:
        pod = self._pods.get(key)
        if pod is None or is_deleting(pod) or phase_of(pod) != "Running" or not _may_go(pod):
            return Result.done()
        owner = controller_of(pod)
        if owner is None or not owner["apiVersion"].startswith(REPLICA_SET.group + "/"):
            return Result.done()
        if owner["kind"] == REPLICA_SET.kind:
            return await self._of_replica_set(pod, owner)
        if owner["kind"] == STATEFUL_SET.kind:
            return await self._of_stateful_set(pod, owner)
        return Result.done()

    async def _of_replica_set(self, pod: Obj, owner: Obj) -> Result:
        if is_expiring(pod):
            return Result.done()
        left = self._left(pod, self._lead(pod, owner))
        if left > 0:
            return Result.again(left)
        end = annotations_of(pod)[END_TIME]
        patch = {"metadata": {"uid": uid_of(pod), "annotations": {EXPIRING: uid_of(pod)}}}
        await self.api.patch(POD, key_of(pod), patch)
        words = f"The time limit of its job ends at {end}: another pod takes its place first"
        await self.recorder.event(pod, "Normal", "Expiring", words)
        return Result.done()

    async def _of_stateful_set(self, pod: Obj, owner: Obj) -> Result:
        """Replace the highest ordinal first, as in an update; a set of one gains nothing by it."""
        stateful_set = self._sets.get(Key(key_of(pod).namespace, owner["name"]))
        if stateful_set is None or uid_of(stateful_set) != owner["uid"]:
            return Result.done()
        ordinals = ordinals_of(stateful_set)
        ordinal = ordinal_of(pod, stateful_set)
        if ordinal is None or len(ordinals) < 2 or ordinal not in ordinals:
            return Result.done()
        each = min(self._lead(pod, owner), self._most(pod) / len(ordinals))
        left = self._left(pod, each * (ordinals.index(ordinal) + 1))
        if left > 0:
            return Result.again(left)
        pods = self._pods.by_index(BY_CONTROLLER, owner["uid"])
        if not self._are_well(stateful_set, pods):
            return Result.again(AGAIN)
        return await self._evict(pod)

    def _are_well(self, stateful_set: Obj, pods: Sequence[Obj]) -> bool:
        now = self.clock.now()
        well = [pod for pod in pods if is_healthy(pod, stateful_set, now)]
        return len(well) >= len(ordinals_of(stateful_set))

    async def _evict(self, pod: Obj) -> Result:
        end = annotations_of(pod)[END_TIME]
        try:
            await self.api.create_subresource(POD, key_of(pod), "eviction", eviction_of(pod))
        except errors.TooManyRequests:
            return Result.again(AGAIN)
        words = f"The time limit of its job ends at {end}: it is made anew while all others run"
        await self.recorder.event(pod, "Normal", "Expiring", words)
        await self._pods.gone(pod)
        return Result.done()

    # When

    def _left(self, pod: Obj, lead: float) -> float:
        """Return the seconds until the pod is to be replaced."""
        return times.parse(annotations_of(pod)[END_TIME]) - lead - self.clock.now()

    def _lead(self, pod: Obj, owner: Obj) -> float:
        """Return the seconds that a successor needs: to wait in the queue, and to start."""
        asked = annotations_of(pod).get(REPLACE, "")
        if asked.isdecimal():
            return min(float(asked), self._most(pod, MOST_ASKED))
        waits = [_wait(one) for one in self._pods.by_index(BY_CONTROLLER, owner["uid"])]
        longest = max(waits, default=0.0) * self._settings.waits
        return min(max(self._settings.lead, longest), self._most(pod))

    def _most(self, pod: Obj, part: float = MOST) -> float:
        since = _since(pod, (condition_of(pod, ALLOCATED) or {}).get("lastTransitionTime"))
        return max(times.parse(annotations_of(pod)[END_TIME]) - since, 0.0) * part


def _may_go(pod: Obj) -> bool:
    """Return whether it may go; a gang's member would get a successor in the same job."""
    annotations = annotations_of(pod)
    is_wanted = annotations.get(REPLACE, "true").lower() not in ("false", "no")
    return END_TIME in annotations and is_wanted and mark_of(pod) is None and not is_terminal(pod)


def _wait(pod: Obj) -> float:
    """Return how long a pod was without a machine."""
    allocated = condition_of(pod, ALLOCATED) or {}
    if allocated.get("status") != "True":
        return 0.0
    made = _since(pod, meta(pod).get("creationTimestamp"))
    return max(_since(pod, allocated.get("lastTransitionTime")) - made, 0.0)


def _since(pod: Obj, text: str | None) -> float:
    started = text or (pod.get("status") or {}).get("startTime")
    return times.parse(started) if started else 0.0


def _face(pod: Obj) -> tuple[object, ...]:
    annotations = annotations_of(pod)
    ours = tuple(annotations.get(name) for name in (END_TIME, EXPIRING, REPLACE))
    return (*ours, phase_of(pod), meta(pod).get("deletionTimestamp"))
