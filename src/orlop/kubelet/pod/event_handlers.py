"""Turns what changes about pods, nodes and jobs into uids in the kubelet's work queue.

Subscribed by the kubelet's wiring to the informer of pods, the nodes, the engine's health and the
job poller. Nothing is done for a pod here; what is to be done, its worker finds out by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...api.objects import (
    Key,
    Obj,
    annotations_of,
    is_deleting,
    is_terminal,
    key_of,
    uid_of,
)
from ...client.api import WatchEvent
from ...client.informer import revision_of
from ...client.workqueue import WorkQueue
from ...engine import Job, JobId
from ...log import logger
from ...wellknown import END_TIME, EXPIRING, JOB_ID, NODE_LIST
from ..node.registration import Nodes
from ..server.mirror_logs import is_mirror
from ..status.job_usage import ANNOTATIONS
from .cache import PodCache
from .dependants import Dependants

_WRITTEN_BACK = (JOB_ID, NODE_LIST, END_TIME, EXPIRING, *ANNOTATIONS)

log = logger(__name__)


class PodEvents:
    """Hears of the API's pods."""

    def __init__(
        self, cache: PodCache, nodes: Nodes, dependants: Dependants, queue: WorkQueue[str]
    ) -> None:
        self._cache = cache
        self._pods = cache.pods
        self._nodes = nodes
        self._dependants = dependants
        self._queue = queue

    def is_mine(self, pod: Obj) -> bool:
        name = pod["spec"].get("nodeName")
        return bool(name) and self._nodes.is_ours(name) and not is_mirror(pod)

    def on_pod(self, event: WatchEvent, former: Obj | None) -> None:
        pod = event.object
        if is_terminal(pod):
            self._dependants.on_end(key_of(pod).namespace)
        if not self.is_mine(pod):
            return
        known = self._pods.get(uid_of(pod))
        is_gone = event.type == "DELETED"
        if known is None and is_terminal(pod) and not is_gone and not is_deleting(pod):
            return
        state = known or self._pods.of(pod)
        written = state.written
        if not is_gone and written is not None and revision_of(written) == revision_of(pod):
            return  # our own write comes back
        if (is_gone or is_deleting(pod)) and state.preparing is not None:
            state.preparing.cancel()
        if former is not None and _wishes(former) != _wishes(pod):
            state.failures, state.retry_at = 0, 0.0
        self._queue.add(state.uid)


class NodeEvents:
    """Hears of new nodes, and says which have pods (registration.BoundPods)."""

    def __init__(self, cache: PodCache, queue: WorkQueue[str]) -> None:
        self._cache = cache
        self._queue = queue

    def has_pods(self, node: str) -> bool:
        return self._cache.has_pods(node)

    def on_new_node(self, name: str) -> None:
        for pod in self._cache.on_node(name):
            if not is_terminal(pod) and not is_mirror(pod):
                self._queue.add(self._cache.pods.of(pod).uid)


class JobEvents:
    """Hears of what the engine says (job_poller.JobEventHandler)."""

    def __init__(self, cache: PodCache, queue: WorkQueue[str]) -> None:
        self._cache = cache
        self._pods = cache.pods
        self._queue = queue
        self._has_swept = False

    def on_change(self, uid: str) -> None:
        self._queue.add(uid)

    def on_health(self) -> None:
        for state in self._pods:
            self._queue.add(state.uid)

    def on_listing(self, listed: Mapping[JobId, Job]) -> None:
        """Handle jobs that run although their pod is over or gone, and folders without an owner."""
        for job in listed.values():
            if job.pod_uid and not job.state.has_ended and self._pods.get(job.pod_uid) is None:
                self._adopt(job)
        if not self._has_swept:
            self._has_swept = True
            uids = frozenset(uid_of(pod) for pod in self._cache.informer.list())
            for state in self._pods.left_behind(uids):
                self._queue.add(state.uid)

    def _adopt(self, job: Job) -> None:
        pod = self._cache.with_uid(job.pod_uid)
        if pod is not None:
            state = self._pods.of(pod)
            state.is_settled = False
        else:
            namespace, _, name = job.name.partition("/")
            state = self._pods.orphan(job.pod_uid, Key(namespace, name))
            log.warning("a job has no pod any more", job=job.id, name=job.name)
        state.job_id, state.job = job.id, job
        self._queue.add(state.uid)


def _wishes(pod: Obj) -> Obj:
    """Return what a user may change to have a refused pod tried again at once."""
    annotations = annotations_of(pod).items()
    ours = {key: value for key, value in annotations if key not in _WRITTEN_BACK}
    return {"annotations": ours, "spec": pod["spec"]}
