"""Finds pods in the informer's cache: by what the kubelet keeps of them, by their node, by uid.

Used by everything that looks at pods. A pod that the kubelet has just written is returned as it was
answered, until the cache has it as well. It changes nothing.
"""

from __future__ import annotations

from ...api.objects import Obj, annotations_of, is_terminal, uid_of
from ...client.informer import Informer, revision_of
from ...wellknown import STANDS_FOR
from .pods import Pods, PodState

_BY_NODE, _BY_UID = "spec.nodeName", "metadata.uid"


class PodCache:
    """The pods of the API, beside `pods`, what the kubelet keeps of them."""

    def __init__(self, informer: Informer, pods: Pods) -> None:
        self.informer = informer
        self.pods = pods
        informer.add_index(_BY_NODE, _node_names)
        informer.add_index(_BY_UID, lambda pod: (uid_of(pod),))

    def newest(self, state: PodState) -> Obj | None:
        """Return the pod's object, as new as we know it; None once it is gone."""
        cached = self.informer.get(state.key)
        if cached is None or uid_of(cached) != state.uid:
            return None
        written = state.written
        if written is not None and revision_of(written) > revision_of(cached):
            return written
        state.written = None
        return cached

    def on_node(self, name: str) -> list[Obj]:
        return list(self.informer.by_index(_BY_NODE, name))

    def has_pods(self, node: str) -> bool:
        """Return whether pods are bound to the node that have not ended."""
        bound = self.on_node(node)
        return any(not is_terminal(pod) and STANDS_FOR not in annotations_of(pod) for pod in bound)

    def with_uid(self, uid: str) -> Obj | None:
        return next(iter(self.informer.by_index(_BY_UID, uid)), None)


def _node_names(pod: Obj) -> tuple[str, ...]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()
