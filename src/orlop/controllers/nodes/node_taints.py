"""Computes the taints that follow from a node's conditions.

Used by the node lifecycle controller; pure. Taints of others are left as they are. As
pkg/controller/nodelifecycle: doNoScheduleTaintingPass and doNoExecuteTaintingPass.
"""

from __future__ import annotations

from ...api.objects import Obj, condition_of
from ...api.times import rfc3339

_PREFIX = "node.kubernetes.io/"
_BY_CONDITION = {
    ("Ready", "False"): "not-ready",
    ("Ready", "Unknown"): "unreachable",
    ("MemoryPressure", "True"): "memory-pressure",
    ("DiskPressure", "True"): "disk-pressure",
    ("PIDPressure", "True"): "pid-pressure",
    ("NetworkUnavailable", "True"): "network-unavailable",
}
_OURS = {_PREFIX + name for name in (*_BY_CONDITION.values(), "unschedulable")}
_LOST = (_PREFIX + "not-ready", _PREFIX + "unreachable")


def with_taints(node: Obj, *, gives_up: bool, now: float) -> list[Obj]:
    """Return the taints that the node should have; `gives_up`: its pods are to go."""
    spec = node.get("spec") or {}
    present: list[Obj] = spec.get("taints") or []
    wanted = _wanted(node, gives_up=gives_up)
    kept = [taint for taint in present if not _is_ours(taint) or _key(taint) in wanted]
    missing = [key for key in wanted if key not in {_key(taint) for taint in kept}]
    return kept + [_taint(*key, now) for key in missing]


def _wanted(node: Obj, *, gives_up: bool) -> list[tuple[str, str]]:
    names = [
        name
        for (kind, status), name in _BY_CONDITION.items()
        if (condition_of(node, kind) or {}).get("status") == status
    ]
    if condition_of(node, "Ready") is None:
        names.append("not-ready")  # it has not said yet that it is
    if (node.get("spec") or {}).get("unschedulable"):
        names.append("unschedulable")
    wanted = [(_PREFIX + name, "NoSchedule") for name in names]
    if gives_up:
        wanted += [(_PREFIX + name, "NoExecute") for name in names if _PREFIX + name in _LOST]
    return wanted


def _is_ours(taint: Obj) -> bool:
    if taint["effect"] == "NoExecute":
        return taint["key"] in _LOST
    return taint["key"] in _OURS and taint["effect"] == "NoSchedule"


def _key(taint: Obj) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def _taint(key: str, effect: str, now: float) -> Obj:
    return {"key": key, "effect": effect, "timeAdded": rfc3339(now)}
