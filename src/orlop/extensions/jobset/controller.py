"""Runs JobSets (jobset.x-k8s.io/v1alpha2): several sets of Jobs with one network and one end.

Run by the controller manager while the kind is ours, with the key of a JobSet whenever it or a Job
of its changes. It makes Jobs and a Service; the pods are the Job controller's. What the ends of
Jobs mean is in policy.py. Pods are looked at for restarts in place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ... import errors
from ...api.kinds import JOB, POD, SERVICE
from ...api.objects import Key, Obj, condition_of, is_deleting, key_of, labels_of, meta, uid_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...controllers.framework.controller import BY_CONTROLLER, Controller, Result
from ...controllers.framework.status import condition, is_true, with_condition
from ...controllers.workloads.finished import expire
from ...controllers.workloads.owned_objects import OwnedObjects
from ...controllers.workloads.volume_claim_templates import ClaimMaker
from ..bundled import bundled_kind
from .children import (
    ATTEMPT,
    NAME,
    UID,
    claims_for,
    has_names,
    is_outdated,
    is_suspended,
    job_for,
    job_name,
    not_honoured,
    replicas,
    replicated,
    restarts,
    service,
    subdomain,
    unmounted,
)
from .in_place_restart import MOST, is_in_place, judge_in_place, watched_fields
from .policy import (
    Again,
    End,
    after,
    end_of,
    finished_time,
    is_finished,
    judge,
    may_start,
    progress,
)

JOB_SET = bundled_kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
MANAGED_BY = "jobset.sigs.k8s.io/jobset-controller"
BY_JOB_SET = "job set"


class JobSets(Controller):
    name = "jobset-controller"
    kind = JOB_SET
    owns = (JOB,)

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.jobs = informers.informer(JOB)
        self._services = OwnedObjects(api, informers, self.recorder, SERVICE)
        self._made = OwnedObjects(api, informers, self.recorder, JOB)
        self._claims = ClaimMaker(api, informers, self.recorder)
        self._pods = informers.informer(POD)
        self._pods.add_index(BY_JOB_SET, _by_job_set)
        self.watch(self._pods, self._pod_changed)

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        """Queue the set of a pod where what runs in its pods is restarted in place."""
        pod = event.object
        name = labels_of(pod).get(NAME)
        if name is None or (
            previous is not None and watched_fields(previous) == watched_fields(pod)
        ):
            return
        key = Key(meta(pod)["namespace"], name)
        jobset = self.objects.get(key)
        if jobset is not None and is_in_place(jobset):
            yield key

    async def reconcile(self, key: Key) -> Result:
        """Look at a JobSet once and take its next steps.

        1. One that is over loses the Jobs that still run, and goes when its time has come.
        2. Jobs of earlier attempts go.
        3. Judge the ends of the others: the set ends, or something is made again.
        4. Suspend or resume; make what is missing, in its order.
        5. Write how far it has come.
        """
        jobset = self.objects.get(key)
        if jobset is None or is_deleting(jobset):
            return Result.done()
        if jobset["spec"].get("managedBy", MANAGED_BY) != MANAGED_BY:
            return Result.done()
        every = list(self.jobs.by_index(BY_CONTROLLER, uid_of(jobset)))
        if is_finished(jobset):
            await self._delete(job for job in every if not end_of(job))  # 1
            ttl = jobset["spec"].get("ttlSecondsAfterFinished")
            return await expire(self, jobset, ttl, finished_time(jobset))
        await self._delete(job for job in every if is_outdated(jobset, job))  # 2
        jobs = [job for job in every if not is_outdated(jobset, job) and not is_deleting(job)]
        verdict = judge(jobset, jobs) or self._in_place(jobset)  # 3
        if isinstance(verdict, Again):
            await self._again(jobset, jobs, verdict)
            return Result.again(0)
        if isinstance(verdict, End):
            await self._finish(jobset, jobs, verdict)
            return Result.again(0)
        await self._go_on(jobset, jobs, every)  # 4
        await self._tell(jobset)  # 5
        return Result.done()

    def _in_place(self, jobset: Obj) -> End | None:
        """Judge whether pods that are restarted in place have been so too often."""
        if not is_in_place(jobset):
            return None
        found = judge_in_place(jobset, self._pods.by_index(BY_JOB_SET, uid_of(jobset)))
        return found if isinstance(found, End) else None

    async def _again(self, jobset: Obj, jobs: Sequence[Obj], verdict: Again) -> None:
        """Write the counters first: the Jobs are then of an earlier attempt, after any crash."""
        counted = {**jobset, "status": {**(jobset.get("status") or {})}}
        counted["status"]["replicatedJobsStatus"] = progress(jobset, jobs)
        await self.write_status(jobset, after(counted, verdict), lock=True)
        await self.recorder.event(jobset, "Warning", "Restarting", verdict.message)

    async def _finish(self, jobset: Obj, jobs: Sequence[Obj], end: End) -> None:
        status = {**(jobset.get("status") or {})}
        told = condition(end.type, "True", end.reason, end.message, self.clock.now())
        status["conditions"] = with_condition(status.get("conditions") or [], told)
        status["terminalState"] = end.type
        status["restarts"] = restarts(jobset)
        status["replicatedJobsStatus"] = progress(jobset, jobs)
        await self.write_status(jobset, status, lock=True)
        kind = "Warning" if end.type == "Failed" else "Normal"
        await self.recorder.event(jobset, kind, end.reason, end.message)  # type: ignore[arg-type]

    async def _go_on(self, jobset: Obj, jobs: Sequence[Obj], every: Sequence[Obj]) -> None:
        if has_names(jobset):
            await self._name(jobset)
        reached = progress(jobset, jobs)
        policy = jobset["spec"].get("failurePolicy") or {}
        old = any(labels_of(job).get(ATTEMPT) != str(restarts(jobset)) for job in every)
        if policy.get("restartStrategy") == "BlockingRecreate" and old:
            return  # all of the last attempt must have gone
        taken = {meta(job)["name"] for job in every}
        by_name = {meta(job)["name"]: job for job in jobs}
        missing: list[Obj] = []
        known = {
            job_name(jobset, one, i) for one in replicated(jobset) for i in range(replicas(one))
        }
        await self._delete(job for name, job in by_name.items() if name not in known)
        for one in replicated(jobset):
            if not is_suspended(jobset) and not may_start(jobset, one, reached):
                continue
            for index in range(replicas(one)):
                wanted = self._job_for(jobset, one, index)
                name = meta(wanted)["name"]
                if name not in taken:
                    missing.append(wanted)
                elif name in by_name:
                    await self._align(jobset, by_name[name], wanted)
        await self._claim(jobset, is_needed=bool(missing))
        for job in missing:
            await self._made.keep(jobset, job)

    async def _claim(self, jobset: Obj, *, is_needed: bool) -> None:
        """Make the claims; one still being deleted holds back Jobs that are to be made, no more."""
        claims = claims_for(jobset)
        if not is_needed:
            claims = [claim for claim in claims if not self._claims.is_going(claim)]
        await self._claims.ensure(jobset, claims)

    def _job_for(self, jobset: Obj, one: Obj, index: int) -> Obj:
        job = job_for(jobset, one, index)
        if is_in_place(jobset):
            job["spec"].setdefault("backoffLimit", MOST)
            job["spec"].setdefault("podReplacementPolicy", "Failed")
        return job

    async def _name(self, jobset: Obj) -> None:
        """Make the Service; one that somebody else made, another JobSet say, is shared."""
        key = Key(meta(jobset)["namespace"], subdomain(jobset))
        if self._services.informer.get(key) is None:
            await self._services.keep(jobset, service(jobset))

    async def _align(self, jobset: Obj, job: Obj, wanted: Obj) -> None:
        """Suspend or resume; a Job that waited while its JobSet was edited is made anew."""
        suspended = is_suspended(jobset)
        if job["spec"].get("suspend") and not self._made.is_current(job, wanted):
            return await self._delete([job])
        if end_of(job) or bool(job["spec"].get("suspend")) == suspended:
            return
        written = await self.api.patch(JOB, key_of(job), {"spec": {"suspend": suspended}})
        await self.jobs.seen(written)

    async def _delete(self, jobs: Iterable[Obj]) -> None:
        going = [job for job in jobs if not is_deleting(job)]

        async def one(job: Obj) -> None:
            try:
                await self.api.delete(JOB, key_of(job), uid=uid_of(job), propagation="Foreground")
                await self.jobs.gone(job)
            except (errors.NotFound, errors.Conflict):
                pass

        await asyncio.gather(*map(one, going))

    async def _tell(self, jobset: Obj) -> None:
        found = self.jobs.by_index(BY_CONTROLLER, uid_of(jobset))
        jobs = [job for job in found if not is_outdated(jobset, job) and not is_deleting(job)]
        status = {**(jobset.get("status") or {})}
        status["restarts"] = restarts(jobset)
        status["replicatedJobsStatus"] = progress(jobset, jobs)
        if is_in_place(jobset):
            changed = judge_in_place(jobset, self._pods.by_index(BY_JOB_SET, uid_of(jobset)))
            status |= changed if isinstance(changed, dict) else {}
        if not jobset.get("status"):
            await self._warn(jobset)
        news = self._suspension(jobset, status)
        self._startup(jobset, status)
        await self.write_status(jobset, status, lock=True)
        if news:
            await self.recorder.event(jobset, "Normal", *news)

    async def _warn(self, jobset: Obj) -> None:
        """Warn once of what it asks for in vain."""
        for name in unmounted(jobset):
            words = f"volumeClaimPolicies: no container mounts {name}"
            await self.recorder.event(jobset, "Warning", "VolumeNotMounted", words)
        for words in not_honoured(jobset):
            await self.recorder.event(jobset, "Warning", "NotSupported", words)

    def _suspension(self, jobset: Obj, status: Obj) -> tuple[str, str] | None:
        former: list[Obj] = status.get("conditions") or []
        if is_suspended(jobset):
            news, said = ("SuspendedJobs", "jobset is suspended"), "True"
        elif condition_of(jobset, "Suspended") is not None:
            news, said = ("ResumeJobs", "jobset is resumed"), "False"
        else:
            return None
        told = condition("Suspended", said, *news, self.clock.now())
        status["conditions"] = with_condition(former, told)
        return news if status["conditions"] != former else None

    def _startup(self, jobset: Obj, status: Obj) -> None:
        policy = jobset["spec"].get("startupPolicy") or {}
        if policy.get("startupPolicyOrder") != "InOrder" or is_suspended(jobset):
            return
        reached = status["replicatedJobsStatus"]
        last = replicated(jobset)[-1:]
        is_done = all(may_start(jobset, one, reached) and _is_up(one, reached[-1]) for one in last)
        former: list[Obj] = status.get("conditions") or []
        kinds = ("StartupPolicyInProgress", "StartupPolicyCompleted")
        if is_done and not is_true(former, kinds[1]):
            words = ("StartupPolicyCompleted", "startup policy in order has completed")
            former = with_condition(former, condition(kinds[0], "False", *words, self.clock.now()))
            former = with_condition(former, condition(kinds[1], "True", *words, self.clock.now()))
        elif not is_done and condition_of(jobset, kinds[0]) is None:
            words = ("StartupPolicyInProgress", "startup policy in order starting")
            former = with_condition(former, condition(kinds[0], "True", *words, self.clock.now()))
        if former:
            status["conditions"] = former


def _is_up(one: Obj, status: Obj) -> bool:
    return bool(status["ready"] + status["succeeded"] + status["failed"] >= replicas(one))


def _by_job_set(pod: Obj) -> tuple[str, ...]:
    """Index: the uid of the JobSet that a pod belongs to."""
    uid = labels_of(pod).get(UID)
    return (uid,) if uid else ()
