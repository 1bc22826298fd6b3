"""Keeps the pods of a StatefulSet, each with its own name and its own volumes.

Called by the controller manager with the key of a StatefulSet whenever it, or one of its pods,
changes. It makes claims and pods in order and ends them in reverse; a pod's data stays, unless the
set's retention policy says otherwise. As pkg/controller/statefulset.
"""

from __future__ import annotations

from collections.abc import Sequence

from .... import errors
from ....api import selectors
from ....api.kinds import PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET
from ....api.objects import (
    Key,
    Obj,
    is_deleting,
    is_ready,
    is_terminal,
    key_of,
    labels_of,
    meta,
    phase_of,
    uid_of,
)
from ....client.api import Api
from ....client.clock import Clock
from ....client.informer import Informers
from ...framework.controller import BY_CONTROLLER, Controller, Result
from ..controller_ref import Claims
from ..controller_revisions import History, Revisions, count_of, revision_name, template_of
from ..pod_control import PodControl, is_available, seconds_until_available, watched_fields
from ..volume_claim_templates import ClaimMaker
from .plan import is_rolling, plan, revision_for
from .pods import (
    POD_INDEX,
    POD_NAME,
    claim_names,
    claim_owners,
    claims_for,
    ordinal_of,
    ordinals_of,
    pod_for,
)


def _told(stateful_set: Obj, name: str, failure: str) -> tuple[str, str]:
    """Return the words for a claim, as upstream says it."""
    own = meta(stateful_set)["name"]
    pod = f"{own}-{name.rpartition('-')[2]}"
    if failure:
        return (
            "FailedCreate",
            f"create Claim {name} for Pod {pod} in StatefulSet failed: {failure}",
        )
    return "SuccessfulCreate", f"create Claim {name} Pod {pod} in StatefulSet {own} success"


