"""Runs the pods of a Job until enough of them have succeeded, or too many failed.

Called by the controller manager with the key of a Job whenever it, or a pod it owns, changes. Each
pod holds the finalizer batch.kubernetes.io/job-tracking until its end is in the Job's status, so
that no completion is lost or counted twice, whatever dies in between. As pkg/controller/job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from .... import errors
from ....api import selectors
from ....api.kinds import JOB, POD
from ....api.objects import (
    Key,
    Obj,
    controller_of,
    is_controlled_by,
    is_deleting,
    key_of,
    labels_of,
    meta,
    uid_of,
)
from ....api.times import rfc3339
from ....client.api import Api, WatchEvent
from ....client.clock import Clock
from ....client.informer import Informers
from ...framework.controller import BY_CONTROLLER, Controller, Result
from ...framework.status import condition, is_true, with_condition
from ..controller_ref import Claims
from ..pod_control import PodControl, watched_fields
from .completion import Verdict, deadline_left, judge
from .plan import Plan, plan, pod_for
from .tally import Tally, count, settle
from .view import FINALIZER, JobView, is_finished, is_tracked

MANAGED_BY = "kubernetes.io/job-controller"
BY_JOB = "job"


class Jobs(Controller):
    name = "job-controller"
    kind = JOB
    owns = (POD,)
    adopts = True
    face = watched_fields

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.pods = informers.informer(POD)
        self.watch(self.pods, _tracked_for)
        self.pods.add_index(BY_JOB, lambda pod: map(str, _job_keys(pod)))
        self._claims = Claims(api, self.pods, JOB, finalizer=FINALIZER)
        self._control = PodControl(api, self.pods, self.recorder)

    async def reconcile(self, key: Key) -> Result:
        """Look at a Job once and take its next steps.

        1. Pods that hold our finalizer for a Job that is no more are let go.
        2. Claim the pods; judge whether the Job is over.
        3. Take the ended pods into the status and write it, before anything forgets them.
        4. Let their finalizers go.
        5. Make or delete pods: all go if the Job is over.
        6. Write the counters; the last condition once every pod has ended and is counted.
        """
        job = self.objects.get(key)
        await self._release_strangers(key, job)  # 1
        if job is None or job["spec"].get("managedBy", MANAGED_BY) != MANAGED_BY:
            return Result.done()
        if is_finished(job) or is_deleting(job):
            await self._release(self.pods.by_index(BY_CONTROLLER, uid_of(job)))
            return Result.done()
        selector = selectors.from_structure(job["spec"].get("selector"))
        pods = await self._claims.claim(job, selector)  # 2
        view = JobView(job, pods, self.clock.now())
        verdict = judge(view)
        tally = count(view, verdict)
        job = await self._announce(view, verdict, tally)  # 3
        await self._release(tally.release)  # 4
        view = self._again(view, job)
        result = await self._act(view, verdict)  # 5
        await self._conclude(self._again(view, job), verdict, tally.status)  # 6
        return Result.again(0) if tally.is_partial else result

    async def _announce(self, view: JobView, verdict: Verdict | None, tally: Tally) -> Obj:
        status = tally.status
        conditions: list[Obj] = status.get("conditions") or []
        if verdict is not None and not is_true(conditions, verdict.interim):
            told = _condition(verdict.interim, verdict.reason, verdict.message, view.now)
            status["conditions"] = with_condition(conditions, told)
        if status == view.status or (not view.status and not tally.release and verdict is None):
            return view.job
        return await self.write_status(view.job, status, lock=True)

    def _again(self, view: JobView, job: Obj) -> JobView:
        """Return the view of the Job after our own writes."""
        pods = self.pods.by_index(BY_CONTROLLER, uid_of(job))
        return view.again(job, pods, self.clock.now())

    async def _act(self, view: JobView, verdict: Verdict | None) -> Result:
        if verdict is not None:
            await self._control.delete(view.job, view.active)
            return Result.done()
        todo = plan(view)
        leaving = {uid_of(pod) for pod in todo.delete}
        await self._hold(pod for pod in view.active if uid_of(pod) not in leaving)
        await self._carry_out(view.job, todo)
        if todo.is_partial:
            return Result.again(0)
        left = deadline_left(view)
        result = Result.again(left) if left is not None else Result.done()
        return result.sooner(Result(todo.wait))

    async def _carry_out(self, job: Obj, todo: Plan) -> None:
        if todo.delete:
            # Without the finalizer: pods that we end before their time are no failures.
            await self._release(todo.delete)
            await self._control.delete(job, todo.delete)
        if todo.create:
            await self._control.create(job, [pod_for(job, slot) for slot in todo.create])

    async def _conclude(self, view: JobView, verdict: Verdict | None, status: Obj) -> None:
        """Write what is there now, and the end of the Job when all of it is over."""
        tracked = {uid_of(pod) for pod in view.tracked}
        status = settle(status, tracked, is_indexed=view.is_indexed)
        status.pop("active", None)
        if view.active:
            status["active"] = len(view.active)
        status["ready"], status["terminating"] = view.ready, len(view.terminating)
        news = self._suspension(view, status) if verdict is None else None
        is_over = (
            verdict is not None
            and not status["uncountedTerminatedPods"]
            and not view.active
            and not view.terminating
        )
        if is_over and verdict is not None:
            news = _end(status, verdict, view.now)
        await self.write_status(view.job, status, lock=True)
        if news is not None:
            await self.recorder.event(
                view.job, "Warning" if news[0] == "Failed" else "Normal", *news[1:]
            )

    def _suspension(self, view: JobView, status: Obj) -> tuple[str, str, str] | None:
        """Set the condition Suspended and the start time; return what to tell if they changed."""
        conditions: list[Obj] = status.get("conditions") or []
        was_suspended = is_true(conditions, "Suspended")
        if view.is_suspended and not was_suspended:
            told = _condition("Suspended", "JobSuspended", "Job suspended", view.now)
            status["conditions"] = with_condition(conditions, told)
            return "", "Suspended", "Job suspended"
        if not view.is_suspended and was_suspended:
            told = _condition("Suspended", "JobResumed", "Job resumed", view.now, "False")
            status["conditions"] = with_condition(conditions, told)
            status["startTime"] = rfc3339(view.now)
            return "", "Resumed", "Job resumed"
        if not view.is_suspended and "startTime" not in status:
            status["startTime"] = rfc3339(view.now)
        return None

    async def _release_strangers(self, key: Key, job: Obj | None) -> None:
        """Let go of pods whose Job was deleted, or made anew under the same name."""
        pods = self.pods.by_index(BY_JOB, str(key))
        if pods:
            await self._release(
                [pod for pod in pods if job is None or not is_controlled_by(pod, job)]
            )

    async def _release(self, pods: Iterable[Obj]) -> None:
        await self._write_finalizers(
            [
                (pod, [one for one in meta(pod)["finalizers"] if one != FINALIZER])
                for pod in pods
                if is_tracked(pod)
            ]
        )

    async def _hold(self, pods: Iterable[Obj]) -> None:
        """Give the finalizer back to running pods that lost it, e.g. by a crash of ours."""
        await self._write_finalizers(
            [
                (pod, [*(meta(pod).get("finalizers") or []), FINALIZER])
                for pod in pods
                if not is_tracked(pod)
            ]
        )

    async def _write_finalizers(self, changes: Sequence[tuple[Obj, list[str]]]) -> None:
        writes = (self._write_finalizer(pod, wanted) for pod, wanted in changes)
        for answer in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    async def _write_finalizer(self, pod: Obj, finalizers: list[str]) -> None:
        key, uid, is_held = key_of(pod), uid_of(pod), FINALIZER in finalizers
        # Only on the pod as we know it: one that has succeeded meanwhile must be counted first.
        change = {
            "resourceVersion": meta(pod)["resourceVersion"],
            "finalizers": finalizers or None,
        }
        try:
            await self.api.patch(POD, key, {"metadata": change})
        except errors.NotFound:
            return

        def is_seen() -> bool:
            now = self.pods.get(key)
            return now is None or uid_of(now) != uid or is_tracked(now) == is_held

        await self.pods.until(is_seen, f"our finalizer change on {key}")


def _end(status: Obj, verdict: Verdict, now: float) -> tuple[str, str, str]:
    """Set the last condition of a Job; return what is to be told."""
    conditions: list[Obj] = status.get("conditions") or []
    told = _condition(verdict.type, verdict.reason, verdict.message, now)
    status["conditions"] = with_condition(conditions, told)
    if verdict.type == "Complete":
        status["completionTime"] = rfc3339(now)
        return verdict.type, "Completed", "Job completed"
    return verdict.type, verdict.reason, verdict.message


def _condition(kind: str, reason: str, message: str, now: float, status: str = "True") -> Obj:
    return {**condition(kind, status, reason, message, now), "lastProbeTime": rfc3339(now)}


def _job_keys(pod: Obj) -> Iterable[Key]:
    """Return the Job for which a pod holds our finalizer, also where it has no owner any more."""
    if not is_tracked(pod):
        return ()
    reference = controller_of(pod)
    if reference is not None and reference["kind"] == JOB.kind:
        name = reference["name"]
    else:
        name = labels_of(pod).get("batch.kubernetes.io/job-name", "")
    return (Key(meta(pod).get("namespace") or "", name),)


def _tracked_for(event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
    return _job_keys(event.object) if controller_of(event.object) is None else ()
