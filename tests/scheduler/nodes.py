"""Nodes and pods as plain objects."""

from __future__ import annotations

from typing import Any

from orlop import wellknown
from orlop.slurm.query.partitions import DEFAULT_LABEL, MAX_CPUS_LABEL, MAX_MEMORY_LABEL


def a_node(
    name: str,
    *,
    partition: str | None = "",
    default: bool = False,
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    ready: str = "True",
    cpu: str = "64",
    memory: str = "256Gi",
    gpus: int = 0,
    host: tuple[int, int] | None = None,
    **spec: Any,
) -> dict:
    """A partition of the same name, unless told otherwise (None: no partition at all)."""
    named = {"kubernetes.io/hostname": name, **(labels or {})}
    if partition is not None:
        named[wellknown.PARTITION_LABEL] = partition or name
    if default:
        named[DEFAULT_LABEL] = "true"
    if host is not None:
        named[MAX_CPUS_LABEL], named[MAX_MEMORY_LABEL] = map(str, host)
    allocatable = {"cpu": cpu, "memory": memory, "pods": "1000"}
    if gpus:
        allocatable["nvidia.com/gpu"] = str(gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": named},
        "spec": {**({"taints": taints} if taints else {}), **spec},
        "status": {
            "allocatable": allocatable,
            "capacity": allocatable,
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def a_pod(
    name: str = "p",
    *,
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
            **spec,
        },
    }
