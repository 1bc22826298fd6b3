"""Writes Kubernetes Events, so that `kubectl describe` tells what happened and why.

Each component has a `Recorder` under its own name and awaits `event` where it decides something
people should know. A failure to write is logged and goes no further: no component ever stops, or
does otherwise, because an event could not be told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Literal
from weakref import WeakValueDictionary

from .. import errors
from ..api.kinds import EVENT
from ..api.objects import Key, Obj, meta, uid_of
from ..api.times import rfc3339
from ..log import logger
from .api import Api
from .clock import Clock, SystemClock
from .correlator import Correlator, Happening, Source, Told

EventType = Literal["Normal", "Warning"]

log = logger(__name__)


class Recorder:
    """The events of one component."""

    def __init__(self, api: Api, component: str, *, clock: Clock | None = None) -> None:
        self._api = api
        self._component = component
        self._clock = clock or SystemClock()
        self._correlator = Correlator()
        self._moment = 0  # of the last new event, in nanoseconds: names must differ
        # Two equal events at once are one write and one count, in that order.
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def event(
        self,
        obj: Obj,
        type: EventType,
        reason: str,
        message: str,
        *,
        field_path: str = "",
        when: float | None = None,
    ) -> None:
        """Tell that something happened to `obj`, which must carry apiVersion and kind.

        `when` it did, where that is not now.
        """
        about = _source(obj, field_path)
        turn = self._turns.setdefault(about, asyncio.Lock())
        async with turn:
            told = self._correlator.correlate(
                Happening(about, type, reason, message), self._clock.now()
            )
            if told is None:
                return
            try:
                await self._write(about, type, reason, told, rfc3339(when or self._clock.now()))
            except errors.ApiError as error:
                log.warning("event not written", about=about.name, reason=reason, error=error)

    async def _write(
        self, about: Source, type: EventType, reason: str, told: Told, when: str
    ) -> None:
        if told.count:
            try:
                await self._count(about, told, when)
                return
            except errors.NotFound:
                # It expired, or somebody deleted it: a new one takes its place.
                told.count, told.first = 0, self._clock.now()
        self._moment = max(self._moment + 1, int(self._clock.now() * 1e9))
        told.name = f"{about.name}.{self._moment:x}"
        event = self._new(about, type, reason, told, when)
        await self._api.create(EVENT, event, namespace=event["metadata"]["namespace"])
        told.count = 1

    async def _count(self, about: Source, told: Told, when: str) -> None:
        change = {
            "count": told.count + 1,
            "lastTimestamp": when,
            "message": told.message,
        }
        await self._api.patch(EVENT, Key(about.namespace or "default", told.name), change)
        told.count += 1

    def _new(self, about: Source, type: EventType, reason: str, told: Told, when: str) -> Obj:
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": told.name, "namespace": about.namespace or "default"},
            "involvedObject": _reference(about),
            "reason": reason,
            "message": told.message,
            "type": type,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
        }


def _source(obj: Obj, field_path: str) -> Source:
    metadata = meta(obj)
    return Source(
        str(obj.get("apiVersion", "")),
        str(obj.get("kind", "")),
        metadata.get("namespace") or "",
        metadata["name"],
        uid_of(obj),
        field_path,
    )


def _reference(about: Source) -> Obj:
    reference = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
        "fieldPath": about.field_path,
    }
    return {key: value for key, value in reference.items() if value}
