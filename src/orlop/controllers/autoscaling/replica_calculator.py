"""Calculates how many replicas a metric asks for: the arithmetic of the horizontal pod autoscaler.

Called by the autoscaler with pods and what they use; amounts are integers of thousandths. Pure: the
moment is passed in. As pkg/controller/podautoscaler/replica_calculator.go, whose cautions it keeps:
the CPU usage of starting pods is not trusted, and for pods without a measurement the worse case is
assumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...api import quantity, times
from ...api.objects import Obj, condition_of, is_deleting, is_ready, meta, phase_of

Amounts = dict[str, int]  # by name of the pod


class NoReplicas(ValueError):
    """Raised where nothing can be said; the words are for the autoscaler's condition."""


class Measured(NamedTuple):
    """The usage of one pod."""

    value: int
    time: float
    window: float


class Proposal(NamedTuple):
    """Replicas, and what was found: a percentage where one is asked for, and the average."""

    replicas: int
    average: int
    utilization: int | None = None


@dataclass(frozen=True, slots=True)
class Caution:
    """Settings of the whole cluster."""

    tolerance: float = 0.1
    cpu_initialization_period: float = 300.0
    initial_readiness_delay: float = 30.0

    def is_close(self, ratio: float) -> bool:
        return abs(1.0 - ratio) <= self.tolerance


class Groups(NamedTuple):
    """Pods by how much their measurements are worth."""

    ready: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


def group_pods(
    pods: Iterable[Obj],
    measured: Mapping[str, Measured],
    *,
    is_cpu: bool,
    caution: Caution,
    now: float,
) -> Groups:
    groups = Groups(0, set(), set(), set())
    ready = 0
    for pod in pods:
        name = meta(pod)["name"]
        if is_deleting(pod) or phase_of(pod) == "Failed":
            groups.ignored.add(name)
        elif phase_of(pod) in ("Pending", ""):
            groups.unready.add(name)
        elif name not in measured:
            groups.missing.add(name)
        elif is_cpu and _is_starting(pod, measured[name], caution, now):
            groups.unready.add(name)
        else:
            ready += 1
    return groups._replace(ready=ready)


def _is_starting(pod: Obj, sample: Measured, caution: Caution, now: float) -> bool:
    """Return whether the pod's CPU is that of its start, which says nothing about its load."""
    ready = condition_of(pod, "Ready")
    start = (pod.get("status") or {}).get("startTime")
    if ready is None or not start:
        return True
    began = times.parse(start)
    changed = times.parse(ready["lastTransitionTime"]) if ready.get("lastTransitionTime") else 0.0
    is_unready = ready["status"] == "False"
    if began + caution.cpu_initialization_period > now:
        return is_unready or sample.time < changed + sample.window
    return is_unready and began + caution.initial_readiness_delay > changed


def requests_of(pods: Iterable[Obj], resource: str, container: str = "") -> Amounts:
    """Return what each pod asks for; raise NoReplicas where a container asks for nothing."""
    found: Amounts = {}
    for pod in pods:
        spec = pod["spec"]
        sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy")]
        total = 0
        for one in [*spec["containers"], *sidecars]:
            if container and one["name"] != container:
                continue
            requests = (one.get("resources") or {}).get("requests") or {}
            if resource not in requests:
                name = meta(pod)["name"]
                raise NoReplicas(
                    f"missing request for {resource} in container {one['name']} of Pod {name}"
                )
            total += quantity.to_millis(requests[resource])
        found[meta(pod)["name"]] = total
    return found


class _Ratio(NamedTuple):
    ratio: float
    average: int
    utilization: int | None = None


