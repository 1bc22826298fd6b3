"""Deletes what is over once its time to live has passed, for kinds that say so in their spec.

Called by the controllers of MPIJobs, PyTorchJobs and JobSets; Jobs have `ttl_after_finished`.
"""

from __future__ import annotations

from ... import errors
from ...api import times
from ...api.objects import Obj, key_of, uid_of
from ..framework.controller import Controller, Result


async def expire(controller: Controller, obj: Obj, ttl: int | None, ended: str | None) -> Result:
    """Delete it with all it made, or return when to look again."""
    if ttl is None or ended is None:
        return Result.done()
    left = times.parse(ended) + float(ttl) - controller.clock.now()
    if left > 0:
        return Result.again(left)
    try:
        key, uid = key_of(obj), uid_of(obj)
        await controller.api.delete(controller.kind, key, uid=uid, propagation="Foreground")
    except errors.NotFound:
        pass
    return Result.done()
