"""Counts by topology spread constraints how unequal a pod would make the domains of its kind.

Prepared by the scheduler once for each pod that has constraints, asked for each node. Pure. Between
hosts of a partition Slurm chooses: constraints on `kubernetes.io/hostname` are not applied there,
and `handover` says so. As pkg/scheduler/framework/plugins/podtopologyspread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..api.objects import Obj, is_deleting, key_of, labels_of
from ..api.selectors import LabelSelector
from ..client.affinity import matches_selector, untolerated
from .snapshot import HOSTNAME, Snapshot, is_partition
from .terms import keyed_selector

SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = SKEWED + " (missing required label)"
REASONS = (SKEWED, NO_LABEL)


@dataclass(slots=True)
class Constraint:
    key: str
    max_skew: int
    is_hard: bool
    min_domains: int
    selector: LabelSelector
    counts_itself: bool
    honors_affinity: bool
    honors_taints: bool
    counts: Counter[str] = field(default_factory=Counter)  # by domain, of those that are eligible

    def is_eligible(self, pod: Obj, node: Obj) -> bool:
        if self.key not in labels_of(node) or _is_within(node, self.key):
            return False
        if self.honors_affinity and not matches_selector(pod, node):
            return False
        return not (self.honors_taints and untolerated(pod, node))

    def refusal(self, node: Obj) -> str:
        if _is_within(node, self.key):
            return ""
        domain = labels_of(node).get(self.key)
        if domain is None:
            return NO_LABEL
        fewest = min(self.counts.values(), default=0)
        if len(self.counts) < self.min_domains:
            fewest = 0
        skew = self.counts[domain] + self.counts_itself - fewest
        return SKEWED if skew > self.max_skew else ""

    def score(self, node: Obj) -> int:
        """Return how many are there already: fewer is better."""
        domain = labels_of(node).get(self.key)
        return 0 if domain is None or _is_within(node, self.key) else self.counts[domain]


@dataclass(frozen=True, slots=True)
class Spread:
    constraints: Sequence[Constraint] = ()

    def refusal(self, node: Obj) -> str:
        hard = (one.refusal(node) for one in self.constraints if one.is_hard)
        return next((reason for reason in hard if reason), "")

    def score(self, node: Obj) -> int:
        return sum(one.score(node) for one in self.constraints if not one.is_hard)


NONE = Spread()


def _is_within(node: Obj, key: str) -> bool:
    return key == HOSTNAME and is_partition(node)


def prepare(pod: Obj, snapshot: Snapshot) -> Spread:
    wanted = pod["spec"].get("topologySpreadConstraints")
    if not wanted:
        return NONE
    constraints = [_constraint(pod, one) for one in wanted]
    for hard in (True, False):
        _count(pod, [one for one in constraints if one.is_hard is hard], snapshot)
    return Spread(constraints)


def _constraint(pod: Obj, spec: Obj) -> Constraint:
    selector = keyed_selector(spec, pod)
    return Constraint(
        key=spec["topologyKey"],
        max_skew=int(spec["maxSkew"]),
        is_hard=spec.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
        min_domains=int(spec.get("minDomains") or 1),
        selector=selector,
        counts_itself=selector.matches(labels_of(pod)),
        honors_affinity=spec.get("nodeAffinityPolicy", "Honor") == "Honor",
        honors_taints=spec.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _count(pod: Obj, constraints: Sequence[Constraint], snapshot: Snapshot) -> None:
    """Count pods of the same namespace, on nodes that have all the keys."""
    if not constraints:
        return
    keys = [one.key for one in constraints]
    eligible: dict[int, set[str]] = {}
    for number, one in enumerate(constraints):
        names = set()
        for node in _with_all(keys, snapshot.nodes):
            if one.is_eligible(pod, node):
                names.add(node["metadata"]["name"])
                one.counts.setdefault(labels_of(node)[one.key], 0)
        eligible[number] = names
    for other, node in snapshot.placed(key_of(pod).namespace):
        if is_deleting(other):
            continue
        for number, one in enumerate(constraints):
            if node["metadata"]["name"] in eligible[number] and one.selector.matches(
                labels_of(other)
            ):
                one.counts[labels_of(node)[one.key]] += 1


def _with_all(keys: Sequence[str], nodes: Iterable[Obj]) -> Iterable[Obj]:
    return (node for node in nodes if all(key in labels_of(node) for key in keys))
