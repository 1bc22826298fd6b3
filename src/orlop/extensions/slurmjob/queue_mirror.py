"""Shows every other job of the user as an object, so that kubectl shows the queue as it is.

Called with a job's number whenever the job, or the object that shows it, changes. The objects are
in a namespace of their own and only say what Slurm says: whoever deletes one cancels its job, as
everywhere; what Slurm has forgotten goes. A job array is one object, so that ten thousand pods are
a handful. Jobs of SlurmJobs are not shown twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ... import errors
from ...api.kinds import NAMESPACE
from ...api.objects import Key, Obj, is_deleting, key_of, meta, uid_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...controllers.framework.controller import Loop, Result
from ...controllers.framework.status import merge_diff
from ...slurm.gang.gang_spec import gang_in
from ...slurm.query.user_jobs import UserJob, uid_of_comment
from ...slurm.submit.user_slurm import UserSlurm
from ...slurm.translate.job import array_of, pod_uid_of
from ...wellknown import SLURM_PREFIX
from . import status
from .kinds import FINALIZER, QUEUE_NAMESPACE, SLURM_JOB
from .queue import Queue

SHOWN = SLURM_PREFIX + "shown"  # label: what submitted the job: a pod, or something else
POD_ANNOTATION = SLURM_PREFIX + "pod"  # the pod that the job is
AGAIN = 1.0


def name_of(number: str) -> str:
    return f"job-{number}"


class ShownJobs(Loop[str]):
    name = "slurm-queue-objects"
    workers = 16  # there may be thousands: writes that wait together are one turn of the disk

    def __init__(
        self,
        api: Api,
        informers: Informers,
        slurm: UserSlurm,
        queue: Queue,
        *,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._slurm = slurm
        self._jobs_in_slurm = queue
        self._objects = informers.informer(SLURM_JOB)
        self._namespaces = informers.informer(NAMESPACE)
        self._dismissed: set[str] = set()  # ended jobs whose objects somebody has deleted
        self.watch(self._objects, self._changed)

    async def run(self) -> None:
        self._jobs_in_slurm.subscribe(self._on_queue)
        try:
            self._on_queue(self._jobs_in_slurm.jobs)
            await super().run()
        finally:
            self._jobs_in_slurm.unsubscribe(self._on_queue)

    def _on_queue(self, numbers: Collection[str]) -> None:
        for number in numbers:
            self.queue.add(number)

    def _changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[str]:
        if meta(event.object).get("namespace") == QUEUE_NAMESPACE:
            yield str(event.object["spec"].get("jobId") or "")

    async def reconcile(self, number: str) -> Result:
        """Make the object of one job as the job is."""
        if not number:
            return Result.done()
        if not self._jobs_in_slurm.count:
            return Result.again(AGAIN)
        found = self._objects.get(Key(QUEUE_NAMESPACE, name_of(number)))
        tasks = self._jobs_in_slurm.get(number)
        if not tasks or self._is_a_slurm_job(tasks[0]):
            self._dismissed.discard(number)
            if found is not None:
                await self._remove(found)
            return Result.done()
        if found is not None and is_deleting(found):
            return await self._cancel(found, number, tasks)
        if number in self._dismissed:
            return Result.done()
        await self._show(found, number, tasks)
        return Result.done()

    def _is_a_slurm_job(self, job: UserJob) -> bool:
        return bool(uid_of_comment(job.comment, self._slurm.cluster_uid))

    async def _show(self, found: Obj | None, number: str, tasks: tuple[UserJob, ...]) -> None:
        if found is None:
            await self._ensure_namespace()
            wanted = self._object(number, tasks[0])
            found = await self.api.create(SLURM_JOB, wanted, namespace=QUEUE_NAMESPACE)
        former = found.get("status") or {}
        total = len(tasks) if tasks[0].task else 0
        new = status.observed(former, tasks, total, self.clock.now())
        new |= {"jobId": number, "workingDirectory": tasks[0].folder}
        patch = merge_diff(former, {key: value for key, value in new.items() if value != ""})
        if patch:
            body = {"status": patch}
            found = await self.api.patch(SLURM_JOB, key_of(found), body, subresource="status")
        await self._objects.seen(found)

    def _object(self, number: str, job: UserJob) -> Obj:
        cluster = self._slurm.cluster_uid
        uid = pod_uid_of(job.comment, cluster)
        is_pods = bool(uid)
        annotations = {}
        if is_pods and not array_of(job.comment) and not gang_in(uid):  # these are many pods
            annotations[POD_ANNOTATION] = job.name
        return {
            "metadata": {
                "name": name_of(number),
                "namespace": QUEUE_NAMESPACE,
                "labels": {SHOWN: "pod" if is_pods else "other"},
                "annotations": annotations,
                "finalizers": [FINALIZER],
            },
            "spec": {"jobId": number},
        }

    async def _ensure_namespace(self) -> None:
        if self._namespaces.get(Key("", QUEUE_NAMESPACE)) is None:
            words = "Jobs of yours that are in Slurm, as Slurm has them."
            annotations = {"kubernetes.io/description": words}
            body = {"metadata": {"name": QUEUE_NAMESPACE, "annotations": annotations}}
            try:
                await self.api.create(NAMESPACE, body)
            except errors.AlreadyExists:
                pass

    async def _cancel(self, found: Obj, number: str, tasks: tuple[UserJob, ...]) -> Result:
        """Cancel the job of an object that somebody has deleted; both go together.

        Whoever deletes the whole namespace means the objects, not all the jobs in the queue.
        """
        namespace = self._namespaces.get(Key("", QUEUE_NAMESPACE))
        if namespace is not None and is_deleting(namespace):
            await self._release(found)
            return Result.done()
        if status.has_ended(tasks):
            self._dismissed.add(number)
            await self._release(found)
            return Result.done()
        await self._slurm.cancel(number)
        self._jobs_in_slurm.ask()
        return Result.again(AGAIN)

    async def _remove(self, found: Obj) -> None:
        await self._release(found)
        try:
            await self.api.delete(SLURM_JOB, key_of(found), uid=uid_of(found))
        except errors.NotFound:
            pass
        await self._objects.gone(found)

    async def _release(self, found: Obj) -> None:
        left = [one for one in meta(found).get("finalizers") or [] if one != FINALIZER]
        try:
            await self.api.patch(SLURM_JOB, key_of(found), {"metadata": {"finalizers": left}})
        except errors.NotFound:
            pass
