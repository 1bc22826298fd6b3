"""Tells Kubernetes Events without making any caller wait for them.

Filled by the pods' workers, emptied by one task. Events of one pod are told in their order, those
of different pods at the same time; a failure to tell is the recorder's to log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ...api.objects import Obj, uid_of
from ...client.recorder import EventType, Recorder
from ...log import logger

log = logger(__name__)

MAX_WAITING = 20_000  # an API server that is away must not fill the memory


class Telling(NamedTuple):
    obj: Obj
    kind: EventType
    reason: str
    message: str
    then: Callable[[], None] | None
    when: float | None


class Events:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: deque[Telling] = deque(maxlen=MAX_WAITING)
        self._is_filled = asyncio.Event()

    def tell(
        self,
        obj: Obj,
        kind: EventType,
        reason: str,
        message: str,
        then: Callable[[], None] | None = None,
        when: float | None = None,
    ) -> None:
        """Tell an event soon, and call `then` when it is told; `when` is its time, if not just
        now.
        """
        self._waiting.append(Telling(obj, kind, reason, message, then, when))
        self._is_filled.set()

    async def run(self) -> None:
        while True:
            await self._is_filled.wait()
            self._is_filled.clear()
            by_object: dict[str, list[Telling]] = {}
            while self._waiting:
                telling = self._waiting.popleft()
                by_object.setdefault(uid_of(telling.obj), []).append(telling)
            async with asyncio.TaskGroup() as group:
                for uid, tellings in by_object.items():
                    group.create_task(self._tell_all(tellings), name=f"events of {uid}")

    async def _tell_all(self, tellings: list[Telling]) -> None:
        for obj, kind, reason, message, then, when in tellings:
            try:
                await self._recorder.event(obj, kind, reason, message, when=when)
                if then is not None:
                    then()
            except Exception:
                log.error("event not told", reason=reason, exc_info=True)
