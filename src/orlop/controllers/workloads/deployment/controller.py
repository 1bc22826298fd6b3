"""Rolls a Deployment from one pod template to the next, and keeps its size, through ReplicaSets.

Called by the controller manager with the key of a Deployment whenever it, one of its ReplicaSets,
or (for Recreate) one of their pods changes. It makes, sizes and cleans up ReplicaSets one step at a
time, each from what is there now; the pods are the ReplicaSets' work. As pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .... import errors
from ....api import selectors
from ....api.kinds import DEPLOYMENT, POD, REPLICA_SET
from ....api.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    is_controlled_by,
    is_deleting,
    is_terminal,
    key_of,
    meta,
    uid_of,
)
from ....client.api import Api, WatchEvent
from ....client.clock import Clock
from ....client.informer import Informers
from ...framework.controller import BY_CONTROLLER, Controller, Result, by_controller
from ..controller_ref import Claims
from ..pod_control import is_namespace_terminating
from . import revisions, rollout
from .rollout import Scales, replicas_of
from .status import Observed, creation_failed, is_complete, next_check, status_of


class Deployments(Controller):
    name = "deployment-controller"
    kind = DEPLOYMENT
    owns = (REPLICA_SET,)
    adopts = True

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.replica_sets = informers.informer(REPLICA_SET)
        self.pods = informers.informer(POD)
        self.watch(self.pods, self._recreated)
        self.pods.add_index(BY_CONTROLLER, by_controller)
        self._claims = Claims(api, self.replica_sets, DEPLOYMENT)

    def _recreated(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        """Queue a Recreate Deployment when a pod ends: it waits for the last old one."""
        if event.type != "DELETED" and not is_terminal(event.object):
            return
        reference = controller_of(event.object)
        if reference is None or reference["kind"] != REPLICA_SET.kind:
            return
        namespace = meta(event.object)["namespace"]
        replica_set = self.replica_sets.get(Key(namespace, reference["name"]))
        owner = controller_of(replica_set) if replica_set is not None else None
        if owner is not None:
            deployment = self.objects.get(Key(namespace, owner["name"]))
            if deployment is not None and not rollout.is_rolling(deployment):
                yield key_of(deployment)

    async def reconcile(self, key: Key) -> Result:
        """Take one step of a Deployment.

        1. Claim its ReplicaSets; of one that is being deleted, keep the status. 2. Paused, or
        resized since the last step: sizes change in proportion, templates do not. 3. Otherwise take
        one step of its strategy. 4. When all is done, forget the revisions beyond
        revisionHistoryLimit. 5. Write the status; come back when a rollout may have timed out.
        """
        deployment = self.objects.get(key)
        if deployment is None:
            return Result.done()
        selector = selectors.from_structure(deployment["spec"].get("selector"))
        if selector.is_empty:
            message = "This deployment is selecting all pods. A non-empty selector is required."
            await self.recorder.event(deployment, "Warning", "SelectingAll", message)
            return Result.done()
        sets = await self._claims.claim(deployment, selector)  # 1
        created, is_rollout = False, not deployment["spec"].get("paused")
        if not is_deleting(deployment):
            if not is_rollout or rollout.is_scaled(deployment, sets):  # 2
                is_rollout = False
                await self._rescale(deployment, sets)
            elif rollout.is_rolling(deployment):  # 3
                created = await self._roll(deployment, sets)
            else:
                created = await self._recreate(deployment, sets)
        return await self._finish(deployment, created, is_rollout)

    async def _finish(self, deployment: Obj, created: bool, is_rollout: bool) -> Result:
        now = self.clock.now()
        sets = self.replica_sets.by_index(BY_CONTROLLER, uid_of(deployment))
        new, old = revisions.split(deployment, sets)
        status = status_of(Observed(deployment, new, old, now, created, is_rollout))
        if is_complete(deployment, status) and not is_deleting(deployment):  # 4
            await self._forget(deployment, old)
        await self.write_status(deployment, status)  # 5
        after = next_check(deployment, status, now)
        return Result.done() if after is None else Result.again(after)

    async def _rescale(self, deployment: Obj, sets: Sequence[Obj]) -> None:
        new, old = revisions.split(deployment, sets)
        if new is not None:
            await self._number(deployment, new, old)
        await self._scale(deployment, rollout.rescale(deployment, new, old))

    async def _roll(self, deployment: Obj, sets: Sequence[Obj]) -> bool:
        new, old, created = await self._ensure_new(deployment, sets)
        if new is None:
            return False
        size = rollout.new_size(deployment, new, old)
        if not await self._scale(deployment, [(new, size)]):
            await self._scale(deployment, rollout.shrink_old(deployment, new, old))
        return created

    async def _recreate(self, deployment: Obj, sets: Sequence[Obj]) -> bool:
        _, old = revisions.split(deployment, sets)
        if await self._scale(deployment, [(one, 0) for one in rollout.active(old)]):
            return False
        if any(self._has_pods(one) for one in old):
            return False
        new, _, created = await self._ensure_new(deployment, sets)
        if new is not None:
            await self._scale(deployment, [(new, replicas_of(deployment))])
        return created

    def _has_pods(self, replica_set: Obj) -> bool:
        pods = self.pods.by_index(BY_CONTROLLER, uid_of(replica_set))
        return any(not is_terminal(pod) for pod in pods)

    async def _ensure_new(
        self, deployment: Obj, sets: Sequence[Obj]
    ) -> tuple[Obj | None, list[Obj], bool]:
        """Return the ReplicaSet of the present template, made if need be, and whether it was."""
        new, old = revisions.split(deployment, sets)
        if new is not None:
            return await self._number(deployment, new, old), old, False
        made = await self._create(deployment, old)
        if made is not None:
            await self._number(deployment, made, old)
        return made, old, made is not None

    async def _create(self, deployment: Obj, old: Sequence[Obj]) -> Obj | None:
        size = rollout.new_size(deployment, None, old)
        revision = revisions.next_revision(old)
        most = rollout.max_replicas(deployment)
        wanted = revisions.new_replica_set(deployment, size, most, revision)
        name = meta(wanted)["name"]
        try:
            made = await self.api.create(
                REPLICA_SET, wanted, namespace=meta(deployment)["namespace"]
            )
        except errors.AlreadyExists:
            return await self._resolve_collision(deployment, wanted)
        except errors.ApiError as error:
            if is_namespace_terminating(error):
                return None
            observed = Observed(deployment, None, old, self.clock.now())
            await self.write_status(deployment, creation_failed(observed, name, error.message))
            message = f'Failed to create new replica set "{name}": {error.message}'
            await self.recorder.event(deployment, "Warning", "ReplicaSetCreateError", message)
            raise
        await self.replica_sets.seen(made)
        if size > 0:
            message = f"Scaled up replica set {name} from 0 to {size}"
            await self.recorder.event(deployment, "Normal", "ScalingReplicaSet", message)
        return made

    async def _resolve_collision(self, deployment: Obj, wanted: Obj) -> Obj | None:
        """Find who has the name: ourselves, where our cache did not know, or a stranger."""
        found = await self.api.get(REPLICA_SET, key_of(wanted))
        mine = is_controlled_by(found, deployment)
        template = deployment["spec"]["template"]
        if mine and revisions.is_same_template(found["spec"]["template"], template):
            await self.replica_sets.seen(found)
            return found
        # Another template with the same hash: count the collision, which makes another name.
        status = deployment.get("status") or {}
        counted = {**status, "collisionCount": status.get("collisionCount", 0) + 1}
        await self.write_status(deployment, counted)
        self.log.info("hash collision", deployment=key_of(deployment), name=meta(wanted)["name"])
        raise errors.Conflict(f"the name {meta(wanted)['name']} is taken: trying another")

    async def _number(self, deployment: Obj, new: Obj, old: Sequence[Obj]) -> Obj:
        """Keep the new ReplicaSet the latest revision, and write its number on the Deployment."""
        revision = revisions.next_revision(old)
        annotations = revisions.updated_annotations(deployment, new, revision)
        change: Obj = {"metadata": {"annotations": annotations}} if annotations else {}
        min_ready = deployment["spec"].get("minReadySeconds", 0)
        if new["spec"].get("minReadySeconds", 0) != min_ready:
            change["spec"] = {"minReadySeconds": min_ready}
        if change:
            new = await self.api.patch(REPLICA_SET, key_of(new), change)
            await self.replica_sets.seen(new)
        said = annotations_of(new).get(revisions.REVISION)
        if said and annotations_of(deployment).get(revisions.REVISION) != said:
            change = {"metadata": {"annotations": {revisions.REVISION: said}}}
            written = await self.api.patch(DEPLOYMENT, key_of(deployment), change)
            await self.objects.seen(written)
        return new

    async def _scale(self, deployment: Obj, scales: Scales) -> bool:
        """Write the sizes that differ; return whether any did."""
        has_changed = False
        for replica_set, size in scales:
            if await self._resize(deployment, replica_set, size):
                has_changed = True
        return has_changed

    async def _resize(self, deployment: Obj, replica_set: Obj, size: int) -> bool:
        wanted = {
            revisions.DESIRED: str(replicas_of(deployment)),
            revisions.MAX: str(rollout.max_replicas(deployment)),
        }
        before = replicas_of(replica_set)
        annotations = annotations_of(replica_set)
        if before == size and all(annotations.get(name) == wanted[name] for name in wanted):
            return False
        change = {"metadata": {"annotations": wanted}, "spec": {"replicas": size}}
        written = await self.api.patch(REPLICA_SET, key_of(replica_set), change)
        await self.replica_sets.seen(written)
        if before != size:
            verb = "up" if size > before else "down"
            name = meta(replica_set)["name"]
            message = f"Scaled {verb} replica set {name} from {before} to {size}"
            await self.recorder.event(deployment, "Normal", "ScalingReplicaSet", message)
        return before != size

    async def _forget(self, deployment: Obj, old: Sequence[Obj]) -> None:
        """Delete empty old ReplicaSets, the lowest revisions first."""
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        alive = [one for one in old if not is_deleting(one)]
        surplus = sorted(alive, key=revisions.revision_number)[: max(len(alive) - limit, 0)]
        for one in surplus:
            status = one.get("status") or {}
            observed = status.get("observedGeneration", 0) >= meta(one).get("generation", 0)
            if status.get("replicas", 0) or replicas_of(one) or not observed:
                continue
            await self.api.delete(REPLICA_SET, key_of(one), uid=uid_of(one))
            await self.replica_sets.gone(one)