class StatefulSets(Controller):
    name = "statefulset-controller"
    kind = STATEFUL_SET
    owns = (POD,)
    adopts = True
    face = watched_fields

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.pods = informers.informer(POD)
        self._claim_maker = ClaimMaker(api, informers, self.recorder, _told)
        self.volume_claims = self._claim_maker.informer
        self._claims = Claims(api, self.pods, STATEFUL_SET)
        self._control = PodControl(api, self.pods, self.recorder)
        self._history = History(api, informers, STATEFUL_SET)

    async def reconcile(self, key: Key) -> Result:
        """Look at a StatefulSet once and take its next step.

        1. Claim its pods; know its revisions.
        2. Mend what identifies a pod; tie claims to who shall take them along when it goes.
        3. Take the next step: claims and pods to make, pods to end.
        4. Write the status; forget revisions that nobody uses.
        """
        stateful_set = self.objects.get(key)
        if stateful_set is None:
            return Result.done()
        selector = selectors.from_structure(stateful_set["spec"].get("selector"))
        if selector.is_empty:
            return Result.done()
        pods = await self._claims.claim(  # 1
            stateful_set, selector, wanted=lambda pod: ordinal_of(pod, stateful_set) is not None
        )
        revisions = await self._revisions(stateful_set)
        current = self._current(stateful_set, revisions)
        if not is_deleting(stateful_set):
            await self._mend(stateful_set)  # 2
            await self._step(stateful_set, pods, revisions, current)  # 3
        return await self._finish(stateful_set, revisions, current)  # 4

    async def _revisions(self, stateful_set: Obj) -> Revisions:
        status = stateful_set.get("status") or {}
        collisions = status.get("collisionCount", 0)
        try:
            return await self._history.sync(stateful_set, collisions)
        except errors.AlreadyExists:
            await self.write_status(stateful_set, {**status, "collisionCount": collisions + 1})
            raise

    def _current(self, stateful_set: Obj, revisions: Revisions) -> Obj:
        """Return the revision that an update comes from; the new one where there is none."""
        name = (stateful_set.get("status") or {}).get("currentRevision", "")
        return revisions.named(name) or revisions.update

    async def _step(
        self, stateful_set: Obj, pods: Sequence[Obj], revisions: Revisions, current: Obj
    ) -> None:
        update = meta(revisions.update)["name"]
        step = plan(stateful_set, pods, update, self.clock.now())
        await self._control.delete(stateful_set, step.delete)
        made: list[Obj] = []
        for ordinal in step.create:
            await self._claim_maker.ensure(stateful_set, claims_for(stateful_set, ordinal))
            name = revision_for(stateful_set, ordinal, meta(current)["name"], update)
            chosen = current if name == meta(current)["name"] else revisions.update
            made.append(pod_for(stateful_set, ordinal, template_of(chosen), name))
        await self._control.create(stateful_set, made)

    async def _mend(self, stateful_set: Obj) -> None:
        for pod in self.pods.by_index(BY_CONTROLLER, uid_of(stateful_set)):
            ordinal = ordinal_of(pod, stateful_set)
            if ordinal is None:
                continue
            await self._mend_labels(pod, ordinal)
            is_scaled_away = ordinal not in ordinals_of(stateful_set)
            for name in claim_names(stateful_set, ordinal).values():
                owners = claim_owners(stateful_set, pod, is_scaled_away)
                await self._tie(stateful_set, pod, name, owners)

    async def _mend_labels(self, pod: Obj, ordinal: int) -> None:
        wanted = {POD_NAME: meta(pod)["name"], POD_INDEX: str(ordinal)}
        if is_terminal(pod) or is_deleting(pod) or wanted.items() <= labels_of(pod).items():
            return
        change = {"metadata": {"labels": wanted}}
        await self.pods.seen(await self.api.patch(POD, key_of(pod), change))

    async def _tie(self, stateful_set: Obj, pod: Obj, name: str, owners: list[Obj]) -> None:
        """Give a claim the owners that its retention policy wants, and no others of ours."""
        claim = self.volume_claims.get(Key(meta(stateful_set)["namespace"], name))
        if claim is None or is_deleting(claim):
            return
        ours = {uid_of(stateful_set), uid_of(pod)}
        former = meta(claim).get("ownerReferences") or []
        wanted = [one for one in former if one["uid"] not in ours] + owners
        if wanted == former:
            return
        change = {
            "resourceVersion": meta(claim)["resourceVersion"],
            "ownerReferences": wanted or None,
        }
        written = await self.api.patch(PERSISTENT_VOLUME_CLAIM, key_of(claim), {"metadata": change})
        await self.volume_claims.seen(written)

    async def _finish(self, stateful_set: Obj, revisions: Revisions, current: Obj) -> Result:
        now = self.clock.now()
        owned = self.pods.by_index(BY_CONTROLLER, uid_of(stateful_set))
        pods = [pod for pod in owned if ordinal_of(pod, stateful_set) is not None]
        status = status_of(
            stateful_set, pods, meta(current)["name"], meta(revisions.update)["name"], now
        )
        await self.write_status(stateful_set, status)
        live = {status["currentRevision"], status["updateRevision"], *map(revision_name, pods)}
        await self._history.trim(stateful_set, revisions, live)
        min_ready = stateful_set["spec"].get("minReadySeconds", 0)
        waits = [
            seconds_until_available(pod, min_ready, now)
            for pod in pods
            if is_ready(pod) and not is_available(pod, min_ready, now)
        ]
        return Result(min(waits, default=None))


def status_of(stateful_set: Obj, pods: Sequence[Obj], current: str, update: str, now: float) -> Obj:
    """Return the status, as updateStatus and completeRollingUpdate."""
    min_ready = stateful_set["spec"].get("minReadySeconds", 0)
    made = [pod for pod in pods if phase_of(pod) in ("Pending", "Running", "")]
    alive = [pod for pod in made if not is_deleting(pod)]
    running = [pod for pod in made if phase_of(pod) == "Running" and is_ready(pod)]
    updated = count_of(alive, update)
    replicas = int(stateful_set["spec"].get("replicas", 1))
    is_rolled = (
        is_rolling(stateful_set) and updated == len(made) == replicas and len(running) == replicas
    )
    if is_rolled:
        current = update
    counts = {
        "readyReplicas": len(running),
        "currentReplicas": count_of(alive, current),
        "updatedReplicas": updated,
    }
    status: Obj = {
        "observedGeneration": meta(stateful_set).get("generation", 0),
        "replicas": len(made),
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in running),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": (stateful_set.get("status") or {}).get("collisionCount", 0),
    }
    return {**status, **{name: count for name, count in counts.items() if count}}
