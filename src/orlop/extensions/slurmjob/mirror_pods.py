"""Keeps the pod of each SlurmJob up to date with the job, and says where its output lies.

Used by the controller of SlurmJobs. A pod that somebody deletes is made anew as long as the
SlurmJob is there, as upstream does with mirror pods; where no pod can be had, because of a quota or
because its name is taken, the job runs all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ... import errors
from ...api.kinds import NODE, POD
from ...api.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    is_controlled_by,
    is_deleting,
    key_of,
    labels_of,
    meta,
    uid_of,
)
from ...client.api import Api
from ...client.clock import Clock
from ...client.informer import Informer, Informers
from ...client.recorder import Recorder
from ...controllers.framework.status import merge_diff
from ...slurm.query.user_jobs import UserJob
from ...wellknown import MIRROR, PARTITION_LABEL
from . import pod_of_job
from .kinds import SLURM_JOB
from .plan import Plan


class MirrorPods:
    def __init__(self, api: Api, informers: Informers, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._pods = informers.informer(POD)
        self._nodes = informers.informer(NODE)
        self._recorder = Recorder(api, "slurm-job", clock=clock)

    def shown_by(self, job: Obj) -> str:
        """Return the name of the pod that shows the job; empty if there is none."""
        found = self._pods.get(self._key(job))
        return meta(found)["name"] if found and is_controlled_by(found, job) else ""

    def owner_of(self, pod: Obj, jobs: Informer) -> Obj | None:
        """Return the SlurmJob that a pod shows, if it is indeed that SlurmJob's."""
        owner = controller_of(pod)
        if MIRROR not in annotations_of(pod) or owner is None or owner["kind"] != SLURM_JOB.kind:
            return None
        job = jobs.get(Key(meta(pod)["namespace"], owner["name"]))
        return job if job is not None and uid_of(job) == owner["uid"] else None

    @staticmethod
    def output(job: Obj, plan: Plan, container: str, tasks: Mapping[str, UserJob]) -> Path | None:
        """Return the file that a container prints to."""
        shown = {one.name: one for one in pod_of_job.containers(plan)}.get(container)
        if shown is None:
            return None
        if not shown.task:  # which node wrote it is known to the status alone, after the end
            file = job["status"].get("stderr" if shown.has_errors else "stdout")
            is_its = plan.is_printed_to(str(file), job["status"]["jobId"])
            return Path(file) if file and is_its else None
        named = plan.errors if shown.has_errors else plan.output
        return Path(named(job["status"]["jobId"], shown.task, tasks.get(shown.task)))

    async def show(self, job: Obj, plan: Plan, tasks: Sequence[UserJob]) -> None:
        """Make the pod, or bring it up to date."""
        pod = self._pods.get(self._key(job))
        if pod is not None and not is_controlled_by(pod, job):
            return
        if pod is not None and is_deleting(pod):
            await self._api.delete(POD, key_of(pod), grace=0, uid=uid_of(pod))
            await self._pods.gone(pod)
            pod = None
        if pod is None:
            pod = await self._make(job, plan)
        if pod is None:
            return
        due = pod_of_job.annotations_due(job, pod)
        if due:
            change: Obj = {"metadata": {"annotations": due}}
            pod = await self._api.patch(POD, key_of(pod), change)
        new = pod_of_job.pod_status(job, pod, tasks, plan, self._clock.now())
        patch = merge_diff(pod.get("status") or {}, new)
        if patch:
            pod = await self._api.patch(POD, key_of(pod), {"status": patch}, subresource="status")
        await self._pods.seen(pod)

    async def let_go(self, job: Key) -> None:
        """Let a pod go that is deleted with a grace period; no kubelet would do it."""
        pod = self._pods.get(Key(job.namespace, pod_of_job.pod_name(job.name)))
        if pod is not None and is_deleting(pod) and MIRROR in annotations_of(pod):
            await self._api.delete(POD, key_of(pod), grace=0, uid=uid_of(pod))

    async def _make(self, job: Obj, plan: Plan) -> Obj | None:
        node = self._node(str((job.get("status") or {}).get("partition") or ""))
        if not node:
            return None
        wanted = pod_of_job.pod_of(job, plan, node)
        try:
            return await self._api.create(POD, wanted, namespace=meta(job)["namespace"])
        except errors.AlreadyExists:
            return None
        except errors.ApiError as error:
            words = f"kubectl logs has no pod to show: {error.message}"
            await self._recorder.event(job, "Warning", "NoPod", words)
            return None

    def _node(self, partitions: str) -> str:
        """Return the node to show: of several partitions that a waiting job may go to, any."""
        wanted = partitions.split(",")
        for node in self._nodes.list():
            if labels_of(node).get(PARTITION_LABEL) in wanted or meta(node)["name"] in wanted:
                return str(meta(node)["name"])
        return ""

    def _key(self, job: Obj) -> Key:
        return Key(meta(job)["namespace"], pod_of_job.pod_name(meta(job)["name"]))
