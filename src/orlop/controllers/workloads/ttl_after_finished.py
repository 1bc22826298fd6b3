"""Deletes Jobs some time after they have finished, as their ttlSecondsAfterFinished says.

Called by the controller manager with the key of a Job whenever it changes, and again when its time
has come. As pkg/controller/ttlafterfinished; a Job that names no time stays.
"""

from __future__ import annotations

from ... import errors
from ...api import times
from ...api.kinds import JOB
from ...api.objects import Key, Obj, is_deleting, meta, uid_of
from ..framework.controller import Controller, Result


class TtlAfterFinished(Controller):
    name = "ttl-after-finished-controller"
    kind = JOB

    async def reconcile(self, key: Key) -> Result:
        job = self.objects.get(key)
        left = seconds_left(job, self.clock.now()) if job is not None else None
        if job is None or left is None:
            return Result.done()
        if left > 0:
            return Result.again(left)
        # Asked anew: somebody may have given the Job more time just now.
        job = await self.api.get(JOB, key)
        left = seconds_left(job, self.clock.now())
        if left is not None and left <= 0:
            version = meta(job)["resourceVersion"]
            try:
                await self.api.delete(
                    JOB, key, uid=uid_of(job), resource_version=version, propagation="Foreground"
                )
            except errors.NotFound:
                pass
        return Result.done()


def seconds_left(job: Obj, now: float) -> float | None:
    """Return seconds until a Job expires; None where it is unfinished, may stay, or is going."""
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    finished = _finished_at(job)
    if ttl is None or finished is None or is_deleting(job):
        return None
    return finished + float(ttl) - now


def _finished_at(job: Obj) -> float | None:
    for one in (job.get("status") or {}).get("conditions") or []:
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return times.parse(one["lastTransitionTime"])
    return None
