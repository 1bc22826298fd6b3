"""Shows the kubelet's measurements as objects of metrics.k8s.io: PodMetrics and NodeMetrics.

Handed to the API server by the composition, which serves them as a group of its own; made anew for
each question and not kept. A node of ours is a partition or this host: what it uses is what our
pods use on it, for what others do there is not ours to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.kinds import NODE_METRICS, POD_METRICS, Kind
from ...api.objects import Obj, key_of, labels_of, meta
from ...api.times import rfc3339
from ...client.clock import Clock
from ...client.informer import Informer
from ..node.registration import Nodes
from .measurements import ContainerUsage, Measurements, PodUsage


class ResourceMetrics:
    """See apiserver.objects.virtual_kinds.Source."""

    kinds = (NODE_METRICS, POD_METRICS)

    def __init__(
        self, measurements: Measurements, nodes: Nodes, cached_nodes: Informer, clock: Clock
    ) -> None:
        self._measurements = measurements
        self._nodes = nodes
        self._cached_nodes = cached_nodes
        self._clock = clock

    async def objects(self, kind: Kind, namespace: str) -> list[Obj]:
        """Return all objects of a kind, of one namespace or of all."""
        usages = await self._measurements.current()
        now = self._clock.now()
        if kind == POD_METRICS:
            pods = [one for one in usages if namespace in ("", meta(one.pod)["namespace"])]
            return [pod_metrics(one, now) for one in sorted(pods, key=lambda o: key_of(o.pod))]
        nodes = [node for node in self._cached_nodes.list() if self._nodes.is_ours(_name(node))]
        return [node_metrics(node, usages, now) for node in sorted(nodes, key=_name)]


def _name(node: Obj) -> str:
    return str(meta(node)["name"])


def pod_metrics(usage: PodUsage, now: float) -> Obj:
    namespace, name = key_of(usage.pod)
    return {
        "kind": POD_METRICS.kind,
        "apiVersion": POD_METRICS.api_version,
        "metadata": _metadata(usage.pod, now, namespace=namespace, name=name),
        **_moment(usage.containers, now),
        "containers": [{"name": one.name, "usage": _usage([one])} for one in usage.containers],
    }


def node_metrics(node: Obj, usages: Sequence[PodUsage], now: float) -> Obj:
    on_it = [one for usage in usages if usage.node == _name(node) for one in usage.whole]
    return {
        "kind": NODE_METRICS.kind,
        "apiVersion": NODE_METRICS.api_version,
        "metadata": _metadata(node, now, name=_name(node)),
        **_moment(on_it, now),
        "usage": _usage(on_it),
    }


def _metadata(obj: Obj, now: float, **names: str) -> Obj:
    """Return metadata with the labels of what is measured, so that selectors of pods select their
    metrics.
    """
    labels = labels_of(obj)
    shown: Obj = {**names, "creationTimestamp": rfc3339(now)}
    return {**shown, "labels": labels} if labels else shown


def _moment(containers: Sequence[ContainerUsage], now: float) -> Obj:
    window = max((one.window for one in containers), default=0.0)
    when = min((one.point.time for one in containers), default=now)
    return {"timestamp": rfc3339(when), "window": f"{window:.3f}".rstrip("0").rstrip(".") + "s"}


def _usage(containers: Iterable[ContainerUsage]) -> Obj:
    """Return usage as metrics-server writes it: nanocores, and Ki of the working set."""
    every = list(containers)
    nanocores = sum(one.nanocores for one in every)
    memory = sum(one.point.working_set for one in every)
    return {
        "cpu": f"{nanocores}n" if nanocores else "0",
        "memory": f"{-(-memory // 1024)}Ki" if memory else "0",
    }
