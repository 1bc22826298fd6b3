"""Takes back the condition that a pod is about to be disrupted, where nothing came of it.

Called by the controller manager with the key of a pod that has the condition DisruptionTarget, and
again two minutes later: the process that wrote it may have died before the deletion. As
pkg/controller/disruption: syncStalePodDisruption.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ... import errors
from ...api import times
from ...api.kinds import POD
from ...api.objects import Key, Obj, condition_of, is_deleting, is_terminal, key_of, meta
from ...api.times import rfc3339
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Loop, Result

TARGET = "DisruptionTarget"
_STALE = 120.0


class StaleDisruptions(Loop[Key]):
    name: ClassVar[str] = "disruption-controller"
    workers: ClassVar[int] = 1

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._pods = informers.informer(POD)
        self.watch(self._pods, self._changed)

    def _changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        is_there = event.type != "DELETED" and _awaits_disruption(event.object)
        return (key_of(event.object),) if is_there else ()

    async def reconcile(self, key: Key) -> Result:
        pod = self._pods.get(key)
        if pod is None or not _awaits_disruption(pod):
            return Result.done()
        since = (condition_of(pod, TARGET) or {}).get("lastTransitionTime")
        now = self.clock.now()
        left = (times.parse(since) if since else 0.0) + _STALE - now
        if left > 0:
            return Result.again(left)
        conditions = [
            {"type": TARGET, "status": "False", "lastTransitionTime": rfc3339(now)}
            if one["type"] == TARGET
            else one
            for one in pod["status"]["conditions"]
        ]
        # The list as a whole is written: not over what the kubelet has said meanwhile.
        change = {
            "metadata": {"resourceVersion": meta(pod)["resourceVersion"]},
            "status": {"conditions": conditions},
        }
        try:
            await self.api.patch(POD, key, change, subresource="status")
        except errors.NotFound:
            pass
        return Result.done()


def _awaits_disruption(pod: Obj) -> bool:
    if is_terminal(pod) or is_deleting(pod):
        return False
    return (condition_of(pod, TARGET) or {}).get("status") == "True"