def utilization_replicas(
    current: int,
    target: int,
    pods: Sequence[Obj],
    groups: Groups,
    measured: Mapping[str, Measured],
    requests: Amounts,
    caution: Caution,
) -> Proposal:
    """Propose replicas for a target in percent of what pods request."""

    def ratio(amounts: Amounts) -> _Ratio:
        known = {name: value for name, value in amounts.items() if name in requests}
        asked = sum(requests[name] for name in known)
        if not asked:
            raise NoReplicas("no metrics returned matched known pods")
        used = sum(known.values())
        utilization = used * 100 // asked
        return _Ratio(utilization / target, used // len(known), utilization)

    def at_worst(name: str) -> int:
        return requests[name] * max(100, target) // 100

    return _replicas(current, pods, groups, measured, caution, ratio, at_worst)


def average_replicas(
    current: int,
    target: int,
    pods: Sequence[Obj],
    groups: Groups,
    measured: Mapping[str, Measured],
    caution: Caution,
) -> Proposal:
    """Propose replicas for a target that is an amount for each pod."""

    def ratio(amounts: Amounts) -> _Ratio:
        average = sum(amounts.values()) // len(amounts)
        return _Ratio(average / target, average)

    return _replicas(current, pods, groups, measured, caution, ratio, lambda _: target)


def _replicas(
    current: int,
    pods: Sequence[Obj],
    groups: Groups,
    measured: Mapping[str, Measured],
    caution: Caution,
    ratio: Callable[[Amounts], _Ratio],
    at_worst: Callable[[str], int],
) -> Proposal:
    """Propose replicas from the pods that count, then allow for the others.

    The others are taken as they would speak against a change. A pod without a measurement counts as
    using all where we would shrink and nothing where we would grow; a pod that is not ready counts
    as using nothing where we would grow.
    """
    if not pods:
        raise NoReplicas("no pods returned by selector while calculating replica count")
    left_out = groups.ignored | groups.unready
    amounts = {name: one.value for name, one in measured.items() if name not in left_out}
    if not amounts:
        raise NoReplicas("did not receive metrics for targeted pods (pods might be unready)")
    first = ratio(amounts)  # 1
    grows_with_unready = bool(groups.unready) and first.ratio > 1.0

    def proposal(replicas: int) -> Proposal:
        return Proposal(replicas, first.average, first.utilization)

    if not grows_with_unready and not groups.missing:
        if caution.is_close(first.ratio):
            return proposal(current)
        return proposal(math.ceil(first.ratio * groups.ready))
    for name in groups.missing:  # 2
        if first.ratio < 1.0:
            amounts[name] = at_worst(name)
        elif first.ratio > 1.0:
            amounts[name] = 0
    if grows_with_unready:
        amounts |= dict.fromkeys(groups.unready, 0)
    second = ratio(amounts).ratio
    turns_round = (first.ratio < 1.0 < second) or (second < 1.0 < first.ratio)
    if caution.is_close(second) or turns_round:
        return proposal(current)
    wanted = math.ceil(second * len(amounts))
    is_wrong_way = (second < 1.0 and wanted > current) or (second > 1.0 and wanted < current)
    return proposal(current if is_wrong_way else wanted)


def value_replicas(
    current: int, target: int, value: int, pods: Sequence[Obj], caution: Caution
) -> Proposal:
    """Propose replicas for one value from outside the pods, against a target of the whole."""
    ratio = value / target
    if not current:
        return Proposal(math.ceil(ratio), value)
    if caution.is_close(ratio):
        return Proposal(current, value)
    if not pods:
        raise NoReplicas("no pods returned by selector while calculating replica count")
    ready = sum(phase_of(pod) == "Running" and is_ready(pod) for pod in pods)
    return Proposal(math.ceil(ratio * ready), value)


def shared_replicas(replicas: int, target: int, value: int, caution: Caution) -> Proposal:
    """Propose replicas for one value that the pods share, against a target for each of them."""
    ratio = value / (target * replicas) if replicas else math.inf
    wanted = replicas if caution.is_close(ratio) else math.ceil(value / target)
    return Proposal(wanted, math.ceil(value / replicas) if replicas else value)
