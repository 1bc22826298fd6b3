"""Counts how much of each quota resource an object uses.

Used by admission and by the quota controller. Pure; the moment is passed in. Pods, services and
claims use more than their number; of every other kind, custom ones included, objects are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .. import times
from ..kinds import (
    CONFIG_MAP,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICATION_CONTROLLER,
    RESOURCE_QUOTA,
    SECRET,
    SERVICE,
    Kind,
)
from ..objects import Obj, is_terminal, meta
from ..pod_resources import Amounts, added, containers_of, parsed, pod_amounts
from ..quantity import NANO, Quantity, parse

ONE = Quantity(NANO)
_CLASS = ".storageclass.storage.k8s.io/"
# Counted under their own names too, from before there was count/.
_PLAIN = {
    kind.resource for kind in (CONFIG_MAP, SECRET, REPLICATION_CONTROLLER, RESOURCE_QUOTA, SERVICE)
} | {PERSISTENT_VOLUME_CLAIM.resource}
# A quota on one of these makes every container say how much it wants: an old mistake that stays.
_DEMANDED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_NATIVE = ("cpu", "memory", "ephemeral-storage")


def usage(kind: Kind, obj: Obj, now: float) -> Amounts:
    """Return all that the object uses of anything a quota may limit."""
    counted = {f"count/{kind.resource}": ONE}
    if kind.resource in _PLAIN:
        counted[kind.resource] = ONE
    more = _MORE.get(kind.resource)
    return {**counted, **more(obj, now)} if more else counted


def charged_on_update(kind: Kind) -> bool:
    """Return whether an update may use more than before; of most kinds just the number counts."""
    return kind.resource in (SERVICE.resource, PERSISTENT_VOLUME_CLAIM.resource)


def resources_of(kind: Kind, names: Iterable[str]) -> list[str]:
    """Return those of a quota's resources that objects of the kind use."""
    return [name for name in names if _is_of(kind, name)]


def constraint(kind: Kind, obj: Obj, names: Iterable[str]) -> str:
    """Return what the object must say because of a quota on these resources; empty if it does."""
    if kind.resource != POD.resource:
        return ""
    missing: dict[str, set[str]] = {}
    for container in containers_of(obj.get("spec") or {}):
        resources = container.get("resources") or {}
        said = _compute(parsed(resources.get("requests")), parsed(resources.get("limits")))
        for name in names:
            if name in _DEMANDED and name not in said:
                missing.setdefault(name, set()).add(str(container.get("name", "")))
    each = [f"{name} for: {','.join(sorted(who))}" for name, who in sorted(missing.items())]
    return f"must specify {'; '.join(each)}" if each else ""


def _is_of(kind: Kind, name: str) -> bool:
    if name == f"count/{kind.resource}" or (kind.resource in _PLAIN and name == kind.resource):
        return True
    if kind.resource == POD.resource:
        return name == "pods" or _is_compute(name)
    if kind.resource == SERVICE.resource:
        return name in ("services.nodeports", "services.loadbalancers")
    if kind.resource == PERSISTENT_VOLUME_CLAIM.resource:
        return name == "requests.storage" or _CLASS in name
    return False


def _is_compute(name: str) -> bool:
    if _CLASS in name or name == "requests.storage" or name.startswith("count/"):
        return False
    prefix, dot, rest = name.partition(".")
    if dot and prefix in ("requests", "limits"):
        return rest in _NATIVE or rest.startswith("hugepages-") or "/" in rest
    return name in _NATIVE or name.startswith("hugepages-")


def _pod(pod: Obj, now: float) -> Amounts:
    """Return what a pod uses.

    A pod that has ended, or whose node was given all the time to end it, uses nothing more.
    """
    if is_terminal(pod) or _is_overdue(pod, now):
        return {}
    return {"pods": ONE, **_compute(pod_amounts(pod, "requests"), pod_amounts(pod, "limits"))}


def _is_overdue(pod: Obj, now: float) -> bool:
    metadata = meta(pod)
    grace = metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in metadata or grace is None:
        return False
    return now > times.parse(metadata["deletionTimestamp"]) + float(grace)


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    used: Amounts = {}
    for name, amount in requests.items():
        used[f"requests.{name}"] = amount
        if name in _NATIVE or name.startswith("hugepages-"):
            used[name] = amount
    for name, amount in limits.items():
        if name in _NATIVE:
            used[f"limits.{name}"] = amount
    return used


def _service(service: Obj, now: float) -> Amounts:
    spec = service.get("spec") or {}
    ports = spec.get("ports") or ()
    used: Amounts = {}
    if spec.get("type") == "LoadBalancer":
        used["services.loadbalancers"] = ONE
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
    if spec.get("type") in ("NodePort", "LoadBalancer") and ports:
        used["services.nodeports"] = Quantity(len(ports) * NANO)
    return used


def _claim(claim: Obj, now: float) -> Amounts:
    spec = claim.get("spec") or {}
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    storage = {"requests.storage": parse(asked)} if asked is not None else {}
    named = spec.get("storageClassName") or ""
    if not named:
        return storage
    of_class = {"persistentvolumeclaims": ONE, **storage}
    return added(storage, {f"{named}{_CLASS}{name}": amount for name, amount in of_class.items()})


_MORE: dict[str, Callable[[Obj, float], Amounts]] = {
    POD.resource: _pod,
    SERVICE.resource: _service,
    PERSISTENT_VOLUME_CLAIM.resource: _claim,
}
KINDS_WITH_USAGE = (POD, SERVICE, PERSISTENT_VOLUME_CLAIM)
