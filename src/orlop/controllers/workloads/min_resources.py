"""Checks whether any node has what a group of pods says that it needs in all (`minResources`).

Asked by the controllers of PodGroups, MPIJobs and PyTorchJobs. Pure. Slurm itself counts what the
pods ask for, so this is told in an Event, and keeps no pod from starting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...api import quantity
from ...api.objects import Obj, meta

REASON = "MinResourcesNotMet"


def lacking(asked: Mapping[str, Any] | None, nodes: Iterable[Obj]) -> str:
    """Return what the node that lacks least lacks; empty where one has all, or none is known.

    An amount that cannot be read counts as more than any node has.
    """
    unread = [f"{name} {wanted}" for name, wanted in (asked or {}).items() if not _is_read(wanted)]
    if unread:
        words = "expected amounts as 4, 500m or 2Gi, found"
        return f"minResources cannot be met: {words} {', '.join(sorted(unread))}"
    short = [(_short(asked or {}, node), meta(node)["name"]) for node in nodes]
    if not short or any(not missing for missing, _ in short):
        return ""
    missing, name = min(short, key=lambda one: (len(one[0]), one[1]))
    words = ", ".join(f"{what} {wanted} (it has {has})" for what, wanted, has in missing)
    return f"minResources asks for more than node {name} has in all: {words}"


def _is_read(amount: Any) -> bool:
    try:
        quantity.parse(amount)
    except quantity.QuantityError:
        return False
    return True


def _short(asked: Mapping[str, Any], node: Obj) -> list[tuple[str, str, str]]:
    has = (node.get("status") or {}).get("allocatable") or {}
    found = []
    for name, wanted in sorted(asked.items()):
        there = has.get(name.removeprefix("requests."), "0")
        if quantity.parse(wanted) > quantity.parse(there):
            found.append((name, str(wanted), str(there)))
    return found
