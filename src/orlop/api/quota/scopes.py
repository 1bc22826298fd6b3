"""Selects the objects a quota is about: by its scopes and its scope selector.

Used for every object that may count. Pure. As pkg/quota/v1/evaluator/core/pods.go:
podMatchesScopeFunc. A scope is about pods, or about claims: an object of another kind is not within
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..kinds import PERSISTENT_VOLUME_CLAIM, POD, Kind
from ..objects import Obj
from ..qos import qos_class

_AFFINITIES = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def matches(quota: Obj, kind: Kind, obj: Obj) -> bool:
    """Return whether the object is within all scopes of the quota."""
    return all(_within(one, kind, obj) for one in scope_expressions(quota))


def scope_expressions(quota: Obj) -> Iterator[Obj]:
    """Yield scopes as the selectors they are short for, then the selectors themselves."""
    spec = quota.get("spec") or {}
    for scope in spec.get("scopes") or ():
        yield {"scopeName": scope, "operator": "Exists"}
    yield from (spec.get("scopeSelector") or {}).get("matchExpressions") or ()


def _within(expression: Obj, kind: Kind, obj: Obj) -> bool:
    scope = expression["scopeName"]
    if kind.resource == PERSISTENT_VOLUME_CLAIM.resource:
        return scope == "VolumeAttributesClass" and _selects(
            expression, (obj.get("spec") or {}).get("volumeAttributesClassName") or ""
        )
    if kind.resource != POD.resource:
        return False
    if scope == "PriorityClass":
        return _selects(expression, (obj.get("spec") or {}).get("priorityClassName") or "")
    known = _SCOPES.get(scope)
    return known is not None and known(obj)


def _selects(expression: Obj, value: str) -> bool:
    """Select as a label selector over one label, which is absent where the name is empty."""
    values = expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return bool(value)
        case "DoesNotExist":
            return not value
    return False


def _is_terminating(pod: Obj) -> bool:
    seconds = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def _is_best_effort(pod: Obj) -> bool:
    return qos_class(pod) == "BestEffort"


def _crosses_namespaces(pod: Obj) -> bool:
    return any(
        term.get("namespaces") or term.get("namespaceSelector") is not None for term in _terms(pod)
    )


def _terms(pod: Obj) -> Iterator[Obj]:
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    for name in _AFFINITIES:
        part = affinity.get(name) or {}
        yield from part.get(_REQUIRED) or ()
        yield from (one.get("podAffinityTerm") or {} for one in part.get(_PREFERRED) or ())


_SCOPES: dict[str, Callable[[Obj], bool]] = {
    "Terminating": _is_terminating,
    "NotTerminating": lambda pod: not _is_terminating(pod),
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda pod: not _is_best_effort(pod),
    "CrossNamespacePodAffinity": _crosses_namespaces,
}
