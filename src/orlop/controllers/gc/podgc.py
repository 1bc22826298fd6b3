"""Removes pods that would stay for ever: of nodes that are gone, and the oldest of the ended ones.

Called by the controller manager with the key of a pod when it ends or when its node disappears. As
pkg/controller/podgc. Pods of living nodes, and ended pods below the threshold, stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from ... import errors
from ...api.kinds import NODE, POD
from ...api.objects import Key, Obj, is_deleting, is_ready, is_terminal, key_of, meta, uid_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Loop, Result
from ..framework.status import condition, with_condition

BY_NODE, ENDED = "node", "ended"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_ALL_ENDED = Key("", "")  # stands for the number of ended pods
_QUARANTINE = 40.0  # seconds that a node may be missing before its pods are given up


class PodGc(Loop[Key]):
    name: ClassVar[str] = "pod-garbage-collector"

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        clock: Clock | None = None,
        threshold: int = 12_500,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._threshold = threshold
        self._missing_since: dict[str, float] = {}
        self._nodes = informers.informer(NODE)
        self._pods = informers.informer(POD)
        self._pods.add_index(BY_NODE, lambda pod: (pod["spec"].get("nodeName") or "",))
        self._pods.add_index(ENDED, lambda pod: ("yes",) if is_terminal(pod) else ())
        self.watch(self._nodes, self._node_changed)
        self.watch(self._pods, self._pod_changed)

    def _node_changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        name = meta(event.object)["name"]
        if event.type == "DELETED":
            return [key_of(pod) for pod in self._pods.by_index(BY_NODE, name)]
        self._missing_since.pop(name, None)
        if not _is_out_of_service(event.object):
            return ()
        return [key_of(pod) for pod in self._pods.by_index(BY_NODE, name) if is_deleting(pod)]

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        pod = event.object
        if event.type == "DELETED":
            return
        name = pod["spec"].get("nodeName")
        node = self._nodes.get(Key("", name)) if name else None
        is_lost = name and (node is None or (is_deleting(pod) and _is_out_of_service(node)))
        if is_lost or (not name and is_deleting(pod)):
            yield key_of(pod)
        if is_terminal(pod) and self._ended > self._threshold:
            yield _ALL_ENDED

    @property
    def _ended(self) -> int:
        return self._pods.count_by_index(ENDED, "yes")

    async def reconcile(self, key: Key) -> Result:
        if key == _ALL_ENDED:
            await self._drop_oldest()
            return Result.done()
        pod = self._pods.get(key)
        if pod is None:
            return Result.done()
        node = pod["spec"].get("nodeName")
        if node:
            return await self._check_node(pod, node)
        if is_deleting(pod):
            await self._delete(pod)
        return Result.done()

    async def _check_node(self, pod: Obj, node: str) -> Result:
        known = self._nodes.get(Key("", node))
        if known is not None:
            if is_deleting(pod) and _is_out_of_service(known):
                await self._delete(pod)
            return Result.done()
        now = self.clock.now()
        left = self._missing_since.setdefault(node, now) + _QUARANTINE - now
        if left > 0:
            return Result.again(left)
        try:
            await self.api.get(NODE, Key("", node))
        except errors.NotFound:
            await self._give_up(pod)
        return Result.done()

    async def _give_up(self, pod: Obj) -> None:
        if not is_terminal(pod):
            why = condition(
                "DisruptionTarget",
                "True",
                "DeletionByPodGC",
                "PodGC: node no longer exists",
                self.clock.now(),
            )
            conditions = with_condition((pod.get("status") or {}).get("conditions") or [], why)
            status = {"phase": "Failed", "conditions": conditions}
            await self.api.patch(POD, key_of(pod), {"status": status}, subresource="status")
        await self._delete(pod)

    async def _drop_oldest(self) -> None:
        ended = self._pods.by_index(ENDED, "yes")
        surplus = len(ended) - self._threshold
        ended.sort(key=lambda pod: (meta(pod).get("creationTimestamp") or "", meta(pod)["name"]))
        for pod in ended[: max(surplus, 0)]:
            await self._delete(pod)

    async def _delete(self, pod: Obj) -> None:
        try:
            await self.api.delete(POD, key_of(pod), grace=0, uid=uid_of(pod))
        except (errors.NotFound, errors.Conflict):
            return
        self.log.info("deleted pod", pod=key_of(pod))


def _is_out_of_service(node: Obj) -> bool:
    """Return whether somebody says by a taint that surely nothing runs on the node any more."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return not is_ready(node) and any(one["key"] == OUT_OF_SERVICE for one in taints)
