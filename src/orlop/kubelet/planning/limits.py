"""Limits beside those of a single container's CPU and memory: of the whole pod, and of disks.

Used while a plan is made; pure. What the pod as a whole may use of CPU and memory is kept by a
cgroup around its containers, and what it keeps on the node's disk is measured by the agent.
"""

from __future__ import annotations

from ...agent.pod.scratch_dirs import EPHEMERAL
from ...api.objects import Obj
from ...api.pod_resources import pod_amounts
from ...api.quantity import canonical, to_bytes, to_millis


def planned_pod_limits(pod: Obj) -> Obj:
    """Return, for the `pod` of the plan, what `spec.resources` limits, and disk space in all."""
    limits = (pod["spec"].get("resources") or {}).get("limits") or {}
    found: Obj = {}
    if "memory" in limits:
        found["memoryLimit"] = to_bytes(limits["memory"])
    if "cpu" in limits:
        found["cpuLimit"] = to_millis(limits["cpu"])
    storage = _storage_of_pod(pod)
    return {**found, "storage": storage} if storage else found


def _storage_of_pod(pod: Obj) -> Obj:
    """Return the sum of what containers may keep, where any has a limit, as the eviction manager
    has it.
    """
    found: Obj = {}
    limit = pod_amounts(pod, "limits").get(EPHEMERAL)
    if limit is not None:
        found |= {"limit": limit.value, "words": str(limit)}
    request = pod_amounts(pod, "requests").get(EPHEMERAL)
    if request is not None and request.value:
        found["request"] = request.value
    return found


def planned_storage(limits: Obj) -> Obj:
    """Return what one container may keep on disk."""
    if EPHEMERAL not in limits:
        return {}
    text = limits[EPHEMERAL]
    return {"storage": {"limit": to_bytes(text), "words": canonical(text)}}
