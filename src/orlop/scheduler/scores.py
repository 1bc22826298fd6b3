"""Of the nodes that a pod can run on, the one it should.

Called by the scheduler. Pure. What the pod prefers comes first, then the site's default
partition, then the first by name, so that the same pod always goes to the same node.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api.objects import Obj, labels_of, meta
from ..client.affinity import preference, untolerated
from ..slurm.partitions import DEFAULT_LABEL


def best(pod: Obj, nodes: Sequence[Obj]) -> Obj:
    """The best of at least one node."""
    return min(nodes, key=lambda node: _rank(pod, node))


def _rank(pod: Obj, node: Obj) -> tuple[int, int, bool, str]:
    """Smaller is better."""
    return (
        len(untolerated(pod, node, ("PreferNoSchedule",))),
        -preference(pod, node),
        labels_of(node).get(DEFAULT_LABEL) != "true",
        meta(node)["name"],
    )
