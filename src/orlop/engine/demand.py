"""How much of this host's CPUs a pod asks for.

Used by the local engine to queue pods; pure. As Kubernetes counts: the sum over containers, or an
init container where that is more; a pod that says nothing asks for nothing.
"""

from __future__ import annotations

from ..api.objects import Obj
from ..api.quantity import to_millis


def milli_cpus(pod: Obj) -> int:
    spec = pod["spec"]
    containers = sum(_asked(container) for container in spec["containers"])
    inits = [_asked(container) for container in spec.get("initContainers") or []]
    return max([containers, *inits])


def _asked(container: Obj) -> int:
    """The request, else the limit; never below zero."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return max(to_millis(amounts.get("cpu", "0")), 0)
