"""Tells the time and waits, for all who would otherwise ask the system: a `Clock`, or one of tests.

Work queues, controllers, the scheduler and the event recorder take one; `SystemClock` is the
default, and `ManualClock` stands still until a test moves it. Nothing here knows API objects.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol


class Timer(Protocol):
    """A callback yet to come."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Unix time, and callbacks at a later one."""

    def now(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class SystemClock:
    """The machine's own time on the running event loop."""

    def now(self) -> float:
        return time.time()

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback)


class _ManualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock for tests: time passes in `advance`."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (self._now + delay, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move on, calling what falls due on the way, each at its own moment."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            self._now, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
        self._now = end

    def oversleep(self, seconds: float) -> None:
        """Move on like a process that was stopped: what fell due is called at the end."""
        self._now += seconds
        late: list[_ManualTimer] = []
        while self._timers and self._timers[0][0] <= self._now:
            late.append(heapq.heappop(self._timers)[2])
        for timer in late:
            if timer.callback is not None:
                timer.callback()


async def sleep(clock: Clock, seconds: float) -> None:
    """Wait until `seconds` of the clock's time have passed."""
    passed = asyncio.get_running_loop().create_future()
    timer = clock.call_later(seconds, lambda: None if passed.done() else passed.set_result(None))
    try:
        await passed
    finally:
        timer.cancel()


@asynccontextmanager
async def timeout(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError in what has not ended after `seconds` of the clock's time."""
    now = asyncio.get_running_loop().time
    async with asyncio.timeout(None) as limit:
        timer = clock.call_later(max(seconds, 0.0), lambda: limit.reschedule(now()))
        try:
            yield
        finally:
            timer.cancel()
