"""Orders pods by which to delete first when there are too many.

Called by ReplicaSets and Jobs before they delete. As pkg/controller/controller_utils.go:
ActivePodsWithRanks, but a total order: of pods about equally long ready, restarts still count.
Pure: the moment is passed in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from ...api import times
from ...api.objects import (
    Obj,
    annotations_of,
    condition_of,
    is_active,
    is_ready,
    meta,
    phase_of,
    uid_of,
)

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER = -1.0


def cheapest_first(pods: Sequence[Obj], related: Iterable[Obj], now: float) -> list[Obj]:
    """Return the pods in the order in which they may be deleted.

    `related` are all pods of the same workload: of two equal pods the one whose node carries more
    of them goes first.
    """
    crowd = Counter(_node(pod) for pod in related if is_active(pod))
    return sorted(pods, key=lambda pod: _rank(pod, crowd[_node(pod)], now))


def _rank(pod: Obj, neighbours: int, now: float) -> tuple[object, ...]:
    """Return the sort key: unbound, not running, unready, cheap, crowded, young, restless."""
    ready = is_ready(pod)
    return (
        bool(_node(pod)),
        _PHASES.get(phase_of(pod), 0),
        ready,
        deletion_cost(pod),
        -neighbours,
        _age_bucket(_ready_since(pod), now) if ready else _NEVER,
        -_most_restarts(pod),
        _age_bucket(_time(meta(pod).get("creationTimestamp")), now),
        uid_of(pod),
    )


def _node(pod: Obj) -> str:
    return str(pod["spec"].get("nodeName") or "")


def deletion_cost(pod: Obj) -> int:
    """Return the annotation's value; 0 where it is no number."""
    try:
        return int(annotations_of(pod).get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _ready_since(pod: Obj) -> float | None:
    return _time((condition_of(pod, "Ready") or {}).get("lastTransitionTime"))


def _time(text: str | None) -> float | None:
    return times.parse(text) if text else None


def _age_bucket(since: float | None, now: float) -> float:
    """Return the age in powers of two: like ages are equal, so not always the youngest go."""
    if since is None:
        return _NEVER
    return math.floor(math.log2(max(now - since, 1.0)))


def _most_restarts(pod: Obj) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)
