"""Runs PyTorchJobs (kubeflow.org/v1): a master and workers that find each other, as one gang.

Run by the controller manager while the kind is ours, with the key of a PyTorchJob whenever it or a
pod of its changes. It makes the pods and a Service for each, and an autoscaler where an elastic job
asks for one. As the training operator.
"""

from __future__ import annotations

from ...api.kinds import HORIZONTAL_POD_AUTOSCALER, NODE, POD, SERVICE
from ...api.objects import Key, Obj, is_deleting, meta, uid_of
from ...client.api import Api
from ...client.clock import Clock
from ...client.informer import Informers
from ...controllers.framework.controller import BY_CONTROLLER, Controller, Result
from ...controllers.workloads.finished import expire
from ...controllers.workloads.min_resources import REASON, lacking
from ...controllers.workloads.owned_objects import OwnedObjects
from ...controllers.workloads.pod_control import PodControl, watched_fields
from ..bundled import bundled_kind
from ..training.metrics import TRAINING_JOBS, count
from ..training.run_policy import (
    is_suspended,
    is_waiting,
    overdue,
    run_policy,
    scheduling_policy,
    to_clean,
    unfinished,
)
from ..training.status import finished_time, is_finished
from .children import autoscaler, members, missing, names, pod_for, service, surplus
from .status import backoff_left, failed_now, is_retried, left_over, observe, seconds_left, verdict

PYTORCH_JOB = bundled_kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
MANAGED_BY = "kubeflow.org/training-operator"


class PyTorchJobs(Controller):
    name = "pytorchjob-controller"
    kind = PYTORCH_JOB
    owns = (POD,)
    face = watched_fields

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.pods, self.nodes = informers.informer(POD), informers.informer(NODE)
        self._control = PodControl(api, self.pods, self.recorder)
        made = (api, informers, self.recorder)
        self._services = OwnedObjects(*made, SERVICE)
        self._autoscalers = OwnedObjects(*made, HORIZONTAL_POD_AUTOSCALER, "spec")
        self.watch(self._services.informer, self._owner_keys)

    async def reconcile(self, key: Key) -> Result:
        """Look at a PyTorchJob once and take its next steps.

        1. One that is over keeps what its cleanPodPolicy leaves it, until its time has come.
        2. Judge the ends of its pods, and write it down: what is deleted cannot be counted later.
        3. Pods that failed and are made again go; one that is suspended has none.
        4. Make what is missing; after a failure not at once.
        """
        job = self.objects.get(key)
        if job is None or is_deleting(job):
            return Result.done()
        if run_policy(job).get("managedBy", MANAGED_BY) != MANAGED_BY:
            return Result.done()
        if is_finished(job):
            return await self._after(job)  # 1
        pods, now = self._pods_of(job), self.clock.now()
        end = None if is_suspended(job) else verdict(job, pods, now)
        failed = [] if end or is_suspended(job) else failed_now(pods)
        again = [pod for pod in failed if is_retried(job, pod)]
        job = await self._tell(job, end, again)  # 2
        if end is not None:
            # What ran into a limit of the job's is stopped, whatever the policy says of the others.
            if end[0] == "Failed":
                await self._control.delete(job, unfinished(pods))
                job = await self.write_status(job, left_over(job))
            return await self._after(job)
        if is_suspended(job):
            await self._control.delete(job, [pod for pod in pods if not is_deleting(pod)])  # 3
            return Result.done()
        await self._control.delete(job, again)
        result = await self._make(job)  # 4
        return result.sooner(await self._waiting(job))

    def _pods_of(self, job: Obj) -> list[Obj]:
        return list(self.pods.by_index(BY_CONTROLLER, uid_of(job)))

    async def _tell(self, job: Obj, end: tuple[str, str] | None, again: list[Obj]) -> Obj:
        status, news = observe(job, self._pods_of(job), end, again, self.clock.now())
        written = await self.write_status(job, status, lock=True)
        count(TRAINING_JOBS, news, meta(job)["namespace"], "pytorch")
        for one in news:
            await self.recorder.event(job, one.type, one.reason, one.message)
        return written

    async def _make(self, job: Obj) -> Result:
        for role, index in names(job).values():
            await self._services.keep(job, service(job, role, index))
        scaler = autoscaler(job)
        if scaler is not None:
            await self._autoscalers.keep(job, scaler)
        pods = self._pods_of(job)
        too_many = [pod for pod in surplus(job, pods) if not is_deleting(pod)]
        await self._control.delete(job, too_many)
        left = backoff_left(job, self.clock.now())
        if left > 0:
            return Result.again(left)
        made = [pod_for(job, role, index) for role, index in missing(job, pods)]
        await self._control.create(job, made)
        return Result.done()

    async def _waiting(self, job: Obj) -> Result:
        """Tell, or look at, what its policies want while it goes on."""
        now = self.clock.now()
        left = seconds_left(job, now)
        result = Result.again(left) if left is not None else Result.done()
        if not is_waiting(job, self._pods_of(job), members(job)):
            return result
        short = lacking(scheduling_policy(job).get("minResources"), self.nodes.list())
        if short:
            await self.recorder.event(job, "Warning", REASON, short)
        late = overdue(job, members(job), now)
        if late is None:
            return result
        if late[0] > 0:
            return result.sooner(Result.again(late[0]))
        await self.recorder.event(job, "Warning", "Timeout", late[1])
        return result

    async def _after(self, job: Obj) -> Result:
        going = to_clean(job, self._pods_of(job))
        if going:
            await self._control.delete(job, going)
            job = await self.write_status(job, left_over(job))
        ttl = run_policy(job).get("ttlSecondsAfterFinished")
        return await expire(self, job, ttl, finished_time(job))
