"""Plans the next step of a StatefulSet: which ordinals to make, which pods to end.

Asked by the StatefulSet controller in each reconcile. Pure. As
pkg/controller/statefulset/stateful_set_control.go: one pod after the other in order, each waiting
for all before it, unless the set is Parallel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....api.objects import Obj, is_deleting, is_terminal
from ..controller_revisions import revision_name
from ..deployment.rollout import scaled_value
from ..pod_control import BURST
from .pods import is_healthy, is_parallel, ordinal_of, ordinals_of, start_of


@dataclass(slots=True)
class Step:
    """The things to do now; everything else waits for its turn."""

    create: list[int] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)


def plan(stateful_set: Obj, pods: Sequence[Obj], update: str, now: float) -> Step:
    """Return the next step towards `spec.replicas` pods of revision `update`.

    1. From the first ordinal up: ended pods go, missing ones come; in order, each must be healthy
       before the next is looked at.
    2. From the last condemned pod down: they go, one at a time in order.
    3. When all that is in place: pods of an old revision go, the highest ordinal first.
    """
    by_ordinal = _by_ordinal(stateful_set, pods)
    step = Step()
    if not _fill(stateful_set, by_ordinal, step, now):  # 1
        return step
    if not _condemn(stateful_set, by_ordinal, step, now):  # 2
        return step
    if not step.create and not step.delete:
        _roll(stateful_set, by_ordinal, update, step, now)  # 3
    return step


def _by_ordinal(stateful_set: Obj, pods: Sequence[Obj]) -> dict[int, Obj]:
    found = ((ordinal_of(pod, stateful_set), pod) for pod in pods)
    return {ordinal: pod for ordinal, pod in found if ordinal is not None}


def _fill(stateful_set: Obj, pods: Mapping[int, Obj], step: Step, now: float) -> bool:
    """Fill the ordinals; return whether to go on after the pods that should be there."""
    in_order = not is_parallel(stateful_set)
    for ordinal in ordinals_of(stateful_set):
        pod = pods.get(ordinal)
        if pod is None:
            step.create.append(ordinal)
            if len(step.create) == BURST:
                return False  # when these are there, the others are made
        elif is_terminal(pod) and not is_deleting(pod):
            step.delete.append(pod)  # it will be made anew
        elif is_healthy(pod, stateful_set, now):
            continue
        if in_order:
            return False
    return True


def _condemn(stateful_set: Obj, pods: Mapping[int, Obj], step: Step, now: float) -> bool:
    """Delete surplus pods; return whether to go on after those that should not be there."""
    wanted = ordinals_of(stateful_set)
    condemned = [pods[ordinal] for ordinal in sorted(pods, reverse=True) if ordinal not in wanted]
    if is_parallel(stateful_set):
        step.delete += [pod for pod in condemned if not is_deleting(pod)]
        return True
    for pod in condemned:
        if not is_deleting(pod):
            step.delete.append(pod)
        return False
    return True


def partition_of(stateful_set: Obj) -> int:
    strategy = stateful_set["spec"].get("updateStrategy") or {}
    return int((strategy.get("rollingUpdate") or {}).get("partition", 0))


def is_rolling(stateful_set: Obj) -> bool:
    strategy = stateful_set["spec"].get("updateStrategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def _max_unavailable(stateful_set: Obj) -> int:
    rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    replicas = len(ordinals_of(stateful_set))
    value = scaled_value(rolling.get("maxUnavailable", 1), replicas, round_up=True)
    return max(value, 1)


def _roll(stateful_set: Obj, pods: Mapping[int, Obj], update: str, step: Step, now: float) -> None:
    if not is_rolling(stateful_set):
        return
    first = start_of(stateful_set) + partition_of(stateful_set)
    room = _max_unavailable(stateful_set)
    for ordinal in reversed(ordinals_of(stateful_set)):
        if ordinal < first or room <= 0:
            return
        pod = pods[ordinal]
        if revision_name(pod) != update and not is_deleting(pod):
            step.delete.append(pod)
            room -= 1
        elif not is_healthy(pod, stateful_set, now):
            room -= 1


def revision_for(stateful_set: Obj, ordinal: int, current: str, update: str) -> str:
    """Return the revision of a new pod: below the partition it stays the current one."""
    first = start_of(stateful_set) + partition_of(stateful_set)
    return current if is_rolling(stateful_set) and ordinal < first else update
