"""A cluster as one decision sees it, from plain nodes and pods."""

from __future__ import annotations

from typing import Any

from orlop.api.objects import key_of
from orlop.client.cache import Cache
from orlop.scheduler import affinity, spread
from orlop.scheduler.decision import Decision, decide
from orlop.scheduler.snapshot import BY_NODE, BY_TERM, Snapshot, node_of, terms_of
from orlop.scheduler.volumes import View
from tests.scheduler.nodes import a_pod

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def placed(name: str, node: str, *, labels: dict[str, str] | None = None, **more: Any) -> dict:
    """A pod that has its node."""
    namespace, hosts = more.pop("namespace", "default"), more.pop("hosts", "")
    started = more.pop("started", "2026-01-01T00:00:00Z")
    notes = {"slurm.orlop.dev/node-list": hosts} if hosts else {}
    pod = a_pod(name, annotations=notes, nodeName=node, **more)
    pod["metadata"] |= {"namespace": namespace, "labels": labels or {}, "uid": f"uid-{name}"}
    return {**pod, "status": {"phase": "Running", "startTime": started}}


def waiting(name: str = "p", *, labels: dict[str, str] | None = None, **more: Any) -> dict:
    """A pod that has none yet."""
    status = more.pop("status", {"phase": "Pending"})
    pod = a_pod(name, **more)
    pod["metadata"] |= {"labels": labels or {}, "uid": f"uid-{name}"}
    return {**pod, "status": status}


def snapshot(
    nodes: list[dict],
    *pods: dict,
    namespaces: dict[str, dict[str, str]] | None = None,
    assumed: dict | None = None,
    nominated: dict | None = None,
) -> Any:
    known, places = Cache(), Cache()
    known.add_index(BY_NODE, node_of)
    known.add_index(BY_TERM, terms_of)
    for pod in pods:
        known.put(pod)
    for name, labels in (namespaces or {}).items():
        places.put({"metadata": {"name": name, "labels": labels}})
    return Snapshot.of(nodes, known, places, assumed or {}, nominated or {})  # type: ignore[arg-type]


def decided(pod: dict, nodes: list[dict], *pods: dict, budgets: Any = (), **more: Any) -> Decision:
    return decide(pod, snapshot(nodes, *pods, **more), View(), lambda: list(budgets))


def chosen(pod: dict, nodes: list[dict], *pods: dict, **more: Any) -> str:
    """The name of its node; empty where there is none."""
    node = decided(pod, nodes, *pods, **more).node
    return key_of(node).name if node is not None else ""


def will_do(pod: dict, nodes: list[dict], *pods: dict, **more: Any) -> list[str]:
    """The nodes that the pod's neighbours leave it."""
    seen = snapshot(nodes, *pods, **more)
    near, even = affinity.prepare(pod, seen), spread.prepare(pod, seen)
    return [key_of(one).name for one in nodes if not (near.refusal(one) or even.refusal(one))]
