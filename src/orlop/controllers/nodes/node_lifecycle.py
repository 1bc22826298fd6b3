"""Watches whether nodes are alive, and says so: in their conditions, taints and pods.

Called by the controller manager with the name of a node whenever it or its lease changes, and when
its lease has not changed for too long. What counts is when this process saw a sign of life, not the
time written in a lease: after it was stopped or suspended it first waits for new signs. Nodes whose
pods are to go are tainted here; the taint eviction controller deletes. As
pkg/controller/nodelifecycle, but for nodes of our own kubelet that are not ready: see
docs/decisions/0011.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from ... import errors
from ...api.kinds import LEASE, NODE, POD
from ...api.objects import Key, Obj, condition_of, is_ready, key_of, labels_of, meta
from ...api.times import rfc3339
from ...client.api import Api, WatchEvent
from ...client.clock import Clock, Timer
from ...client.informer import Informers
from ...wellknown import ENGINE_LABEL
from ..framework.controller import Loop, Result
from ..framework.status import condition, with_condition
from ..gc.podgc import BY_NODE
from .node_taints import with_taints

LEASES = "kube-node-lease"
GRACE = 40.0  # seconds without a sign of life, as upstream's node-monitor-grace-period
STARTUP_GRACE = 60.0  # of a node that has never said anything
_BEAT = 5.0  # as upstream's node-monitor-period
_LATE = 3 * _BEAT  # a beat that is later than this: this process did not run
_PACE = 10.0  # seconds between two nodes whose pods are given up, as upstream's 0.1 a second
_WATCHED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_NEVER = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
_STOPPED = ("NodeStatusUnknown", "Kubelet stopped posting node status.")


@dataclass(slots=True)
class _Seen:
    """The last sign of life of a node, and when we saw it."""

    at: float
    lease: str = ""
    heartbeat: str = ""


class NodeLifecycle(Loop[str]):
    name: ClassVar[str] = "node-controller"

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._nodes = informers.informer(NODE)
        self._pods = informers.informer(POD)
        self._leases = informers.informer(LEASE)
        self._pods.add_index(BY_NODE, lambda pod: (pod["spec"].get("nodeName") or "",))
        self._seen: dict[str, _Seen] = {}
        self._beat_at = self.clock.now()
        self._beating: Timer | None = None
        self._given_up_at = float("-inf")
        self.watch(self._nodes, self._node_changed)
        self.watch(self._leases, self._lease_changed)

    async def run(self) -> None:
        self._beat_at = self.clock.now()
        self._seen.clear()
        self._beat()
        try:
            await super().run()
        finally:
            if self._beating is not None:
                self._beating.cancel()

    def _beat(self) -> None:
        self._notice_absence()
        self._beating = self.clock.call_later(_BEAT, self._beat)

    def _notice_absence(self) -> None:
        """Give every node its whole time anew after a pause of this process."""
        now = self.clock.now()
        if not -_BEAT <= now - self._beat_at <= _LATE:
            self.log.warning("was away", seconds=round(now - self._beat_at))
            for seen in self._seen.values():
                seen.at = now
        self._beat_at = now

    def _node_changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[str]:
        name = meta(event.object)["name"]
        if event.type == "DELETED":
            self._seen.pop(name, None)
            return [meta(node)["name"] for node in self._nodes.list()]
        self._note(name)
        return (name,)

    def _lease_changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[str]:
        key = key_of(event.object)
        if key.namespace != LEASES or self._nodes.get(Key("", key.name)) is None:
            return ()
        self._note(key.name)
        return (key.name,) if previous is None else ()

    def _note(self, name: str) -> _Seen:
        node = self._nodes.get(Key("", name)) or {}
        lease = self._leases.get(Key(LEASES, name)) or {}
        renewed = str((lease.get("spec") or {}).get("renewTime", ""))
        beat = _heartbeat(node)
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = _Seen(self.clock.now(), renewed, beat)
        elif (seen.lease, seen.heartbeat) != (renewed, beat):
            seen.at, seen.lease, seen.heartbeat = self.clock.now(), renewed, beat
        return seen

    async def reconcile(self, key: str) -> Result:
        """Check whether the node is alive; then set its conditions, its pods and its taints."""
        self._notice_absence()
        node = self._nodes.get(Key("", key))
        if node is None:
            return Result.done()
        ready = condition_of(node, "Ready")
        grace = GRACE if ready is not None else STARTUP_GRACE
        left = self._note(key).at + grace - self.clock.now()  # 1
        if left <= 0:
            node = await self._mark_unknown(node)  # 2
        if _status(node) != "True" and ready is not None:
            await self._mark_pods(node)  # 3
        result = await self._taint(node)  # 4
        return result.sooner(Result.again(left)) if left > 0 else result

    async def _mark_unknown(self, node: Obj) -> Obj:
        conditions = (node.get("status") or {}).get("conditions") or []
        wanted = conditions
        for kind in _WATCHED:
            found = condition_of(node, kind)
            if found is not None and found["status"] == "Unknown":
                continue
            new = condition(kind, "Unknown", *(_STOPPED if found else _NEVER), self.clock.now())
            heartbeat = (found or {}).get("lastHeartbeatTime") or meta(node).get(
                "creationTimestamp"
            )
            wanted = with_condition(wanted, {**new, "lastHeartbeatTime": heartbeat})
        if wanted == conditions:
            return node
        change = {
            "metadata": {"resourceVersion": meta(node)["resourceVersion"]},
            "status": {"conditions": wanted},
        }
        name = meta(node)["name"]
        written = await self.api.patch(NODE, Key("", name), change, subresource="status")
        await self._nodes.seen(written)
        self.log.warning("node has gone silent", node=name)
        return written

    async def _mark_pods(self, node: Obj) -> None:
        """Mark the node's pods as not ready, since no kubelet looks after them."""
        name = meta(node)["name"]
        if not _is_silent(node) and ENGINE_LABEL in labels_of(node):
            return  # its kubelet is there, and says of each pod what it knows
        marked = [pod for pod in self._pods.by_index(BY_NODE, name) if is_ready(pod)]
        if marked:
            words = f"Node {name} status is now: NodeNotReady"
            await self.recorder.event(node, "Normal", "NodeNotReady", words)
        for pod in marked:
            now = rfc3339(self.clock.now())
            conditions = [
                {**one, "status": "False", "lastTransitionTime": now}
                if one["type"] == "Ready"
                else one
                for one in pod["status"]["conditions"]
            ]
            try:
                patch = {
                    "metadata": {"resourceVersion": meta(pod)["resourceVersion"]},
                    "status": {"conditions": conditions},
                }
                written = await self.api.patch(POD, key_of(pod), patch, subresource="status")
            except errors.NotFound:
                continue
            await self._pods.seen(written)
            await self.recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")

    async def _taint(self, node: Obj) -> Result:
        wait = self._wait_before_giving_up(node)
        wanted = with_taints(node, gives_up=wait is not None and wait <= 0, now=self.clock.now())
        present = (node.get("spec") or {}).get("taints") or []
        if wanted != present:
            change = {
                "metadata": {"resourceVersion": meta(node)["resourceVersion"]},
                "spec": {"taints": wanted or None},
            }
            written = await self.api.patch(NODE, Key("", meta(node)["name"]), change)
            await self._nodes.seen(written)
            if wait is not None and wait <= 0 and not _is_given_up(node):
                self._given_up_at = self.clock.now()
            self._look_at_others(meta(node)["name"])
        return Result.again(wait) if wait is not None and wait > 0 else Result.done()

    def _wait_before_giving_up(self, node: Obj) -> float | None:
        """Return the seconds until the pods of a lost node are to go; None where they stay.

        They stay where the node is well, where its own kubelet is there and knows better, and where
        all nodes are lost: then the fault is rather on this side.
        """
        if _status(node) == "True" or condition_of(node, "Ready") is None:
            return None
        if not _is_silent(node) and ENGINE_LABEL in labels_of(node):
            return None
        if not any(_status(other) == "True" for other in self._nodes.list()):
            return None
        if _is_given_up(node):
            return 0.0
        return max(self._given_up_at + _PACE - self.clock.now(), 0.0)

    def _look_at_others(self, name: str) -> None:
        """Queue the other nodes: whether all are lost decides for each of them."""
        for other in self._nodes.list():
            if meta(other)["name"] != name and _status(other) != "True":
                self.queue.add(meta(other)["name"])


def _heartbeat(node: Obj) -> str:
    """Return when the kubelet last wrote; what this controller writes does not count."""
    return str((condition_of(node, "Ready") or {}).get("lastHeartbeatTime") or "")


def _status(node: Obj) -> str:
    return str((condition_of(node, "Ready") or {}).get("status", "Unknown"))


def _is_silent(node: Obj) -> bool:
    return _status(node) == "Unknown"


def _is_given_up(node: Obj) -> bool:
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    taints = (node.get("spec") or {}).get("taints") or []
    return any(one["key"] in keys and one["effect"] == "NoExecute" for one in taints)
