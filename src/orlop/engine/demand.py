"""Computes how much of this host's CPUs a pod asks for.

Used by the local engine to queue pods; pure. As Kubernetes counts: the sum over containers and
sidecars, or an init container with the sidecars before it where that is more; a pod that says
nothing asks for nothing.
"""

from __future__ import annotations

from ..api.objects import Obj
from ..api.quantity import to_millis


def milli_cpus(pod: Obj) -> int:
    spec = pod["spec"]
    staying = peak = 0
    for container in spec.get("initContainers") or []:
        asked = _asked(container)
        peak = max(peak, staying + asked)
        if container.get("restartPolicy") == "Always":
            staying += asked
    return max(staying + sum(_asked(container) for container in spec["containers"]), peak)


def _asked(container: Obj) -> int:
    """Return the request, else the limit; at least zero."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return max(to_millis(amounts.get("cpu", "0")), 0)
