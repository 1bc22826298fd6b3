"""Forgets Events an hour after they were last seen, as upstream's API server does.

Run by the controller manager. It looks every few minutes, because an Event that lives a little
longer does no harm, and keeps no cache of what may be the most numerous kind; an Event that was
counted again in between is kept.
"""

from __future__ import annotations

from typing import ClassVar

from ... import errors
from ...api import times
from ...api.kinds import EVENT
from ...api.objects import Obj, key_of, meta, uid_of
from ...client.api import Api
from ...client.clock import Clock, SystemClock, sleep
from ...client.informer import Informers
from ...log import logger

log = logger(__name__)

TTL = 3600.0  # as kube-apiserver's --event-ttl
EVERY = 300.0


class EventTtl:
    name: ClassVar[str] = "event-ttl"

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or SystemClock()

    async def run(self) -> None:
        while True:
            try:
                await self.sweep()
            except errors.ApiError as error:
                log.warning("cannot forget old events now", error=error)
            await sleep(self._clock, EVERY)

    async def sweep(self) -> None:
        """Delete every Event that has not been seen for TTL."""
        oldest = self._clock.now() - TTL
        for event in (await self._api.list(EVENT)).items:
            if last_seen(event) < oldest:
                await self._forget(event)

    async def _forget(self, event: Obj) -> None:
        version = meta(event)["resourceVersion"]
        try:
            await self._api.delete(
                EVENT, key_of(event), uid=uid_of(event), resource_version=version
            )
        except (errors.NotFound, errors.Conflict):
            pass  # gone already, or seen again


def last_seen(event: Obj) -> float:
    """Return when the Event was last counted, by whichever of its fields says so."""
    series = event.get("series") or {}
    stamps = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        meta(event)["creationTimestamp"],
    )
    return max(times.parse(stamp) for stamp in stamps if stamp)
