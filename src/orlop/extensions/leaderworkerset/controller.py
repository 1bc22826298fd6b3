"""Runs LeaderWorkerSets (leaderworkerset.x-k8s.io/v1): groups of pods that live and die together.

Run by the controller manager while the kind is ours, with the key of a set whenever it or a pod of
its changes. It makes the pods itself, a group at a time; which groups are made or go is in plan.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from ... import errors
from ...api.kinds import PERSISTENT_VOLUME_CLAIM, POD, SERVICE
from ...api.objects import Key, Obj, controller_of, is_deleting, key_of, labels_of, meta, uid_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...controllers.framework.controller import BY_CONTROLLER, Controller, Result
from ...controllers.workloads.owned_objects import OwnedObjects
from ...controllers.workloads.pod_control import PodControl, watched_fields
from ...controllers.workloads.volume_claim_templates import ClaimMaker
from ..bundled import bundled_kind
from .children import (
    GROUP,
    NAME,
    claim_owners,
    claims_for,
    gang,
    is_condemned,
    not_honoured,
    pod_for,
    services,
)
from .plan import Groups, observe, plan, wanted_groups

LEADER_WORKER_SET = bundled_kind(
    "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"
)


class LeaderWorkerSets(Controller):
    name = "leaderworkerset-controller"
    kind = LEADER_WORKER_SET
    owns = (POD,)
    face = watched_fields

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.pods = informers.informer(POD)
        self._control = PodControl(api, self.pods, self.recorder)
        self._services = OwnedObjects(api, informers, self.recorder, SERVICE)
        self._claims = ClaimMaker(api, informers, self.recorder)
        self._broken: dict[str, set[int]] = {}  # uid of a set -> groups that a pod has gone from
        self._going: set[str] = set()  # uids of pods that we delete ourselves
        self.watch(self.pods, self._gone)

    def _gone(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        """Keep in mind a pod that went without our doing; other handlers queue its set."""
        pod = event.object
        owner = controller_of(pod)
        if event.type != "DELETED" or owner is None or not self._is_ours(owner):
            return ()
        if uid_of(pod) in self._going:
            self._going.discard(uid_of(pod))
        elif labels_of(pod).get(GROUP, "").isdecimal():
            self._broken.setdefault(owner["uid"], set()).add(int(labels_of(pod)[GROUP]))
        return ()

    async def reconcile(self, key: Key) -> Result:
        """Look at a LeaderWorkerSet once and take its next steps.

        1. The Services.
        2. Groups that must go.
        3. Pods that are missing, each after its claims.
        4. Whose claims are, and which go: by the set's retention policy.
        5. The status.
        """
        lws = self.objects.get(key)
        if lws is None or is_deleting(lws):
            return Result.done()
        groups = self._groups(lws)
        for service in services(lws, wanted_groups(groups)):
            await self._services.keep(lws, service)  # 1
        todo = plan(groups, frozenset(self._broken.pop(uid_of(lws), ())))
        if todo.delete:
            self._going |= {uid_of(pod) for pod in todo.delete}
            await self._control.delete(lws, todo.delete)  # 2
        for group, worker in todo.create:
            await self._claims.ensure(lws, claims_for(lws, group, worker))
        if todo.create:
            now = self.clock.now()
            names: dict[int, list[Obj]] = {g: list(groups.of(g).values()) for g, _ in todo.create}
            made = [
                pod_for(lws, group, worker, gang(lws, group, worker, names[group], now))
                for group, worker in todo.create
            ]
            await self._control.create(lws, made)  # 3
        if lws["spec"]["leaderWorkerTemplate"].get("volumeClaimTemplates"):
            await self._tie(lws, self._groups(lws))  # 4
        if not lws.get("status"):
            for words in not_honoured(lws):
                await self.recorder.event(lws, "Warning", "NotSupported", words)
        await self.write_status(lws, observe(self._groups(lws), self.clock.now()))  # 5
        return Result.done()

    async def _tie(self, lws: Obj, groups: Groups) -> None:
        """Set the owners of claims: they go with the set or group if it says so, not with a pod."""
        wanted = wanted_groups(groups)
        for claim in self._claims.informer.list(meta(lws)["namespace"]):
            if labels_of(claim).get(NAME) != meta(lws)["name"] or is_deleting(claim):
                continue
            if is_condemned(lws, claim, wanted) and not groups.of(int(labels_of(claim)[GROUP])):
                await self._delete(claim)
                continue
            former = meta(claim).get("ownerReferences") or []
            owners = claim_owners(lws, former)
            if owners != former:
                change = {"ownerReferences": owners or None}
                change["resourceVersion"] = meta(claim)["resourceVersion"]
                body = {"metadata": change}
                written = await self.api.patch(PERSISTENT_VOLUME_CLAIM, key_of(claim), body)
                await self._claims.informer.seen(written)

    async def _delete(self, claim: Obj) -> None:
        try:
            await self.api.delete(PERSISTENT_VOLUME_CLAIM, key_of(claim), uid=uid_of(claim))
        except (errors.NotFound, errors.Conflict):
            pass

    def _groups(self, lws: Obj) -> Groups:
        pods = self.pods.by_index(BY_CONTROLLER, uid_of(lws))
        return Groups(lws, [pod for pod in pods if meta(pod).get("labels")])
