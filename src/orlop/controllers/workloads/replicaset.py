"""Keeps the number of pods of a ReplicaSet at `spec.replicas`.

Called by the controller manager with the key of a ReplicaSet whenever it, or a pod it owns,
changes. It reads from informer caches and writes through the API. As
pkg/controller/replicaset/replica_set.go, but instead of counting expectations it waits for its
cache to reach the revision of its last write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ... import errors
from ...api import selectors
from ...api.kinds import POD, REPLICA_SET
from ...api.objects import (
    Key,
    Obj,
    controller_of,
    is_active,
    is_deleting,
    is_ready,
    labels_of,
    meta,
    uid_of,
)
from ...client.api import Api
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import BY_CONTROLLER, Controller, Result, by_controller
from ..framework.status import condition, with_condition, without_condition
from .controller_ref import Claims
from .deletion_order import cheapest_first
from .pod_control import (
    BURST,
    PodControl,
    is_available,
    is_expiring,
    pod_from_template,
    seconds_until_available,
    watched_fields,
)

FAILURE = "ReplicaFailure"
BUDGET_RETRY = 5.0  # seconds until a disruption budget is asked again


class ReplicaSets(Controller):
    name = "replicaset-controller"
    kind = REPLICA_SET
    owns = (POD,)
    adopts = True
    face = watched_fields

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.pods = informers.informer(POD)
        self.objects.add_index(BY_CONTROLLER, by_controller)
        self._claims = Claims(api, self.pods, REPLICA_SET)
        self._control = PodControl(api, self.pods, self.recorder)

    async def reconcile(self, key: Key) -> Result:
        replica_set = self.objects.get(key)
        if replica_set is None:
            return Result.done()
        selector = selectors.from_structure(replica_set["spec"].get("selector"))
        active = await self._claims.claim(replica_set, selector, wanted=is_active)
        failure: errors.ApiError | None = None
        is_partial = False
        expired = Result.done()
        if not is_deleting(replica_set):
            staying = [pod for pod in active if not is_expiring(pod)]
            try:
                is_partial = await self._scale(replica_set, staying)
                expired = await self._expire(replica_set, active, staying)
            except errors.ApiError as error:
                failure = error
        result = await self._write_status(replica_set, failure)
        if failure is not None:
            raise failure
        return Result.again(0) if is_partial else result.sooner(expired)

    async def _scale(self, replica_set: Obj, active: Sequence[Obj]) -> bool:
        """Make or delete pods; return whether more are left than one reconcile should do."""
        missing = replica_set["spec"].get("replicas", 1) - len(active)
        if missing > 0:
            template = replica_set["spec"]["template"]
            pods = [pod_from_template(template, replica_set) for _ in range(min(missing, BURST))]
            await self._control.create(replica_set, pods)
        elif missing < 0:
            related = self._related(replica_set)
            surplus = cheapest_first(active, related, self.clock.now())[: min(-missing, BURST)]
            await self._control.delete(replica_set, surplus)
        return bool(abs(missing) > BURST)

    async def _expire(
        self, replica_set: Obj, active: Sequence[Obj], staying: Sequence[Obj]
    ) -> Result:
        """Delete pods whose time limit is near, as far as others have taken their place."""
        expiring = [pod for pod in active if is_expiring(pod)]
        if not expiring:
            return Result.done()
        replicas, now = replica_set["spec"].get("replicas", 1), self.clock.now()
        min_ready = replica_set["spec"].get("minReadySeconds", 0)
        available = sum(is_available(pod, min_ready, now) for pod in staying)
        kept = min(max(replicas - available, 0), len(expiring))
        leaving = cheapest_first(expiring, active, now)[: len(expiring) - kept]
        if not replicas:
            await self._control.delete(replica_set, leaving)
            return Result.done()
        gone = [await self._control.evict(replica_set, pod) for pod in leaving]
        return Result.done() if all(gone) else Result.again(BUDGET_RETRY)

    def _related(self, replica_set: Obj) -> list[Obj]:
        """Return the pods of all ReplicaSets of the same owner: they share its nodes."""
        owner = controller_of(replica_set)
        siblings = self.objects.by_index(BY_CONTROLLER, owner["uid"]) if owner else [replica_set]
        return [
            pod
            for sibling in siblings
            for pod in self.pods.by_index(BY_CONTROLLER, uid_of(sibling))
        ]

    async def _write_status(self, replica_set: Obj, failure: errors.ApiError | None) -> Result:
        """Write what is there now, our own writes included."""
        pods = self.pods.by_index(BY_CONTROLLER, uid_of(replica_set))
        active = [pod for pod in pods if is_active(pod)]
        seen = _observe(replica_set, active, self.clock.now())
        status = {**seen.counts, "observedGeneration": meta(replica_set).get("generation", 0)}
        conditions = self._conditions(replica_set, active, failure)
        if conditions:
            status["conditions"] = conditions
        await self.write_status(replica_set, status)
        return Result(seen.next_available)

    def _conditions(
        self, replica_set: Obj, active: Sequence[Obj], failure: errors.ApiError | None
    ) -> list[Obj]:
        conditions = (replica_set.get("status") or {}).get("conditions") or []
        if failure is None:
            return without_condition(conditions, FAILURE)
        missing = replica_set["spec"].get("replicas", 1) > len(active)
        reason = "FailedCreate" if missing else "FailedDelete"
        now = self.clock.now()
        return with_condition(conditions, condition(FAILURE, "True", reason, failure.message, now))


class _Seen(NamedTuple):
    counts: Obj
    next_available: float | None  # seconds until another ready pod counts as available


def _observe(replica_set: Obj, active: Sequence[Obj], now: float) -> _Seen:
    """Count as calculateStatus: zeros are left out, but for `replicas`."""
    min_ready = replica_set["spec"].get("minReadySeconds", 0)
    wanted = labels_of(replica_set["spec"]["template"]).items()
    labelled = ready = available = 0
    waits: list[float] = []
    for pod in active:
        labelled += wanted <= labels_of(pod).items()
        if not is_ready(pod):
            continue
        ready += 1
        wait = seconds_until_available(pod, min_ready, now) if min_ready else 0.0
        if wait > 0:
            waits.append(wait)
        else:
            available += 1
    counts = {
        "fullyLabeledReplicas": labelled,
        "readyReplicas": ready,
        "availableReplicas": available,
    }
    nonzero = {name: count for name, count in counts.items() if count}
    return _Seen({"replicas": len(active), **nonzero}, min(waits, default=None))
