"""Chooses, of the nodes that a pod can run on, the one it should.

Called by the scheduler. Pure. What the pod prefers comes first, then how its neighbours and what is
free speak, then the site's default partition, then the first by name, so that the same pod always
goes to the same node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..api.objects import Obj, labels_of, meta
from ..client.affinity import preference, untolerated
from ..slurm.query.partitions import DEFAULT_LABEL

Rank = tuple[int, int, float]  # neighbours, spreading, load: smaller is better
_EVEN: Rank = (0, 0, 0.0)


def best(pod: Obj, nodes: Sequence[Obj], ranks: Mapping[str, Rank] | None = None) -> Obj:
    """Return the best of at least one node; `ranks` by the names of nodes."""
    known = ranks or {}
    return min(nodes, key=lambda node: _rank(pod, node, known.get(meta(node)["name"], _EVEN)))


def _rank(pod: Obj, node: Obj, rank: Rank) -> tuple[object, ...]:
    """Return a sort key: smaller is better."""
    return (
        len(untolerated(pod, node, ("PreferNoSchedule",))),
        -preference(pod, node),
        *rank,
        labels_of(node).get(DEFAULT_LABEL) != "true",
        meta(node)["name"],
    )
