"""Submits each SlurmJob to sbatch once, follows its job, and cancels it when it is deleted.

Called with the key of a SlurmJob whenever it, a job it depends on, its pod, or its job in Slurm's
queue changes. What was submitted is known from the job's folder and from Slurm itself, not from
memory, so that being killed at any moment loses nothing and submits nothing twice. Jobs that no
SlurmJob of this cluster has asked for are left to queue_mirror.py.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ... import errors
from ...api.kinds import NAMESPACE, POD
from ...api.objects import Key, Obj, annotations_of, is_deleting, key_of, meta, uid_of
from ...api.times import parse as parse_time
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...controllers.framework.controller import Controller, Result
from ...settings import Paths, SlurmSettings
from ...slurm.query.user_jobs import UserJob
from ...slurm.submit.user_slurm import UserSlurm
from ...slurm.translate.policy import Policy
from . import dependencies, preparation, status
from .array_tasks import Tasks
from .kinds import ENDED, FINALIZER, QUEUE_NAMESPACE, SLURM_JOB
from .mirror_pods import MirrorPods
from .plan import SCRIPT, Plan, plan_of
from .preparation import folder_of
from .queue import Queue
from .transfers import NOTHING_FETCHED, Producer

BY_NUMBER, BY_DEPENDENCY = "job", "dependency"
AGAIN = 5.0  # seconds until what is not there is looked for once more
UNTIL_GONE = 1.0  # seconds between two looks at a job that is being cancelled


@dataclass(frozen=True, slots=True)
class Site:
    """The things that all SlurmJobs of a cluster share."""

    slurm: UserSlurm
    queue: Queue
    paths: Paths
    settings: SlurmSettings


def number_of(job: Obj) -> str:
    """Return the number in its status, which others than Orlop may be let to write."""
    number = str((job.get("status") or {}).get("jobId") or "")
    return number if number.isdecimal() else ""


def phase_of(job: Obj) -> str:
    return str((job.get("status") or {}).get("phase") or "")


def is_shown_only(job: Obj) -> bool:
    """Return whether it stands for a job that somebody else has submitted."""
    return "jobId" in job["spec"]


class SlurmJobs(Controller):
    name = "slurm-job"
    kind = SLURM_JOB
    owns = (POD,)

    @staticmethod
    def face(pod: Obj) -> object:  # type: ignore[override]
        return is_deleting(pod), (pod.get("status") or {}).get("phase")

    def __init__(
        self, api: Api, informers: Informers, site: Site, *, clock: Clock | None = None
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._slurm, self._queue, self._paths = site.slurm, site.queue, site.paths
        self._settings = site.settings
        self._tasks = Tasks(site.slurm, site.queue)
        self._pods = MirrorPods(api, informers, self.clock)
        self._namespaces = informers.informer(NAMESPACE)
        self.objects.add_index(BY_NUMBER, _numbers)
        self.objects.add_index(BY_DEPENDENCY, dependencies.named)
        self.watch(self.objects, self._dependents)

    async def run(self) -> None:
        self._queue.subscribe(self._on_queue)
        try:
            await super().run()
        finally:
            self._queue.unsubscribe(self._on_queue)

    def _on_queue(self, numbers: Collection[str]) -> None:
        for number in numbers:
            for job in self.objects.by_index(BY_NUMBER, number):
                self.queue.add(key_of(job))

    def _dependents(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        """Queue the SlurmJobs that depend on this one: they may be submitted now, or never."""
        key = key_of(event.object)
        for job in self.objects.by_index(BY_DEPENDENCY, str(key)):
            if not number_of(job):
                yield key_of(job)

    def output_of(self, pod: Obj, container: str) -> Path | None:
        """Return the file that a container of a SlurmJob's pod prints to; None for other pods."""
        job = self._pods.owner_of(pod, self.objects)
        if job is None or not number_of(job):
            return None
        plan = self._plan(job)
        shown = self._tasks.known(job, plan)
        return MirrorPods.output(job, plan, container, shown)

    def _plan(self, job: Obj) -> Plan:
        folder = folder_of(self._paths, job)
        policy = None if number_of(job) else self._policy(meta(job)["namespace"])
        return plan_of(job, folder, self._settings, self._slurm.cluster_uid, policy)

    def _policy(self, namespace: str) -> Policy:
        found = self._namespaces.get(Key("", namespace))
        return Policy(self._settings, namespace, annotations_of(found) if found else {})

    async def reconcile(self, key: Key) -> Result:
        """Bring one SlurmJob a step further.

        1. One that is deleted ends, with its job.
        2. One that has ended has its pod told, and goes when its time is over.
        3. One without a job is submitted, if nothing stands against it.
        4. One with a job follows it.
        """
        job = self.objects.get(key)
        if job is None:
            await self._pods.let_go(key)
            return Result.done()
        if is_shown_only(job):
            return await self._not_ours(job)
        if is_deleting(job):
            return await self._end(job)
        if phase_of(job) in ENDED:
            return await self._after_end(job)
        try:
            plan = self._plan(job)
        except errors.ConfigError as error:
            return await self._fail(job, "InvalidSpec", error.message)
        if not number_of(job):
            return await self._begin(job, plan)
        return await self._follow(job, plan)

    async def _not_ours(self, job: Obj) -> Result:
        """Refuse an object that claims to show the queue: queue_mirror.py makes those."""
        if meta(job)["namespace"] != QUEUE_NAMESPACE and phase_of(job) != "Failed":
            words = f"jobId is for Orlop's own objects in the namespace {QUEUE_NAMESPACE}"
            return await self._fail(job, "InvalidSpec", f"{words}; give a script or a command")
        return Result.done()

    # 3. Submission

    async def _begin(self, job: Obj, plan: Plan) -> Result:
        try:
            known = await self._slurm.submitted(plan.folder, plan.script, uid_of(job))
            if known:
                return await self._submitted(job, plan, known)
            return await self._hold_or_submit(job, plan)
        except errors.SubmitRejected as error:
            return await self._fail(job, "SubmitRejected", _remedy(str(error)))
        except errors.ConfigError as error:
            return await self._wait(job, "NotReady", error.message)
        except (errors.SubmitDeferred, errors.EngineUnavailable) as error:
            is_silent = isinstance(error, errors.EngineUnavailable)
            reason = "SlurmUnavailable" if is_silent else "SubmitDeferred"
            return await self._wait(job, reason, _remedy(str(error)))

    async def _hold_or_submit(self, job: Obj, plan: Plan) -> Result:
        spec = job["spec"]
        if spec.get("cancel"):
            return await self._fail(job, "Cancelled", "cancelled before it was submitted")
        if spec.get("suspend"):
            await self._waits(job, "Suspended", "spec.suspend is true")
            return Result.done()
        needed = dependencies.resolve(job, self.objects)
        if needed.impossible:
            return await self._fail(job, "DependencyNeverSatisfied", needed.impossible)
        if needed.missing:
            await self._waits(job, "Dependency", needed.missing)
            return Result.done()
        job = await self._keep(job)
        producers = [
            Producer(folder_of(self._paths, other), is_whole)
            for other, is_whole in needed.producers
        ]
        await preparation.prepare(self.api, job, plan, producers)
        arguments = plan.arguments(needed.option)
        where = (plan.folder, arguments, plan.script, uid_of(job), plan.work)
        shell = await preparation.shell_of(self.api, job)
        number = await self._slurm.submit(*where, shell)
        return await self._submitted(job, plan, number)

    async def _keep(self, job: Obj) -> Obj:
        """Add the finalizer: from here on it may not go without its job."""
        finalizers = meta(job).get("finalizers") or []
        if FINALIZER in finalizers:
            return job
        version = meta(job)["resourceVersion"]
        change = {"metadata": {"finalizers": [*finalizers, FINALIZER], "resourceVersion": version}}
        written = await self.api.patch(self.kind, key_of(job), change)
        await self.objects.seen(written)
        return written

    async def _submitted(self, job: Obj, plan: Plan, number: str) -> Result:
        new = {
            **(job.get("status") or {}),
            "phase": "Pending",
            "state": "PENDING",
            "reason": "",
            "message": "",
            "jobId": number,
            "workingDirectory": str(plan.work),
            **_printed_to(plan, number),
            "observedGeneration": meta(job).get("generation", 0),
            "conditions": status.accepted(job.get("status") or {}, number, self.clock.now()),
        }
        self._tasks.submitted(job, self.clock.now())
        await self.write_status(job, {key: value for key, value in new.items() if value})
        self._queue.ask()
        await self.recorder.event(job, "Normal", "Submitted", f"Submitted job {number}")
        return Result.done()

    async def _waits(self, job: Obj, reason: str, message: str) -> None:
        former = job.get("status") or {}
        if former.get("reason") != reason or former.get("message") != message:
            await self.write_status(job, status.waiting(former, reason, message, self.clock.now()))

    async def _wait(self, job: Obj, reason: str, message: str) -> Result:
        """Wait for something that may come: told once, and tried again."""
        former = job.get("status") or {}
        await self._waits(job, reason, message)
        if former.get("message") != message:
            await self.recorder.event(job, "Warning", reason, message)
        return Result.again(AGAIN)

    async def _fail(self, job: Obj, reason: str, message: str, *, state: str = "") -> Result:
        former = job.get("status") or {}
        new = status.refused(former, reason, message, self.clock.now(), state=state)
        await self.write_status(job, new)
        await self.recorder.event(job, "Warning", reason, message)
        return Result.done()

    # 4. Following

    async def _follow(self, job: Obj, plan: Plan) -> Result:
        number = number_of(job)
        if job["spec"].get("cancel"):
            await self._cancel(job)
        tasks = await self._tasks.look(job, plan, self.clock.now())
        if tasks is None:
            message = f"neither squeue nor sacct knows job {number} any more"
            return await self._fail(job, "JobVanished", message, state="UNKNOWN")
        if not tasks:
            self._queue.expect()
            return Result.again(UNTIL_GONE if self._tasks.is_missed(job) else AGAIN)
        former = job.get("status") or {}
        new = status.observed(former, tasks, len(plan.tasks), self.clock.now())
        # Tasks that Slurm has not listed yet are still to come.
        if new["phase"] in ENDED and len(tasks) < len(plan.tasks):
            new["phase"] = "Running"
        new |= _printed_to(plan, number, tasks[0])
        if new["phase"] in ENDED:
            if any(task.exit_code == NOTHING_FETCHED for task in tasks):
                new = await self._with_problem(job, plan, new)
            new = await self._with_results(job, plan, new)
        await self._pods.show({**job, "status": new}, plan, tasks)
        new["podName"] = self._pods.shown_by(job)
        new = {key: value for key, value in new.items() if value not in ("", None)}
        written = await self.write_status(job, new)
        await self._tell(written, former)
        if new["phase"] not in ENDED:
            return Result.again(UNTIL_GONE) if self._tasks.is_missed(job) else Result.done()
        self._tasks.forget(job)
        return await self._after_end(written)

    async def _with_problem(self, job: Obj, plan: Plan, new: Obj) -> Obj:
        """Add to the status what kept it from starting its program, if anything did."""
        words = await asyncio.to_thread(preparation.problem, plan)
        if not words:
            return new
        await self.recorder.event(job, "Warning", "InputsNotFetched", words)
        return {**new, "message": f"inputs could not be fetched: {words}"}

    async def _with_results(self, job: Obj, plan: Plan, new: Obj) -> Obj:
        """Fetch what the job has left, before its end is reported."""
        if not job["spec"].get("results"):
            return new
        try:
            left = await preparation.collect(job, plan)
        except errors.ConfigError as error:
            return await self._without_results(job, new, "ResultsNotKept", error.message)
        if left.texts:
            new = {**new, "results": left.texts}
        if left.missing:
            words = f"no {', '.join(left.missing)} in {plan.work}, though results ask for it"
            return await self._without_results(job, new, "ResultNotFound", words)
        return new

    async def _without_results(self, job: Obj, new: Obj, reason: str, words: str) -> Obj:
        await self.recorder.event(job, "Warning", reason, words)
        return {**new, "message": "; ".join(filter(None, (new.get("message"), words)))}

    async def _tell(self, job: Obj, former: Obj) -> None:
        now = job["status"]
        if now["phase"] == former.get("phase"):
            return
        number, nodes = now["jobId"], now.get("nodeList", "")
        if now["phase"] == "Running":
            await self.recorder.event(job, "Normal", "Started", f"Job {number} runs on {nodes}")
        elif now["phase"] == "Succeeded":
            await self.recorder.event(job, "Normal", "Completed", f"Job {number} has completed")
        elif now["phase"] == "Failed":
            await self.recorder.event(job, "Warning", "Failed", now.get("message", ""))

    # 2. After the end

    async def _after_end(self, job: Obj) -> Result:
        await self._pods.let_go(key_of(job))
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return Result.done()
        left = parse_time(job["status"]["endTime"]) + ttl - self.clock.now()
        if left > 0:
            return Result.again(left)
        await self.api.delete(self.kind, key_of(job), uid=uid_of(job))
        return Result.done()

    # 1. Deletion

    async def _end(self, job: Obj) -> Result:
        if FINALIZER not in (meta(job).get("finalizers") or []):
            return Result.done()
        folder = folder_of(self._paths, job)
        number = await self._own_number(job)
        if number and phase_of(job) not in ENDED and not await self._is_gone(number):
            return Result.again(UNTIL_GONE)
        self._tasks.forget(job)
        await asyncio.to_thread(preparation.remove, folder)
        left = [one for one in meta(job)["finalizers"] if one != FINALIZER]
        version = meta(job)["resourceVersion"]
        change = {"metadata": {"finalizers": left, "resourceVersion": version}}
        await self.api.patch(self.kind, key_of(job), change)
        return Result.done()

    async def _cancel(self, job: Obj) -> None:
        number = await self._own_number(job)
        if number:
            await self._slurm.cancel(number)
        self._queue.ask()

    async def _own_number(self, job: Obj) -> str:
        """Return the job that is this object's to cancel: from its folder, or else from Slurm.

        A status may name any other job of the user, a pod's as well.
        """
        folder = folder_of(self._paths, job)
        known = await self._slurm.submitted(folder, folder / SCRIPT, uid_of(job))
        if known:
            return known
        listed = self._queue.get(number_of(job))
        is_own = listed and all(self._slurm.object_of(task) == uid_of(job) for task in listed)
        return number_of(job) if is_own else ""

    async def _is_gone(self, number: str) -> bool:
        """Cancel it, and return whether Slurm has heard."""
        listed = self._queue.get(number)
        is_fresh = self._queue.listed_at > self._tasks.cancelled_at(number)
        if is_fresh and (not listed or status.has_ended(listed)):
            return True
        await self._slurm.cancel(number)
        self._tasks.cancelled(number, self.clock.now())
        self._queue.ask()
        return False


def _printed_to(plan: Plan, number: str, seen: UserJob | None = None) -> dict[str, str]:
    """Return the files for the status: for an array their pattern, as each task has its own."""
    if plan.tasks:
        errors = plan.effective.get("error") if plan.has_errors_apart else ""
        return {"stdout": plan.effective["output"] or "", "stderr": errors or ""}
    return {"stdout": plan.output(number, seen=seen), "stderr": plan.errors(number, seen=seen)}


def _remedy(words: str) -> str:
    """Return the remedy, in terms of an option: what is an annotation of a pod is one here."""
    words = words.replace("correct the annotation", "correct the option")
    return re.sub(r"slurm\.orlop\.dev/([a-z-]+)", r"options.\1", words)


def _numbers(job: Obj) -> Iterable[str]:
    number = number_of(job)
    return (number,) if number else ()
