"""Tells the API server where a pod will run, or that it cannot run anywhere yet.

Called by the scheduler with its decision. Bindings are made by the pod's `binding` subresource; the
other change to a pod is its PodScheduled condition.
"""

from __future__ import annotations

from ..api.kinds import NODE, POD
from ..api.objects import Obj, condition_of, key_of, meta, uid_of
from ..api.times import rfc3339
from ..client.api import Api


async def bind(api: Api, pod: Obj, node: Obj, annotations: dict[str, str] | None = None) -> None:
    """Bind the pod to the node, with more annotations; raise Conflict where it has one already."""
    namespace, name = key_of(pod)
    more = {"annotations": annotations} if annotations else {}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": uid_of(pod), **more},
        "target": {"apiVersion": "v1", "kind": NODE.kind, "name": meta(node)["name"]},
    }
    await api.create_subresource(POD, key_of(pod), "binding", binding)


async def mark_unschedulable(
    api: Api, pod: Obj, message: str, now: float, *, nominated: str = ""
) -> bool:
    """Write why on the pod, and where room is made for it; return whether that is news."""
    former = condition_of(pod, "PodScheduled") or {}
    is_told = former.get("status") == "False" and former.get("message") == message
    if is_told and nominated in ("", (pod.get("status") or {}).get("nominatedNodeName")):
        return False
    told = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": former.get("lastTransitionTime")
        if former.get("status") == "False"
        else rfc3339(now),
    }
    conditions = (pod.get("status") or {}).get("conditions") or []
    others = [one for one in conditions if one["type"] != "PodScheduled"]
    change: Obj = {
        "metadata": {"resourceVersion": meta(pod)["resourceVersion"]},
        "status": {"conditions": [*others, told]},
    }
    if nominated:
        change["status"]["nominatedNodeName"] = nominated
    await api.patch(POD, key_of(pod), change, subresource="status")
    return True


async def evict(api: Api, victim: Obj, scheduler: str, now: float) -> None:
    """Delete a pod to make room for one that is more important; it is told why first."""
    told = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{scheduler}: preempting to accommodate a higher priority pod",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(now),
    }
    conditions = (victim.get("status") or {}).get("conditions") or []
    others = [one for one in conditions if one["type"] != "DisruptionTarget"]
    change = {"status": {"conditions": [*others, told]}}
    await api.patch(POD, key_of(victim), change, subresource="status")
    await api.delete(POD, key_of(victim), uid=uid_of(victim))
