"""Counts what is free on nodes with a counted capacity: this host, and other kubelets' nodes.

Asked by the scheduler for each node and pod. Pure. A partition is not counted: Slurm knows what is
free in it, and queues what does not fit now. As pkg/scheduler/framework/plugins/noderesources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..api import quantity
from ..api.objects import Key, Obj, key_of, meta
from ..errors import ConfigError
from ..slurm.translate import resources
from .snapshot import Snapshot, is_partition

TOO_MANY = "Too many pods"
_LEAST = {"cpu": 100, "memory": (200 << 20) * 1000}  # thousandths


def priority_of(pod: Obj) -> int:
    return int(pod["spec"].get("priority") or 0)


def requests_of(pod: Obj) -> Counter[str]:
    """Return thousandths of each resource; a pod that cannot be read asks for nothing."""
    try:
        return resources.amounts(pod)
    except ConfigError:
        return Counter()


def used_on(node: Obj, pod: Obj, snapshot: Snapshot) -> tuple[Counter[str], int]:
    """Return what pods on the node ask for, and how many there are, as seen by `pod`.

    Pods for which room is being made count for all that are not more important.
    """
    name = meta(node)["name"]
    there = snapshot.pods_on(name)
    present = {key_of(other) for other in there}
    promised = _promised(name, pod, snapshot, present)
    used: Counter[str] = Counter()
    count = 0
    for other in [*there, *promised]:
        used.update(requests_of(other))
        count += 1
    return used, count


def _promised(name: str, pod: Obj, snapshot: Snapshot, present: set[Key]) -> Iterable[Obj]:
    for key, (other, place) in snapshot.nominated.items():
        is_ahead = key != key_of(pod) and priority_of(other) >= priority_of(pod)
        if place == name and is_ahead and key not in present:
            yield other


def refusal(node: Obj, pod: Obj, snapshot: Snapshot) -> str:
    """Return why the pod does not fit beside those that are there; empty where it does."""
    if is_partition(node):
        return ""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    used, count = used_on(node, pod, snapshot)
    if "pods" in allocatable and count + 1 > quantity.parse(allocatable["pods"]).value:
        return TOO_MANY
    for name, amount in requests_of(pod).items():
        is_limited = name in allocatable or "/" in name  # what a node does not name it has not
        free = quantity.to_millis(allocatable.get(name, 0)) - used[name]
        if is_limited and 0 < amount > free:
            return f"Insufficient {name}"
    return ""


def is_shortage(reason: str) -> bool:
    return reason == TOO_MANY or reason.startswith("Insufficient ")


def load(node: Obj, pod: Obj, snapshot: Snapshot) -> float:
    """Return the largest part of a resource that would be taken: less is better."""
    if is_partition(node):
        return 0.0
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    used: Counter[str] = Counter()
    for other in [*snapshot.pods_on(meta(node)["name"]), pod]:
        wanted = requests_of(other)
        # Upstream's too: who asks for nothing still needs something.
        used.update({name: wanted[name] or least for name, least in _LEAST.items()})
    parts = [
        used[name] / total
        for name in _LEAST
        if name in allocatable and (total := quantity.to_millis(allocatable[name]))
    ]
    return max(parts, default=0.0)
