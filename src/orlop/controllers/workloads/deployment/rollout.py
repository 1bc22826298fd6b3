"""Computes how many replicas each ReplicaSet of a Deployment should have next.

Called by the Deployment controller, which then writes the answers. Pure arithmetic over spec and
status, one step at a time; as pkg/controller/deployment/rolling.go and sync.go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....api.objects import Obj, annotations_of, uid_of
from .revisions import DESIRED, MAX, age_order

Scales = list[tuple[Obj, int]]  # each ReplicaSet that must change, and its new size


def replicas_of(obj: Obj) -> int:
    return int(obj["spec"].get("replicas", 1))


def available_of(replica_set: Obj) -> int:
    """Return the available pods, at most the wanted: the status may be older than the spec."""
    seen = int((replica_set.get("status") or {}).get("availableReplicas", 0))
    return min(seen, replicas_of(replica_set))


def _pods_of(replica_set: Obj) -> int:
    return int((replica_set.get("status") or {}).get("replicas", 0))


def total(replica_sets: Sequence[Obj]) -> int:
    return sum(replicas_of(one) for one in replica_sets)


def active(replica_sets: Sequence[Obj]) -> list[Obj]:
    return [one for one in replica_sets if replicas_of(one) > 0]


def is_rolling(deployment: Obj) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type") != "Recreate")


def limits(deployment: Obj) -> tuple[int, int]:
    """Return maxSurge (rounded up) and maxUnavailable (rounded down); one of them is positive."""
    if not is_rolling(deployment) or replicas_of(deployment) == 0:
        return 0, 0
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    replicas = replicas_of(deployment)
    surge = scaled_value(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        # Both may round to zero: then one pod may be missing, or nothing would ever move.
        unavailable = 1
    return surge, min(unavailable, replicas)


def scaled_value(value: Any, whole: int, *, round_up: bool) -> int:
    """Return the number of an IntOrString: as it is, or a percentage of `whole`."""
    if isinstance(value, int):
        return value
    share = int(str(value).removesuffix("%")) * whole
    return math.ceil(share / 100) if round_up else share // 100


def max_replicas(deployment: Obj) -> int:
    return replicas_of(deployment) + limits(deployment)[0]


def new_size(deployment: Obj, new: Obj | None, old: Sequence[Obj]) -> int:
    """Return how large the new ReplicaSet may be now, within maxSurge."""
    wanted = replicas_of(deployment)
    size = replicas_of(new) if new is not None else 0
    if size >= wanted or not is_rolling(deployment):
        return wanted
    # Upstream counts what old ones are told to have; pods that they still have take a machine.
    still = sum(max(replicas_of(one), _pods_of(one)) for one in old)
    room = max_replicas(deployment) - still - size
    return size + min(max(room, 0), wanted - size)


def shrink_old(deployment: Obj, new: Obj, old: Sequence[Obj]) -> Scales:
    """Return which old ReplicaSets shrink now: unhealthy pods first, within maxUnavailable.

    1. What may go at all: all pods, less those that must stay, less the new ones not yet there.
    2. Pods that are not available anyway, oldest ReplicaSet first.
    3. Then available ones, as long as enough of all remain.
    """
    sets = sorted(active(old), key=age_order)
    if not sets:
        return []
    least = replicas_of(deployment) - limits(deployment)[1]
    new_unavailable = replicas_of(new) - available_of(new)
    may_go = total(sets) + replicas_of(new) - least - new_unavailable
    if may_go <= 0:
        return []
    sizes = {uid_of(one): replicas_of(one) for one in sets}
    _drop_unhealthy(sets, sizes, may_go)
    spare = sum(available_of(one) for one in [*sets, new]) - least
    for one in sets:
        step = min(sizes[uid_of(one)], max(spare, 0))
        sizes[uid_of(one)] -= step
        spare -= step
    return [(one, sizes[uid_of(one)]) for one in sets if sizes[uid_of(one)] != replicas_of(one)]


def _drop_unhealthy(sets: Sequence[Obj], sizes: dict[str, int], may_go: int) -> None:
    for one in sets:
        step = max(min(may_go, replicas_of(one) - available_of(one)), 0)
        sizes[uid_of(one)] -= step
        may_go -= step


def is_scaled(deployment: Obj, replica_sets: Sequence[Obj]) -> bool:
    """Return whether a rolling Deployment's size has changed since it was last distributed."""
    return is_rolling(deployment) and any(
        annotations_of(one).get(DESIRED, str(replicas_of(deployment)))
        != str(replicas_of(deployment))
        for one in active(replica_sets)
    )


def rescale(deployment: Obj, new: Obj | None, old: Sequence[Obj]) -> Scales:
    """Return the sizes after `kubectl scale`, also in the middle of a rollout or while paused.

    1. Where one ReplicaSet counts, it takes all. 2. The new one is complete: the old ones go. 3.
    Otherwise each keeps its share of the new size.
    """
    everyone = [*old, *([new] if new is not None else [])]
    only = _only_one(new, old)
    if only is not None:
        return [(only, replicas_of(deployment))]
    if new is not None and _is_saturated(deployment, new):
        return [(one, 0) for one in active(old)]
    if is_rolling(deployment):
        return _proportional(deployment, active(everyone))
    return []


def _only_one(new: Obj | None, old: Sequence[Obj]) -> Obj | None:
    """Return the one that has pods, or the latest where none has."""
    sized = active([*old, *([new] if new is not None else [])])
    if not sized:
        return new if new is not None else (old[-1] if old else None)
    return sized[0] if len(sized) == 1 else None


def _is_saturated(deployment: Obj, new: Obj) -> bool:
    wanted = replicas_of(deployment)
    return (
        annotations_of(new).get(DESIRED) == str(wanted)
        and replicas_of(new) == wanted
        and available_of(new) == wanted
    )


def _proportional(deployment: Obj, sets: Sequence[Obj]) -> Scales:
    allowed = max_replicas(deployment) if replicas_of(deployment) > 0 else 0
    to_add = allowed - total(sets)
    # Of equal ones the newer grows and the older shrinks first.
    ordered = sorted(sets, key=age_order, reverse=to_add > 0)
    ordered.sort(key=replicas_of, reverse=True)
    sizes: list[int] = []
    added = 0
    for one in ordered:
        share = _share(deployment, one, to_add, added) if to_add else 0
        sizes.append(replicas_of(one) + share)
        added += share
    if sizes and to_add != added:
        sizes[0] = max(sizes[0] + to_add - added, 0)
    return list(zip(ordered, sizes, strict=True))


def _share(deployment: Obj, replica_set: Obj, to_add: int, added: int) -> int:
    size = replicas_of(replica_set)
    if replicas_of(deployment) == 0:
        fraction = -size
    else:
        text = annotations_of(replica_set).get(MAX, "")
        before = int(text) if text.isdecimal() else 0
        before = before or (deployment.get("status") or {}).get("replicas", 0) or size
        # Half up, as Go's rounding of a positive float.
        fraction = math.floor(size * max_replicas(deployment) / before + 0.5) - size
    allowed = to_add - added
    return min(fraction, allowed) if to_add > 0 else max(fraction, allowed)
