"""Runs LeaderWorkerSets (leaderworkerset.x-k8s.io/v1): groups of pods that live and die together.

Run by the controller manager while the kind is ours, with the key of a set whenever it or a pod of
its changes. It makes the pods itself, a group at a time; which groups are made or go is in
`leaderworkerset_plan`. It never talks to Slurm.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..api.kinds import POD, SERVICE
from ..api.objects import Key, Obj, controller_of, is_deleting, labels_of, meta, uid_of
from ..client.api import Api, WatchEvent
from ..client.clock import Clock
from ..client.informer import Informers
from ._shape import BY_CONTROLLER, Controller, Result
from .bundled import bundled_kind
from .leaderworkerset_parts import GROUP, gang, pod_for, services
from .leaderworkerset_plan import Groups, observe, plan, wanted_groups
from .pods import PodControl, face_of
from .possessions import Possessions

LEADER_WORKER_SET = bundled_kind(
    "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"
)
DEFINITION = "leaderworkersets.leaderworkerset.x-k8s.io"


class LeaderWorkerSets(Controller):
    name = "leaderworkerset-controller"
    kind = LEADER_WORKER_SET
    owns = (POD,)
    face = face_of

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.pods = informers.informer(POD)
        self._control = PodControl(api, self.pods, self.recorder)
        self._services = Possessions(api, informers, self.recorder, SERVICE)
        self._broken: dict[str, set[int]] = {}  # uid of a set -> groups that a pod has gone from
        self._going: set[str] = set()  # uids of pods that we delete ourselves
        self.watch(self.pods, self._gone)

    def _gone(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        """Keep in mind a pod that has gone without our doing; its set is told by the others."""
        pod = event.object
        owner = controller_of(pod)
        if event.type != "DELETED" or owner is None or not self._is_ours(owner):
            return ()
        if uid_of(pod) in self._going:
            self._going.discard(uid_of(pod))
        elif labels_of(pod).get(GROUP, "").isdigit():
            self._broken.setdefault(owner["uid"], set()).add(int(labels_of(pod)[GROUP]))
        return ()

    async def reconcile(self, key: Key) -> Result:
        """1. The Services. 2. Groups that must go. 3. Pods that are missing. 4. The status."""
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
        if todo.create:
            now = self.clock.now()
            names: dict[int, list[Obj]] = {g: list(groups.of(g).values()) for g, _ in todo.create}
            made = [
                pod_for(lws, group, worker, gang(lws, group, worker, names[group], now))
                for group, worker in todo.create
            ]
            await self._control.create(lws, made)  # 3
        await self.write_status(lws, observe(self._groups(lws), self.clock.now()))  # 4
        return Result.done()

    def _groups(self, lws: Obj) -> Groups:
        pods = self.pods.by_index(BY_CONTROLLER, uid_of(lws))
        return Groups(lws, [pod for pod in pods if meta(pod).get("labels")])
