"""Applies pod affinity and anti-affinity: which nodes they leave, and which they prefer.

Prepared by the scheduler once for each pod, asked for each node. Pure. Between hosts of a partition
Slurm chooses: terms on `kubernetes.io/hostname` rule out no partition, `handover` passes them on.
As pkg/scheduler/framework/plugins/interpodaffinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..api.objects import Obj, annotations_of, labels_of, meta
from ..slurm import hostlist
from ..wellknown import NODE_LIST
from .snapshot import ANTI, HOSTNAME, PREFERS, Snapshot, is_partition
from .terms import Term, preferred, required

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
REASONS = (AFFINITY, ANTI_AFFINITY, EXISTING)

# Characters of lists of hosts, and hosts in them, that are read for one pod: whoever may change its
# neighbours may write such lists, and this is between others' turns.
MOST_READ = 4 * hostlist.MOST_HOSTS

Pairs = Counter[tuple[str, str]]  # topology key and value


@dataclass(slots=True)
class Affinity:
    """The meaning of its neighbours for one pod."""

    wanted: Sequence[Term] = ()
    unwanted: Sequence[Term] = ()
    near: list[Pairs] = field(default_factory=list)  # by term of `wanted`
    is_first: bool = False  # nobody matches yet, but the pod itself does
    avoided: Pairs = field(default_factory=Counter)
    refusing: Pairs = field(default_factory=Counter)
    liking: Pairs = field(default_factory=Counter)
    hosts: dict[str, list[set[str]]] = field(default_factory=dict)  # by partition, then by term
    left: int = MOST_READ

    def refusal(self, node: Obj) -> str:
        """Return why the node will not do; empty where it will."""
        if any(not _is_within(node, key) and n for (key, n) in _found(self.refusing, node)):
            return EXISTING
        if any(not _is_within(node, key) and n for (key, n) in _found(self.avoided, node)):
            return ANTI_AFFINITY
        labels = labels_of(node)
        for number, term in enumerate(self.wanted):
            if term.topology_key not in labels:
                return AFFINITY
            if self.is_first:
                continue
            if _is_within(node, term.topology_key):
                if not self.hosts_for(node):
                    return AFFINITY
            elif not self.near[number][term.topology_key, labels[term.topology_key]]:
                return AFFINITY
        return ""

    def score(self, node: Obj) -> int:
        """Return the weights of all that it, and others, prefer there."""
        return sum(weight for _, weight in _found(self.liking, node))

    def hosts_for(self, node: Obj) -> set[str]:
        """Return the hosts within a partition on which every wanted neighbour is."""
        sets = self.hosts.get(meta(node)["name"]) or []
        return set.intersection(*sets) if sets else set()


def _found(pairs: Pairs, node: Obj) -> list[tuple[str, int]]:
    """Return topology keys, and what was counted in the node's domain of each."""
    if not pairs:
        return []
    labels = labels_of(node)
    return [(key, count) for (key, value), count in pairs.items() if labels.get(key) == value]


def _is_within(node: Obj, key: str) -> bool:
    return key == HOSTNAME and is_partition(node)


def prepare(pod: Obj, snapshot: Snapshot) -> Affinity:
    """Look at the neighbours; most pods have nothing to look at."""
    found = Affinity(required(pod, "podAffinity"), required(pod, "podAntiAffinity"))
    names = snapshot.labels_of_namespace
    for other, node in snapshot.with_terms(ANTI):
        for term in required(other, "podAntiAffinity"):
            if term.matches(pod, names):
                _add(found.refusing, term, node)
    likes = preferred(pod)
    for other, node in snapshot.with_terms(PREFERS):
        for term in preferred(other):
            if term.matches(pod, names):
                _add(found.liking, term, node, term.weight)
    if found.wanted or found.unwanted or likes:
        _look_around(pod, snapshot, found, likes)
    return found


def _look_around(pod: Obj, snapshot: Snapshot, found: Affinity, likes: Sequence[Term]) -> None:
    names = snapshot.labels_of_namespace
    found.near = [Counter() for _ in found.wanted]
    is_any = False
    for other, node in snapshot.placed():
        if found.wanted and all(term.matches(other, names) for term in found.wanted):
            is_any = True
            for number, term in enumerate(found.wanted):
                _add(found.near[number], term, node)
            _add_hosts(found, other, node)
        for term in found.unwanted:
            if term.matches(other, names):
                _add(found.avoided, term, node)
        for term in likes:
            if term.matches(other, names):
                _add(found.liking, term, node, term.weight)
    is_own = bool(found.wanted) and all(term.matches(pod, names) for term in found.wanted)
    found.is_first = not is_any and is_own


def _add(pairs: Pairs, term: Term, node: Obj, by: int = 1) -> None:
    value = labels_of(node).get(term.topology_key)
    if value is not None:
        pairs[term.topology_key, value] += by


def _add_hosts(found: Affinity, other: Obj, node: Obj) -> None:
    if not is_partition(node) or not any(t.topology_key == HOSTNAME for t in found.wanted):
        return
    text = annotations_of(other).get(NODE_LIST, "")
    found.left -= len(text)
    if found.left < 0:
        return
    try:
        hosts = hostlist.expand(text, min(found.left, hostlist.MOST_HOSTS))
    except ValueError:  # whoever may change the pod may write there what they like
        return
    found.left -= len(hosts)
    known = found.hosts.setdefault(meta(node)["name"], [set()])
    known[0].update(hosts)
