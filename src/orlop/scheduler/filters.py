"""Filters the nodes a pod can run on, and says in upstream's words why it cannot on the others.

Called by the scheduler for each pod that waits. Pure. Our nodes are Slurm partitions, and Slurm
queues: how much of one is free right now is not looked at; what is too large for an empty one is
refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .. import wellknown
from ..api import quantity
from ..api.objects import Obj, annotations_of, condition_of, labels_of, meta
from ..client.affinity import matches_selector, untolerated
from ..errors import ConfigError
from ..slurm.query.partitions import MAX_CPUS_LABEL, MAX_MEMORY_LABEL
from ..slurm.translate.job import requested_partition
from ..slurm.translate.resources import amounts, demand

_UNSCHEDULABLE_TAINT: Obj = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_MIB = 1 << 20
# What any host has, whether its node tells how much or not.
_COMMON = ("cpu", "memory", "pods", "storage", "ephemeral-storage")
_WORDS = 5  # nodes whose own words are quoted
# Options that say otherwise than the pod's requests what is asked of a host.
_OWN_WORDS = ("cpus-per-task", "cpus-per-gpu", "mem", "mem-per-cpu", "mem-per-gpu")


class Wish(NamedTuple):
    """The requests of a pod, worked out once for all nodes."""

    pod: Obj
    partitions: tuple[str, ...]
    cpus: int
    memory_mib: int
    others: Mapping[str, int]  # thousandths of what not every host has


def wish_of(pod: Obj, default: str = "") -> Wish:
    """Work out a pod's requests; `default` is its namespace's partition, if it names none.

    A pod whose annotations cannot be read goes anywhere: its kubelet then says what is wrong.
    """
    try:
        partition = requested_partition(pod) or default
        asked = demand(pod)
    except ConfigError:
        return Wish(pod, (), 0, 0, {})
    names = tuple(name for name in partition.split(",") if name)
    others = {name: amount for name, amount in amounts(pod).items() if name not in _COMMON}
    return Wish(pod, names, asked.cpus, asked.memory_mib, others)


def refusal(wish: Wish, node: Obj) -> str:
    """Return why the pod cannot run on the node, the first reason; empty where it can."""
    return (
        _schedulable(wish.pod, node)
        or _taints(wish.pod, node)
        or _selector(wish.pod, node)
        or _partition(wish, node)
        or _ready(node)
        or _resources(wish, node)
    )


def _schedulable(pod: Obj, node: Obj) -> str:
    if not (node.get("spec") or {}).get("unschedulable"):
        return ""
    tainted = {"spec": {"taints": [_UNSCHEDULABLE_TAINT]}}
    return "node(s) were unschedulable" if untolerated(pod, tainted) else ""


def _taints(pod: Obj, node: Obj) -> str:
    for taint in untolerated(pod, node):
        return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
    return ""


def _selector(pod: Obj, node: Obj) -> str:
    return (
        "" if matches_selector(pod, node) else "node(s) didn't match Pod's node affinity/selector"
    )


def _partition(wish: Wish, node: Obj) -> str:
    labels = labels_of(node)
    # This host has no partitions: manifests written for a cluster run here as they are.
    if not wish.partitions or labels.get(wellknown.ENGINE_LABEL) == "local":
        return ""
    if labels.get(wellknown.PARTITION_LABEL) in wish.partitions:
        return ""
    return f"node(s) didn't match the partition {','.join(wish.partitions)}"


def _ready(node: Obj) -> str:
    ready = condition_of(node, "Ready")
    return "" if ready is None or ready["status"] == "True" else "node(s) were not ready"


def _resources(wish: Wish, node: Obj) -> str:
    """Check against all that the node has, and against its largest host where that is known."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    if "cpu" in allocatable and wish.cpus * 1000 > quantity.to_millis(allocatable["cpu"]):
        return "Insufficient cpu"
    if "memory" in allocatable and wish.memory_mib * _MIB > quantity.to_bytes(
        allocatable["memory"]
    ):
        return "Insufficient memory"
    for name, amount in wish.others.items():
        if amount > quantity.to_millis(allocatable.get(name, 0)):
            return f"Insufficient {name}"
    if _speaks_for_itself(wish.pod):
        return ""
    labels = labels_of(node)
    if wish.cpus > int(labels.get(MAX_CPUS_LABEL, wish.cpus)):
        return "Insufficient cpu on the largest host"
    if wish.memory_mib > int(labels.get(MAX_MEMORY_LABEL, wish.memory_mib)):
        return "Insufficient memory on the largest host"
    return ""


def _speaks_for_itself(pod: Obj) -> bool:
    annotations = annotations_of(pod)
    names = (wellknown.FLAGS, *wellknown.FLAGS_ALIASES)
    return any(name in annotations for name in names) or any(
        wellknown.SLURM_PREFIX + option in annotations for option in _OWN_WORDS
    )


def explain(wish: Wish, nodes: Sequence[Obj], refusals: Sequence[str]) -> str:
    """Write `0/2 nodes are available: 1 node(s) ..., 1 Insufficient cpu.`, and what would help."""
    if not nodes:
        return "no nodes available to schedule pods"
    counted = sorted(f"{count} {reason}" for reason, count in Counter(refusals).items())
    text = f"0/{len(nodes)} nodes are available: {', '.join(counted)}."
    return " ".join([text, *_hints(wish, nodes, refusals)])


def _hints(wish: Wish, nodes: Sequence[Obj], refusals: Sequence[str]) -> list[str]:
    hints: list[str] = []
    existing = sorted({labels_of(node).get(wellknown.PARTITION_LABEL, "") for node in nodes} - {""})
    if wish.partitions and not set(wish.partitions) & set(existing):
        names = ", ".join(existing) or "none"
        asked = " or ".join(wish.partitions)
        hints.append(f"There is no partition {asked}; the partitions here are: {names}.")
    if any("largest host" in reason for reason in refusals):
        sizes = ", ".join(_largest(node) for node in nodes if MAX_CPUS_LABEL in labels_of(node))
        hints.append(f"The largest hosts: {sizes}.")
    return hints + _words(nodes, refusals)


def _words(nodes: Sequence[Obj], refusals: Sequence[str]) -> list[str]:
    """Return what the kubelet says of nodes that it has closed, or that are not ready."""
    said: list[str] = []
    for node, reason in zip(nodes, refusals, strict=True):
        ready = condition_of(node, "Ready") or {}
        is_ours = "taint" in reason and wellknown.DOMAIN in reason  # a resource's name may be, too
        is_closed = is_ours or "not-ready" in reason or "not ready" in reason
        if is_closed and ready.get("message"):
            said.append(f"{meta(node)['name']}: {str(ready['message']).rstrip('.')}.")
    return said[:_WORDS]


def _largest(node: Obj) -> str:
    labels = labels_of(node)
    cpus, memory = labels.get(MAX_CPUS_LABEL, "?"), labels.get(MAX_MEMORY_LABEL, "?")
    return f"{meta(node)['name']} {cpus} CPUs and {memory}Mi"
