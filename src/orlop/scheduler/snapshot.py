"""Shows the cluster as one decision sees it: nodes, the pods on them, and those on their way.

Made by the scheduler for each pod from its caches; nothing in it changes while the decision is
made. Pods that were given a node a moment ago count, although the cache has not heard of it yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .. import wellknown
from ..api.gangs import BY_GANG, keys_of
from ..api.objects import Key, Obj, is_deleting, is_terminal, key_of, labels_of, meta, uid_of
from ..client.informer import Informer
from . import terms

HOSTNAME = "kubernetes.io/hostname"
BY_NODE = "spec.nodeName"  # index of pods, shared with the kubelet
BY_TERM = "scheduler terms"  # index of the few pods whose affinity others must respect
ANTI, PREFERS = "anti", "prefers"


def node_of(pod: Obj) -> tuple[str, ...]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()


def terms_of(pod: Obj) -> tuple[str, ...]:
    affinity = pod["spec"].get("affinity")
    if not affinity or is_terminal(pod):
        return ()
    anti = (ANTI,) if (affinity.get("podAntiAffinity") or {}).get(terms.REQUIRED) else ()
    kinds = ("podAffinity", "podAntiAffinity")
    prefers = any((affinity.get(kind) or {}).get(terms.PREFERRED) for kind in kinds)
    return (*anti, *((PREFERS,) if prefers else ()))


def is_partition(node: Obj) -> bool:
    """Return whether Slurm places pods within the node, and queues them: nothing is counted."""
    labels = labels_of(node)
    return labels.get(wellknown.ENGINE_LABEL) == "slurm" or wellknown.PARTITION_LABEL in labels


@dataclass(frozen=True, slots=True)
class Snapshot:
    nodes: Sequence[Obj]
    pods: Informer
    namespaces: Informer
    assumed: Mapping[Key, tuple[Obj, str]]  # decided, and not yet in the cache
    nominated: Mapping[Key, tuple[Obj, str]]  # waiting for room that is being made for them
    without: frozenset[str] = frozenset()  # uids of pods that are imagined away
    by_name: Mapping[str, Obj] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        nodes: Sequence[Obj],
        pods: Informer,
        namespaces: Informer,
        assumed: Mapping[Key, tuple[Obj, str]],
        nominated: Mapping[Key, tuple[Obj, str]],
    ) -> Snapshot:
        by_name = {meta(node)["name"]: node for node in nodes}
        return cls(nodes, pods, namespaces, assumed, nominated, by_name=by_name)

    def imagine_without(self, gone: Iterable[Obj]) -> Snapshot:
        return replace(self, without=self.without | {uid_of(pod) for pod in gone})

    def labels_of_namespace(self, name: str) -> dict[str, str]:
        found = self.namespaces.get(Key("", name))
        return labels_of(found) if found is not None else {}

    def pods_on(self, node: str) -> list[Obj]:
        """Return those that run there or will."""
        found = [pod for pod in self.pods.by_index(BY_NODE, node) if self._counts(pod)]
        return found + [pod for pod, place in self._on_their_way() if place == node]

    def placed(self, namespace: str = "") -> Iterator[tuple[Obj, Obj]]:
        """Yield every pod that has a node, with it; of one namespace or of all."""
        for pod in self.pods.list(namespace):
            node = self.by_name.get(pod["spec"].get("nodeName") or "")
            if node is not None and self._counts(pod):
                yield pod, node
        for pod, place in self._on_their_way():
            if namespace in ("", key_of(pod).namespace) and place in self.by_name:
                yield pod, self.by_name[place]

    def with_terms(self, which: str) -> Iterator[tuple[Obj, Obj]]:
        """Yield the placed pods whose own affinity concerns others."""
        for pod in self.pods.by_index(BY_TERM, which):
            node = self.by_name.get(pod["spec"].get("nodeName") or "")
            if node is not None and self._counts(pod):
                yield pod, node
        for pod, place in self._on_their_way():
            if which in terms_of(pod) and place in self.by_name:
                yield pod, self.by_name[place]

    def mates(self, gang: str) -> Iterator[tuple[Obj, str]]:
        """Yield a gang's members with a node and not on their way out, with the node's name."""
        for pod in self.pods.by_index(BY_GANG, gang):
            name = pod["spec"].get("nodeName")
            if name and self._counts(pod) and not is_deleting(pod):
                yield pod, name
        for pod, place in self._on_their_way():
            if gang in keys_of(pod):
                yield pod, place

    def _on_their_way(self) -> Iterator[tuple[Obj, str]]:
        for key, (pod, place) in self.assumed.items():
            cached = self.pods.get(key)
            is_known = cached is not None and bool(cached["spec"].get("nodeName"))
            if not is_known and uid_of(pod) not in self.without:
                yield pod, place

    def _counts(self, pod: Obj) -> bool:
        return not is_terminal(pod) and uid_of(pod) not in self.without
