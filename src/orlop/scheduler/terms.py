"""Reads which pods a term of a pod's affinity, or a spread constraint, is about.

Used by the inter-pod affinity and topology spread filters. Pure: namespaces' labels are passed in.
As pkg/scheduler/framework/types.go: AffinityTerm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..api import selectors
from ..api.objects import Obj, labels_of, meta
from ..api.selectors import LabelSelector

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

NamespaceLabels = Callable[[str], dict[str, str]]


@dataclass(frozen=True, slots=True)
class Term:
    """A selector of pods in some namespaces, and the domains that it speaks of."""

    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    topology_key: str
    weight: int = 0

    def matches(self, pod: Obj, labels_of_namespace: NamespaceLabels) -> bool:
        namespace = meta(pod).get("namespace") or ""
        is_there = namespace in self.namespaces or (
            self.namespace_selector is not None
            and self.namespace_selector.matches(labels_of_namespace(namespace))
        )
        return is_there and self.selector.matches(labels_of(pod))


def required(pod: Obj, kind: str) -> list[Term]:
    """Return the required terms of `podAffinity` or `podAntiAffinity`."""
    found = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or []
    return [_term(pod, one) for one in found]


def preferred(pod: Obj) -> list[Term]:
    """Return all preferred terms; those of anti-affinity weigh against."""
    return list(_preferred(pod))


def _preferred(pod: Obj) -> Iterator[Term]:
    affinity = pod["spec"].get("affinity") or {}
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for one in (affinity.get(kind) or {}).get(PREFERRED) or []:
            yield _term(pod, one["podAffinityTerm"], sign * int(one.get("weight", 1)))


def _term(pod: Obj, term: Obj, weight: int = 0) -> Term:
    names = frozenset(term.get("namespaces") or ())
    chosen = term.get("namespaceSelector")
    if not names and chosen is None:
        names = frozenset({meta(pod).get("namespace") or ""})
    return Term(
        selector=keyed_selector(term, pod),
        namespaces=names,
        namespace_selector=selectors.from_structure(chosen) if chosen is not None else None,
        topology_key=term["topologyKey"],
        weight=weight,
    )


def keyed_selector(holder: Obj, pod: Obj) -> LabelSelector:
    """Return labelSelector with matchLabelKeys and mismatchLabelKeys, by the pod's labels."""
    structure = holder.get("labelSelector")
    labels = labels_of(pod)
    more = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in holder.get(field) or ()
        if key in labels
    ]
    if structure is None or not more:
        return selectors.from_structure(structure)
    expressions = [*(structure.get("matchExpressions") or ()), *more]
    return selectors.from_structure({**structure, "matchExpressions": expressions})
