"""Sums up what a pod asks for in all, resource by resource, as Kubernetes does.

Used by admission and by the controllers that count. Pure, and exact: amounts stay quantities. As
k8s.io/component-helpers/resource/helpers.go: PodRequests and PodLimits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from .objects import Obj
from .quantity import Quantity, parse

Amounts = dict[str, Quantity]
Field = Literal["requests", "limits"]


def parsed(amounts: Mapping[str, Any] | None) -> Amounts:
    return {name: parse(text) for name, text in (amounts or {}).items()}


def added(*many: Amounts) -> Amounts:
    total: Amounts = {}
    for amounts in many:
        for name, amount in amounts.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def largest(*many: Amounts) -> Amounts:
    most: Amounts = {}
    for amounts in many:
        for name, amount in amounts.items():
            if name not in most or amount > most[name]:
                most[name] = amount
    return most


def containers_of(spec: Obj) -> list[Obj]:
    """Return all containers of a pod, init containers included."""
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def pod_amounts(pod: Obj, field: Field, *, with_overhead: bool = True) -> Amounts:
    """Return the pod's requests or limits.

    Containers run side by side; init containers one after the other before them, but for those
    that stay. What the pod as a whole says of a resource counts over the sum.
    """
    spec = pod.get("spec") or {}
    running = added(*_each(spec.get("containers"), field))
    staying: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = parsed((container.get("resources") or {}).get(field))
        if container.get("restartPolicy") == "Always":
            staying = added(staying, own)
            peak = largest(peak, staying)
        else:
            peak = largest(peak, added(staying, own))
    total = largest(added(running, staying), peak)
    total |= parsed((spec.get("resources") or {}).get(field))
    if not with_overhead:
        return total
    overhead = parsed(spec.get("overhead"))
    if field == "limits":  # only what is limited at all grows
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return added(total, overhead)


def _each(containers: Iterable[Obj] | None, field: Field) -> list[Amounts]:
    return [parsed((one.get("resources") or {}).get(field)) for one in containers or ()]
