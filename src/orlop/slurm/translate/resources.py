"""Sums up what a pod asks for in all: CPUs, memory, GPUs, as Kubernetes counts them.

Used by `job`; pure. Requests count, and limits where there is no request; init containers run
one after the other before the containers, except those that stay (restartPolicy Always), which
run beside everything after them.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from ...api import quantity
from ...api.objects import Obj
from ...errors import ConfigError
from .gres import GPU_RESOURCES

_MIB = 1 << 20

Amounts = Counter[str]  # resource -> milli-units


@dataclass(frozen=True, slots=True)
class Demand:
    """The resources that a pod asks for; zero means that the pod does not say, and Slurm's default
    holds.
    """

    cpus: int = 0
    memory_mib: int = 0
    gpus: int = 0


def demand(pod: Obj) -> Demand:
    total = amounts(pod)
    return Demand(
        cpus=math.ceil(total["cpu"] / 1000),
        memory_mib=math.ceil(total["memory"] / 1000 / _MIB),
        gpus=sum(math.ceil(total[name] / 1000) for name in GPU_RESOURCES),
    )


def amounts(pod: Obj) -> Amounts:
    """Return the sums as k8s.io/component-helpers/resource/helpers.go: PodRequests."""
    spec = pod.get("spec") or {}
    total = _containers(spec)
    # Resources of the whole pod, where given, replace the sum for what they name.
    for name, amount in _asked(spec).items():
        total[name] = amount
    for name, text in (spec.get("overhead") or {}).items():
        total[name] += _amount(name, text)
    return total


def _containers(spec: Obj) -> Amounts:
    running = Amounts()
    for container in spec.get("containers") or []:
        running.update(_asked(container))
    peak = Amounts()
    staying = Amounts()
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            staying.update(_asked(container))
            peak |= staying
        else:
            peak |= staying + _asked(container)
    return (running + staying) | peak


def _asked(holder: Obj) -> Amounts:
    """Return the requests of a container (or of the pod), else its limits, resource by resource."""
    resources = holder.get("resources") or {}
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Amounts({name: _amount(name, text) for name, text in merged.items()})


def _amount(name: str, text: object) -> int:
    try:
        return quantity.to_millis(text)
    except quantity.QuantityError as error:
        raise ConfigError(f"resource {name}: {text!r}: {error}") from None
