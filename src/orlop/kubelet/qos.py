"""The quality-of-service class of a pod: Guaranteed, Burstable or BestEffort.

Told in the pod's status; pure. As pkg/apis/core/v1/helper/qos/qos.go: only cpu and memory count.
"""

from __future__ import annotations

from ..api.objects import Obj
from ..api.quantity import parse

_COUNTED = ("cpu", "memory")


def qos_class(pod: Obj) -> str:
    spec = pod["spec"]
    containers = [*spec["containers"], *(spec.get("initContainers") or [])]
    each = [container.get("resources") or {} for container in containers]
    amounts = [
        _amounts(resources.get(kind)) for resources in each for kind in ("requests", "limits")
    ]
    if not any(amounts):
        return "BestEffort"
    return "Guaranteed" if all(_is_guaranteed(resources) for resources in each) else "Burstable"


def _amounts(resources: Obj | None) -> dict[str, int]:
    """cpu and memory that are set and not zero, in nano-units."""
    parsed = {name: parse(value).nanos for name, value in (resources or {}).items()}
    return {name: nanos for name, nanos in parsed.items() if name in _COUNTED and nanos > 0}


def _is_guaranteed(resources: Obj) -> bool:
    limits, requests = _amounts(resources.get("limits")), _amounts(resources.get("requests"))
    # A request that is not set is its limit, by defaulting.
    return len(limits) == len(_COUNTED) and {**limits, **requests} == limits
