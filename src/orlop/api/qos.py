"""The quality-of-service class of a pod: Guaranteed, Burstable or BestEffort.

Used when a pod is created, and by whoever must choose between pods. As
pkg/apis/core/v1/helper/qos/qos.go, it looks at cpu and memory.
"""

from __future__ import annotations

from typing import Any

from . import quantity
from .objects import Obj

_COUNTED = ("cpu", "memory")


def qos_class(pod: Obj) -> str:
    spec = pod.get("spec") or {}
    if spec.get("resources"):
        parts = [spec["resources"]]
    else:
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        parts = [container.get("resources") or {} for container in containers]
    requests = [_counted(part.get("requests")) for part in parts]
    limits = [_counted(part.get("limits")) for part in parts]
    if not any(requests) and not any(limits):
        return "BestEffort"
    is_guaranteed = all(
        len(limit) == len(_COUNTED) and (request == limit or not request)
        for request, limit in zip(requests, limits, strict=True)
    )
    return "Guaranteed" if is_guaranteed else "Burstable"


def _counted(amounts: Any) -> dict[str, int]:
    parsed = (
        {name: quantity.parse(amounts[name]).nanos for name in _COUNTED if name in amounts}
        if amounts
        else {}
    )
    return {name: nanos for name, nanos in parsed.items() if nanos}
