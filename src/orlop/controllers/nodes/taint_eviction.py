"""Deletes pods from nodes that have a NoExecute taint, when the pods have tolerated it long enough.

Called by the controller manager with the key of a pod whenever it, or the taints of its node,
change. The time counts from when this process saw both the pod and the taint. As
pkg/controller/tainteviction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ... import errors
from ...api.kinds import NODE, POD
from ...api.objects import Key, Obj, is_deleting, is_terminal, key_of, meta, uid_of
from ...client.affinity import tolerates, untolerated
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Loop, Result
from ..framework.status import condition, with_condition
from ..gc.podgc import BY_NODE

_REASON = "TaintManagerEviction"


class TaintEviction(Loop[Key]):
    name: ClassVar[str] = "taint-eviction-controller"

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._nodes = informers.informer(NODE)
        self._pods = informers.informer(POD)
        self._pods.add_index(BY_NODE, lambda pod: (pod["spec"].get("nodeName") or "",))
        self._since: dict[str, float] = {}  # uid of a pod that bears a taint -> since when
        self.watch(self._nodes, self._node_changed)
        self.watch(self._pods, self._pod_changed)

    def _node_changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        if event.type == "DELETED" or _evicting(event.object) == _evicting(previous or {}):
            return ()
        return [key_of(pod) for pod in self._pods.by_index(BY_NODE, meta(event.object)["name"])]

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        pod = event.object
        if event.type == "DELETED":
            self._since.pop(uid_of(pod), None)
            return ()
        name = pod["spec"].get("nodeName")
        node = self._nodes.get(Key("", name)) if name else None
        is_news = previous is None or _face(previous) != _face(pod)
        return (key_of(pod),) if node is not None and _evicting(node) and is_news else ()

    async def reconcile(self, key: Key) -> Result:
        pod = self._pods.get(key)
        if pod is None or is_deleting(pod) or is_terminal(pod):
            return Result.done()
        node = self._nodes.get(Key("", pod["spec"].get("nodeName") or ""))
        taints = _evicting(node or {})
        if node is None or not taints:
            if self._since.pop(uid_of(pod), None) is not None:
                words = f"Cancelling deletion of Pod {key}"
                await self.recorder.event(pod, "Normal", _REASON, words)
            return Result.done()
        bears = 0.0 if untolerated(pod, node, ("NoExecute",)) else _seconds(pod, taints)
        if bears is None:
            self._since.pop(uid_of(pod), None)
            return Result.done()
        now = self.clock.now()
        left = self._since.setdefault(uid_of(pod), now) + bears - now
        if left > 0:
            return Result.again(left)
        await self._delete(pod)
        return Result.done()

    async def _delete(self, pod: Obj) -> None:
        key = key_of(pod)
        await self.recorder.event(pod, "Normal", _REASON, f"Marking for deletion Pod {key}")
        why = condition(
            "DisruptionTarget",
            "True",
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
            self.clock.now(),
        )
        conditions = with_condition((pod.get("status") or {}).get("conditions") or [], why)
        try:
            patch = {
                "metadata": {"resourceVersion": meta(pod)["resourceVersion"]},
                "status": {"conditions": conditions},
            }
            await self.api.patch(POD, key, patch, subresource="status")
            await self.api.delete(POD, key, uid=uid_of(pod))
        except errors.NotFound:
            return
        self._since.pop(uid_of(pod), None)


def _evicting(node: Obj) -> list[Obj]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return [taint for taint in taints if taint["effect"] == "NoExecute"]


def _seconds(pod: Obj, taints: list[Obj]) -> float | None:
    """Return how long the pod tolerates all these taints; None for ever.

    Of several tolerations for one taint the first counts, as upstream has it.
    """
    tolerations = pod["spec"].get("tolerations") or ()
    used = [next(one for one in tolerations if tolerates(one, taint)) for taint in taints]
    limits = [one["tolerationSeconds"] for one in used if one.get("tolerationSeconds") is not None]
    return float(max(min(limits), 0)) if limits else None


def _face(pod: Obj) -> tuple[object, ...]:
    return pod["spec"].get("nodeName"), pod["spec"].get("tolerations")
