"""Starts a Job each time a CronJob's schedule says so.

Called by the controller manager with the key of a CronJob whenever it, or a Job it owns, changes,
and at its next time. A Job's name carries the minute it was due, so that a restart does not start
one twice. As pkg/controller/cronjob/cronjob_controllerv2.go; pods are the Job controller's work.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .... import errors
from ....api import cron, times
from ....api.kinds import CRON_JOB, JOB
from ....api.objects import (
    Key,
    Obj,
    annotations_of,
    condition_of,
    is_controlled_by,
    is_deleting,
    key_of,
    meta,
    owner_reference,
    uid_of,
)
from ....client.api import Api
from ....client.clock import Clock
from ....client.informer import Informers
from ...framework.controller import BY_CONTROLLER, Controller, Result
from ..pod_control import deep_copy, is_namespace_terminating
from .schedule import missed, next_time

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_LATE = 0.1  # seconds after the minute, so that clocks that differ a little agree on it


class CronJobs(Controller):
    name = "cronjob-controller"
    kind = CRON_JOB
    owns = (JOB,)

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        clock: Clock | None = None,
        zone: tzinfo | None = None,
    ) -> None:
        """Set up; `zone` holds for CronJobs that name none, this machine's by default."""
        super().__init__(api, informers, clock=clock)
        self.jobs = informers.informer(JOB)
        self._zone = zone or local_zone()

    async def reconcile(self, key: Key) -> Result:
        """Look at a CronJob once and do what is due.

        1. Take note of Jobs that have finished; forget the oldest beyond the history limits.
        2. Start the Job that is due, unless it is too late or another still runs.
        3. Write the status; come back when the next one is due.
        """
        cron_job = self.objects.get(key)
        if cron_job is None:
            return Result.done()
        jobs = self.jobs.by_index(BY_CONTROLLER, uid_of(cron_job))
        status = await self._observe(cron_job, jobs)  # 1
        await self._forget(cron_job, jobs)
        result = Result.done()
        if not is_deleting(cron_job) and not cron_job["spec"].get("suspend"):
            result = await self._start_due(cron_job, status)  # 2
        await self.write_status(cron_job, status)  # 3
        return result

    async def _observe(self, cron_job: Obj, jobs: Sequence[Obj]) -> Obj:
        status = deep_copy(cron_job.get("status") or {})
        by_uid = {uid_of(job): job for job in jobs}
        active: list[Obj] = []
        for reference in status.pop("active", []):
            job = by_uid.get(reference["uid"])
            if job is None:
                name = reference["name"]
                message = f"Active job went missing: {name}"
                await self.recorder.event(cron_job, "Normal", "MissingJob", message)
            elif (how := finished(job)) is None:
                active.append(reference)
            else:
                message = f"Saw completed job: {meta(job)['name']}, condition: {how}"
                await self.recorder.event(cron_job, "Normal", "SawCompletedJob", message)
                _note_success(status, job)
        known = {reference["uid"] for reference in active}
        # Started, but the status of that time was lost with whoever was to write it.
        lost = [job for job in jobs if finished(job) is None and uid_of(job) not in known]
        _set_active(status, active + [_reference(job) for job in lost])
        return status

    async def _forget(self, cron_job: Obj, jobs: Sequence[Obj]) -> None:
        spec = cron_job["spec"]
        limits = {
            "Complete": spec.get("successfulJobsHistoryLimit", 3),
            "Failed": spec.get("failedJobsHistoryLimit", 1),
        }
        for how, limit in limits.items():
            ended = [job for job in jobs if finished(job) == how and not is_deleting(job)]
            ended.sort(
                key=lambda job: ((job.get("status") or {}).get("startTime") or "", key_of(job))
            )
            for job in ended[: max(len(ended) - limit, 0)]:
                await self._delete(cron_job, job)

    async def _start_due(self, cron_job: Obj, status: Obj) -> Result:
        """Start what is due; return when to look again."""
        spec, now = cron_job["spec"], self.clock.now()
        try:
            zone = self._zone_of(cron_job)
            schedule = cron.parse(spec["schedule"])
        except cron.CronError as error:
            message = f"unparseable schedule: {spec['schedule']!r} : {error}"
            await self.recorder.event(cron_job, "Warning", "UnparseableSchedule", message)
            return Result.done()
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            message = f"invalid timeZone: {spec['timeZone']!r}: {error}"
            await self.recorder.event(cron_job, "Warning", "UnknownTimeZone", message)
            return Result.done()
        following = next_time(schedule, zone, now)
        result = Result.done() if following is None else Result.again(following - now + _LATE)
        due, is_too_many = missed(schedule, zone, _since(cron_job, status, now), now)
        if is_too_many:
            message = (
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds "
                "or check clock skew"
            )
            await self.recorder.event(cron_job, "Warning", "TooManyMissedTimes", message)
        if due is not None:
            await self._start(cron_job, status, due)
        return result

    async def _start(self, cron_job: Obj, status: Obj, due: float) -> None:
        spec = cron_job["spec"]
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None and due + deadline < self.clock.now():
            when = datetime.fromtimestamp(due, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            message = f"Missed scheduled time to start a job: {when}"
            await self.recorder.event(cron_job, "Warning", "MissSchedule", message)
            return
        active: list[Obj] = status.get("active") or []
        policy = spec.get("concurrencyPolicy", "Allow")
        if any(reference["name"] == job_name(cron_job, due) for reference in active):
            status["lastScheduleTime"] = times.rfc3339(due)
            return
        if active and policy == "Forbid":
            message = (
                "Not starting job because prior execution is running and concurrency policy is "
                "Forbid"
            )
            await self.recorder.event(cron_job, "Normal", "JobAlreadyActive", message)
            return
        if policy == "Replace":
            for reference in active:
                job = self.jobs.get(Key(meta(cron_job)["namespace"], reference["name"]))
                if job is not None:
                    await self._delete(cron_job, job)
            active = []
        made = await self._create(cron_job, due)
        if made is not None:
            running = [_reference(made)] if finished(made) is None else []
            _set_active(status, active + running)
            status["lastScheduleTime"] = times.rfc3339(due)

    async def _create(self, cron_job: Obj, due: float) -> Obj | None:
        """Return the Job of that moment, made now or before a restart."""
        wanted = job_for(cron_job, due, self._zone_of(cron_job))
        try:
            made = await self.api.create(JOB, wanted, namespace=meta(cron_job)["namespace"])
        except errors.AlreadyExists:
            found = await self.api.get(JOB, key_of(wanted))
            if not is_controlled_by(found, cron_job):
                raise
            return found
        except errors.ApiError as error:
            if is_namespace_terminating(error):
                return None
            message = f"Error creating job: {error.message}"
            await self.recorder.event(cron_job, "Warning", "FailedCreate", message)
            raise
        await self.jobs.seen(made)
        message = f"Created job {meta(made)['name']}"
        await self.recorder.event(cron_job, "Normal", "SuccessfulCreate", message)
        return made

    def _zone_of(self, cron_job: Obj) -> tzinfo:
        name = cron_job["spec"].get("timeZone")
        return ZoneInfo(name) if name else self._zone

    async def _delete(self, cron_job: Obj, job: Obj) -> None:
        try:
            await self.api.delete(JOB, key_of(job), uid=uid_of(job), propagation="Background")
        except (errors.NotFound, errors.Conflict):
            return
        await self.jobs.gone(job)
        message = f"Deleted job {meta(job)['name']}"
        await self.recorder.event(cron_job, "Normal", "SuccessfulDelete", message)


def finished(job: Obj) -> str | None:
    """Return `Complete` or `Failed` once a Job is; None before."""
    for how in ("Complete", "Failed"):
        condition = condition_of(job, how)
        if condition is not None and condition["status"] == "True":
            return how
    return None


def local_zone() -> tzinfo:
    """Return this machine's zone, with daylight saving."""
    name = os.environ.get("TZ", "").removeprefix(":")
    try:
        if name:
            return ZoneInfo(name)
        with open("/etc/localtime", "rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return UTC


def _since(cron_job: Obj, status: Obj, now: float) -> float:
    """Return the time after which a scheduled moment may have been missed."""
    last = status.get("lastScheduleTime") or meta(cron_job)["creationTimestamp"]
    since = times.parse(last)
    deadline = cron_job["spec"].get("startingDeadlineSeconds")
    return since if deadline is None else max(since, now - deadline)


def job_name(cron_job: Obj, due: float) -> str:
    return f"{meta(cron_job)['name']}-{int(due // 60)}"


def job_for(cron_job: Obj, due: float, zone: tzinfo) -> Obj:
    """Return the Job of one moment; its name says which."""
    template = deep_copy(cron_job["spec"]["jobTemplate"])
    when = datetime.fromtimestamp(due, zone).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "name": job_name(cron_job, due),
            "namespace": meta(cron_job)["namespace"],
            "labels": meta(template).get("labels") or {},
            "annotations": {**annotations_of(template), SCHEDULED_AT: when},
            "ownerReferences": [owner_reference(cron_job)],
        },
        "spec": template["spec"],
    }


def _reference(job: Obj) -> Obj:
    metadata = meta(job)
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }


def _set_active(status: Obj, active: list[Obj]) -> None:
    status.pop("active", None)
    if active:
        status["active"] = active


def _note_success(status: Obj, job: Obj) -> None:
    completed = (job.get("status") or {}).get("completionTime")
    if completed and finished(job) == "Complete":
        status["lastSuccessfulTime"] = max(status.get("lastSuccessfulTime", ""), completed)
