"""Tells the API server where a pod will run, or that it cannot run anywhere yet.

Called by the scheduler with its decision. Bindings are made by the pod's `binding` subresource;
nothing else of a pod is changed but its PodScheduled condition.
"""

from __future__ import annotations

from ..api.kinds import NODE, POD
from ..api.objects import Obj, condition_of, key_of, meta, uid_of
from ..api.times import rfc3339
from ..client.api import Api


async def bind(api: Api, pod: Obj, node: Obj) -> None:
    """Bind the pod to the node; Conflict where it has one already."""
    namespace, name = key_of(pod)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": uid_of(pod)},
        "target": {"apiVersion": "v1", "kind": NODE.kind, "name": meta(node)["name"]},
    }
    await api.create_subresource(POD, key_of(pod), "binding", binding)


async def mark_unschedulable(api: Api, pod: Obj, message: str, now: float) -> bool:
    """Write why on the pod; whether that is news."""
    former = condition_of(pod, "PodScheduled") or {}
    if former.get("status") == "False" and former.get("message") == message:
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
    await api.patch(POD, key_of(pod), change, subresource="status")
    return True
