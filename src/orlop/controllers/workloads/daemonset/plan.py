"""Decides which nodes a DaemonSet's pods belong on, and which pods to make or delete next.

Asked by the DaemonSet controller in each reconcile. Pure. As pkg/controller/daemon:
podsShouldBeOnNode and rollingUpdate; the scheduler then binds each pod to the node it names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ....api.objects import Obj, is_deleting, meta, phase_of
from ....client.affinity import matches_selector, untolerated
from ..controller_revisions import REVISION_LABEL, revision_name
from ..deployment.rollout import scaled_value
from ..pod_control import deep_copy, is_available, pod_from_template

_NAME_FIELD = "metadata.name"
# Daemons stay through trouble that drives other pods away. As AddOrUpdateDaemonPodTolerations.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


@dataclass(slots=True)
class Step:
    """Nodes that need a pod, pods to end, and failed pods to end after a back-off."""

    create: list[str] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)
    failed: list[tuple[str, Obj]] = field(default_factory=list)


def pod_for(daemon_set: Obj, node: str, template: Obj, revision: str) -> Obj:
    """Return the daemon of one node, the one place where it can be scheduled."""
    pod = pod_from_template(template, daemon_set)
    pod["metadata"].setdefault("labels", {})[REVISION_LABEL] = revision
    spec = pod["spec"]
    term = {"matchFields": [{"key": _NAME_FIELD, "operator": "In", "values": [node]}]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    tolerations = spec.setdefault("tolerations", [])
    for key, effect in _TOLERATED:
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        if wanted not in tolerations:
            tolerations.append(wanted)
    return pod


def node_of(pod: Obj) -> str:
    """Return where a daemon runs, or is to run."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for one in term.get("matchFields") or []:
            if one["key"] == _NAME_FIELD and one["operator"] == "In" and one.get("values"):
                return str(one["values"][0])
    return ""


def by_node(pods: Iterable[Obj]) -> dict[str, list[Obj]]:
    """Group the pods by node, the oldest first on each."""
    found: dict[str, list[Obj]] = defaultdict(list)
    for pod in sorted(
        pods, key=lambda pod: (meta(pod).get("creationTimestamp") or "", meta(pod)["name"])
    ):
        found[node_of(pod)].append(pod)
    return dict(found)


def probe_of(daemon_set: Obj) -> Obj:
    """Return a daemon of no node in particular, to be checked against all of them."""
    spec = deep_copy(daemon_set["spec"]["template"]["spec"])
    tolerations = spec.setdefault("tolerations", [])
    tolerations += [{"key": key, "operator": "Exists", "effect": eff} for key, eff in _TOLERATED]
    return {"spec": spec}


def belongs(probe: Obj, node: Obj) -> tuple[bool, bool]:
    """Return whether a daemon should run on the node, and whether one that runs there may stay."""
    named = probe["spec"].get("nodeName")
    if (named and named != meta(node)["name"]) or not matches_selector(probe, node):
        return False, False
    return not untolerated(probe, node), not untolerated(probe, node, ("NoExecute",))


def plan(
    daemon_set: Obj, nodes: Sequence[Obj], pods: Sequence[Obj], update: str, now: float
) -> Step:
    """Return the next step.

    1. On each node: make what is missing, end what does not belong, of several keep the oldest.
    2. Where that leaves nothing to do, roll old daemons as the strategy says.
    """
    step = Step()
    probe, placed = probe_of(daemon_set), by_node(pods)
    homes: dict[str, list[Obj]] = {}
    for node in nodes:
        name = meta(node)["name"]
        should_run, may_go_on = belongs(probe, node)
        alive = [pod for pod in placed.get(name, []) if not is_deleting(pod)]
        if not may_go_on:
            step.delete += alive
            continue
        failed = [pod for pod in alive if phase_of(pod) in ("Failed", "Succeeded")]
        running = [pod for pod in alive if pod not in failed]
        step.failed += [(name, pod) for pod in failed]
        if should_run:
            homes[name] = running
            if not running and not failed and not placed.get(name):
                step.create.append(name)
        step.delete += _surplus(daemon_set, running, update)
    existing = {meta(node)["name"] for node in nodes}
    step.delete += _lost(placed, existing)
    _roll(daemon_set, homes, update, step, now)
    return step


def _lost(placed: Mapping[str, list[Obj]], existing: set[str]) -> list[Obj]:
    """Return pods that wait for a node that is gone; bound ones are left to the pod GC."""
    return [
        pod
        for name, pods in placed.items()
        if name not in existing
        for pod in pods
        if not is_deleting(pod) and not pod["spec"].get("nodeName")
    ]


def _surplus(daemon_set: Obj, running: Sequence[Obj], update: str) -> list[Obj]:
    """Return all but the oldest; while surging, all but the oldest of the old and of the new."""
    if not _limits(daemon_set, 1)[0]:
        return list(running[1:])
    new = [pod for pod in running if revision_name(pod) == update]
    old = [pod for pod in running if revision_name(pod) != update]
    return [*old[1:], *new[1:]]


def is_rolling(daemon_set: Obj) -> bool:
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def _limits(daemon_set: Obj, nodes: int) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable for so many nodes."""
    if not is_rolling(daemon_set):
        return 0, 0
    rolling = (daemon_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge", 0), nodes, round_up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", 1), nodes, round_up=True)
    return surge, (unavailable if surge or unavailable else 1)


def _roll(
    daemon_set: Obj, homes: Mapping[str, list[Obj]], update: str, step: Step, now: float
) -> None:
    if not is_rolling(daemon_set):
        return
    surge, unavailable = _limits(daemon_set, len(homes))
    if surge:
        _roll_by_surge(daemon_set, homes, update, step, surge, now)
    else:
        _roll_by_replacement(daemon_set, homes, update, step, unavailable, now)


def _roll_by_replacement(
    daemon_set: Obj,
    homes: Mapping[str, list[Obj]],
    update: str,
    step: Step,
    unavailable: int,
    now: float,
) -> None:
    """Delete old daemons that are unavailable at once, others as far as maxUnavailable lets."""
    candidates: list[Obj] = []
    for pods in homes.values():
        pod = pods[0] if pods else None
        is_up = pod is not None and _is_up(daemon_set, pod, now)
        if not is_up:
            unavailable -= 1
        if pod is not None and revision_name(pod) != update:
            if is_up:
                candidates.append(pod)
            else:
                step.delete.append(pod)
    step.delete += candidates[: max(unavailable, 0)]


def _roll_by_surge(
    daemon_set: Obj, homes: Mapping[str, list[Obj]], update: str, step: Step, surge: int, now: float
) -> None:
    """Make a new daemon beside the old one; delete the old when the new one is available."""
    waiting: list[str] = []
    for name, pods in homes.items():
        old = [pod for pod in pods if revision_name(pod) != update]
        new = [pod for pod in pods if revision_name(pod) == update]
        if not old:
            continue
        if new and _is_up(daemon_set, new[0], now):
            step.delete.append(old[0])
        elif new:
            surge -= 1
        elif _is_up(daemon_set, old[0], now):
            waiting.append(name)
        else:
            step.delete.append(old[0])
    step.create += waiting[: max(surge, 0)]


def _is_up(daemon_set: Obj, pod: Obj, now: float) -> bool:
    return is_available(pod, daemon_set["spec"].get("minReadySeconds", 0), now)
