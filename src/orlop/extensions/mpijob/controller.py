"""Runs MPIJobs (kubeflow.org/v2beta1): workers that hold still, and a launcher that runs mpirun.

Run by the controller manager while the kind is ours, with the key of an MPIJob whenever it, a pod
or a Job of its changes. It makes a Service, a ConfigMap, the workers and a Job for the launcher;
their ranks are started through the pods' agents (kubelet/agents/group_exec.py). As the MPI
operator, but without Secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...api.kinds import CONFIG_MAP, JOB, NODE, POD, SERVICE
from ...api.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    is_controlled_by,
    is_deleting,
    is_ready,
    key_of,
    meta,
    phase_of,
    uid_of,
)
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...controllers.framework.controller import BY_CONTROLLER, Controller, Result
from ...controllers.workloads.finished import expire
from ...controllers.workloads.gang_annotations import gang_of
from ...controllers.workloads.min_resources import REASON, lacking
from ...controllers.workloads.owned_objects import OwnedObjects
from ...controllers.workloads.pod_control import PodControl, watched_fields
from ...wellknown import GANG
from ..bundled import bundled_kind
from ..training.metrics import MPI_JOB_INFO, MPI_JOBS, count
from ..training.run_policy import (
    is_lost,
    is_suspended,
    is_waiting,
    overdue,
    run_policy,
    scheduling_policy,
    to_clean,
)
from ..training.status import finished_time, is_finished
from .children import (
    are_spent,
    config_map,
    everybody,
    gang_notes,
    launcher_job,
    launcher_name,
    launcher_waits,
    members,
    missing,
    services,
    surplus,
    worker_pod,
)
from .mpirun_arguments import NotStripped
from .srun_launcher import is_by_srun, rank_set_job
from .status import Seen, observe

MPI_JOB = bundled_kind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
MANAGED_BY = "kubeflow.org/mpi-operator"


def _face(obj: Obj) -> object:
    """Return all that is looked at of a pod; of a Job, everything."""
    return watched_fields(obj) if obj["kind"] == POD.kind else obj


class MpiJobs(Controller):
    name = "mpi-job-controller"
    kind = MPI_JOB
    owns = (POD, JOB)
    face = _face

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.pods, self.jobs = informers.informer(POD), informers.informer(JOB)
        self.nodes = informers.informer(NODE)
        self.watch(self.pods, self._of_launcher)
        self._control = PodControl(api, self.pods, self.recorder)
        made = (api, informers, self.recorder)
        self._services = OwnedObjects(*made, SERVICE)
        self._configs = OwnedObjects(*made, CONFIG_MAP, "data")
        self._launchers = OwnedObjects(*made, JOB)
        for kept in (self._services, self._configs):
            self.watch(kept.informer, self._owner_keys)

    def _of_launcher(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        """Queue the MPIJob that a pod of a launcher's Job belongs to."""
        if previous is not None and watched_fields(previous) == watched_fields(event.object):
            return
        reference = controller_of(event.object)
        if reference is None or reference["kind"] != JOB.kind:
            return
        namespace = meta(event.object).get("namespace") or ""
        job = self.jobs.get(Key(namespace, reference["name"]))
        owner = controller_of(job) if job is not None else None
        if owner is not None and self._is_ours(owner):
            yield Key(namespace, owner["name"])

    async def reconcile(self, key: Key) -> Result:
        """Look at an MPIJob once and take its next steps.

        1. One that is over keeps what its cleanPodPolicy leaves it, until its time has come.
        2. The Service and the ConfigMap, then the workers, then the launcher.
        3. One that is suspended has no workers, and a launcher that is suspended.
        4. Write what is so.
        """
        job = self.objects.get(key)
        if job is None or is_deleting(job):
            MPI_JOB_INFO.forget(f"{key.name}-launcher", key.namespace)
            return Result.done()
        if run_policy(job).get("managedBy", MANAGED_BY) != MANAGED_BY:
            return Result.done()
        if is_finished(job):
            return await self._after(job)  # 1
        if not self._is_launcher_over(job):
            try:
                await self._make(job)  # 2
            except NotStripped as problem:
                await self.recorder.event(job, "Warning", "ValidationError", str(problem))
                return Result.done()
        await self._align(job)  # 3
        await self._resize(job)
        job = await self._tell(job)  # 4
        return await self._after(job) if is_finished(job) else await self._waiting(job)

    def _launcher(self, job: Obj) -> Obj | None:
        found = self.jobs.get(Key(meta(job)["namespace"], launcher_name(job)))
        return found if found is not None and is_controlled_by(found, job) else None

    def _workers(self, job: Obj) -> list[Obj]:
        return list(self.pods.by_index(BY_CONTROLLER, uid_of(job)))

    def _is_launcher_over(self, job: Obj) -> bool:
        launcher = self._launcher(job)
        conditions = ((launcher or {}).get("status") or {}).get("conditions") or []
        ends = ("Complete", "Failed")
        return any(one["type"] in ends and one["status"] == "True" for one in conditions)

    async def _make(self, job: Obj) -> None:
        for service in services(job):
            await self._services.keep(job, service)
        if is_by_srun(job):
            return await self._make_launcher(job, rank_set_job)
        await self._configs.keep(job, config_map(job, self._workers(job)))
        if not is_suspended(job):
            await self._make_workers(job)
        if launcher_waits(job) and (is_suspended(job) or not self._are_ready(job)):
            return
        await self._make_launcher(job, launcher_job)

    async def _make_launcher(self, job: Obj, made_of: Callable[[Obj], Obj]) -> None:
        """Make the launcher; one that was suspended while its MPIJob was edited is made anew."""
        launcher = self._launcher(job)
        if launcher is None:
            await self._launchers.keep(job, made_of(job))
        elif not launcher["spec"].get("suspend"):
            return
        elif not self._launchers.is_current(launcher, made_of(job)):
            uid = uid_of(launcher)
            await self.api.delete(JOB, key_of(launcher), uid=uid, propagation="Background")
            await self.jobs.gone(launcher)

    async def _make_workers(self, job: Obj) -> None:
        workers = self._workers(job)
        going = [*surplus(job, workers), *self._lost(job, workers)]
        going = [pod for pod in going if not is_deleting(pod)]
        if going:
            await self._control.delete(job, going)
        indexes = missing(job, workers)
        if indexes:
            await self._control.create(job, [worker_pod(job, index) for index in indexes])

    def _lost(self, job: Obj, workers: list[Obj]) -> list[Obj]:
        """Return workers that Slurm has ended, or all where none is left: the next try needs
        others.

        As long as a launcher of the same gang runs it is not known yet whether there is a next.
        """
        launchers = self._launchers_of(job)
        runs = any(phase_of(pod) == "Running" for pod in launchers)
        if runs and gang_of(job, everybody(job)):
            return []
        if not runs and are_spent(workers, launchers):
            return workers
        return [pod for pod in workers if is_lost(pod)]

    def _are_ready(self, job: Obj) -> bool:
        workers = self._workers(job)
        return not missing(job, workers) and all(is_ready(pod) for pod in workers)

    async def _align(self, job: Obj) -> None:
        launcher, suspended = self._launcher(job), is_suspended(job)
        is_aligned = launcher is None or bool(launcher["spec"].get("suspend")) == suspended
        if launcher is not None and not is_aligned and not is_deleting(launcher):
            written = await self.api.patch(JOB, key_of(launcher), {"spec": {"suspend": suspended}})
            await self.jobs.seen(written)
        if suspended:
            going = [pod for pod in self._workers(job) if not is_deleting(pod)]
            await self._control.delete(job, going)

    async def _resize(self, job: Obj) -> None:
        """Update the gang's size on pods that wait for it: a launcher that is tried again is
        made from a template that may be older than the number of workers.
        """
        if is_by_srun(job):
            return
        for role, pods in (("Worker", self._workers(job)), ("Launcher", self._launchers_of(job))):
            waiting = [one for one in pods if phase_of(one) == "Pending" and not is_deleting(one)]
            notes = gang_notes(job, role) if waiting else {}
            for pod in waiting:
                news = {name: note for name, note in notes.items() if _says(pod, name) != note}
                if news and _says(pod, GANG):
                    body = {"metadata": {"uid": uid_of(pod), "annotations": news}}
                    await self.pods.seen(await self.api.patch(POD, key_of(pod), body))

    def _launchers_of(self, job: Obj) -> list[Obj]:
        """Return the pods of the launcher's Job."""
        launcher = self._launcher(job)
        return [] if launcher is None else list(self.pods.by_index(BY_CONTROLLER, uid_of(launcher)))

    async def _tell(self, job: Obj) -> Obj:
        launcher = self._launcher(job)
        seen = Seen(launcher, self._launchers_of(job), self._workers(job))
        status, news = observe(job, seen, self.clock.now())
        written = await self.write_status(job, status, lock=True)
        count(MPI_JOBS, news)
        if launcher is not None:
            MPI_JOB_INFO.set(1, meta(launcher)["name"], meta(job)["namespace"])
        for one in news:
            await self.recorder.event(job, one.type, one.reason, one.message)
        return written

    async def _waiting(self, job: Obj) -> Result:
        """Tell what its scheduling policy wants told while its pods wait."""
        pods = [*self._workers(job), *self._launchers_of(job)]
        if not is_waiting(job, pods, members(job)):
            return Result.done()
        short = lacking(scheduling_policy(job).get("minResources"), self.nodes.list())
        if short:
            await self.recorder.event(job, "Warning", REASON, short)
        late = overdue(job, members(job), self.clock.now())
        if late is None:
            return Result.done()
        left, words = late
        if left > 0:
            return Result.again(left)
        await self.recorder.event(job, "Warning", "Timeout", words)
        return Result.done()

    async def _after(self, job: Obj) -> Result:
        """Delete the workers that its policy names; by default those that still run."""
        policy = run_policy(job)
        if policy.get("cleanPodPolicy") != "None":
            await self._control.delete(job, to_clean(job, self._workers(job)))
            await self.write_status(job, _without_workers(job))
        return await expire(self, job, policy.get("ttlSecondsAfterFinished"), finished_time(job))


def _says(pod: Obj, name: str) -> str:
    return annotations_of(pod).get(name, "")


def _without_workers(job: Obj) -> Obj:
    """Return the status in which no worker is active any more."""
    status = {**(job.get("status") or {})}
    replicas = {**(status.get("replicaStatuses") or {})}
    if (replicas.get("Worker") or {}).get("active"):
        replicas["Worker"] = {k: v for k, v in replicas["Worker"].items() if k != "active"}
        status["replicaStatuses"] = replicas
    return status
