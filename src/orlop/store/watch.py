"""Follows the history of a bucket from a place in it, and waits for more.

Handed out by the store to whoever watches; read by one task. It holds no events itself, so the
store does not wait for it: when it falls too far behind, reading raises `Expired`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from ..errors import Error
from .history import History
from .record import Event


class Expired(Error):
    """The history no longer reaches back to where this watch (or list) is: list again."""


class Watch:
    """Every change of a bucket (or of one namespace of it) after a revision, once and in order."""

    def __init__(
        self,
        history: History,
        namespace: str,
        after: int,
        forget: Callable[[Watch], None],
        concerns: Callable[[Event], bool] | None = None,
    ) -> None:
        if after < history.floor:
            raise Expired(f"too old resource version: {after} ({history.floor})")
        self.namespace = namespace
        self._history = history
        self._place = history.place_after(after)
        self._after = after
        self._forget = forget
        self._concerns = concerns
        self._is_awake = False
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False

    def wake(self) -> None:
        self._is_awake = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def offer(self, events: Sequence[Event]) -> None:
        """Hand over the newest changes.

        They are a reason to wake, or, for one who has seen all before, to move on.
        """
        if self._is_awake:
            return
        if any(self._is_mine(event) for event in events):
            self.wake()
        elif self._place == self._history.end - len(events):
            self._place = self._history.end
            self._after = events[-1].revision

    def _is_mine(self, event: Event) -> bool:
        if self.namespace and event.record.key.namespace != self.namespace:
            return False
        return self._concerns is None or self._concerns(event)

    def pending(self) -> list[Event]:
        """Return what has happened since the last call."""
        if not self._history.has(self._place):
            raise Expired(f"too old resource version: {self._after} ({self._history.floor})")
        self._is_awake = False
        if self._place == self._history.end:
            return []
        events = self._history.since(self._place)
        self._place = self._history.end
        first = self._after
        self._after = events[-1].revision
        namespace = self.namespace
        return [
            event
            for event in events
            if event.revision > first and (not namespace or event.record.key.namespace == namespace)
        ]

    async def wait(self) -> None:
        """Return when something may have happened, or the watch was closed."""
        if self._is_closed or self._is_awake:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        while not self._is_closed:
            for event in self.pending():
                yield event
            await self.wait()

    def close(self) -> None:
        """Stop; whoever waits returns."""
        self._is_closed = True
        self.wake()
        self._forget(self)

    @property
    def is_closed(self) -> bool:
        return self._is_closed
