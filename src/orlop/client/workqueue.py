"""Queues keys: each waits at most once, and is worked on by one worker at a time.

Filled by informer handlers, emptied by the workers of a controller, the scheduler or the kubelet.
As client-go's util/workqueue: what is added while being worked on comes again when it is done,
failures come again after a delay that doubles. What a key means is its users' business.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..metrics import PROCESS
from .clock import Clock, SystemClock, Timer

_TIMES = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)  # as client-go's
_depth = PROCESS.gauge("workqueue_depth", "Current depth of workqueue", "name")
_adds = PROCESS.counter("workqueue_adds_total", "Total number of adds handled by workqueue", "name")
_retries = PROCESS.counter(
    "workqueue_retries_total", "Total number of retries handled by workqueue", "name"
)
_waited = PROCESS.histogram(
    "workqueue_queue_duration_seconds",
    "How long in seconds an item stays in workqueue before being requested",
    "name",
    buckets=_TIMES,
)
_worked = PROCESS.histogram(
    "workqueue_work_duration_seconds",
    "How long in seconds processing an item from workqueue takes.",
    "name",
    buckets=_TIMES,
)

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double with each failure, from `first` to `longest` seconds."""

    first: float = 0.005
    longest: float = 1000.0

    def delay(self, failures: int) -> float:
        # 2**64 overflows nothing that a float cannot hold; more failures change nothing.
        return min(self.first * 2.0 ** min(failures, 64), self.longest)


DEFAULT_BACKOFF = Backoff()


class _Ranked(Generic[K]):
    """A deque, as far as queues use one, whose first is the one of the lowest rank."""

    def __init__(self, rank: Callable[[K], int]) -> None:
        self._rank = rank
        self._order = itertools.count()  # first come, first served within a rank
        self._heap: list[tuple[int, int, K]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def append(self, key: K) -> None:
        heapq.heappush(self._heap, (self._rank(key), next(self._order), key))

    def popleft(self) -> K:
        return heapq.heappop(self._heap)[2]


class WorkQueue(Generic[K]):
    """Dedup, delay and back-off; `get` and `done` enclose the work on a key.

    What has a `name` is seen under it at /metrics. With a `rank`, lower ones go first.
    """

    def __init__(
        self,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        clock: Clock | None = None,
        name: str = "",
        rank: Callable[[K], int] | None = None,
    ) -> None:
        self._name = name
        self._since: dict[K, float] = {}  # when a key was queued, then when its work began
        self._backoff = backoff
        self._clock = clock or SystemClock()
        self._ready: deque[K] | _Ranked[K] = deque() if rank is None else _Ranked(rank)
        self._dirty: set[K] = set()  # waiting, or to come again when the present work is done
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, tuple[float, Timer]] = {}
        self._getters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Return how many keys are ready to be worked on."""
        return len(self._ready)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is ready or being worked on; delayed keys may still come."""
        return not self._ready and not self._working

    def add(self, key: K) -> None:
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._push(key)

    def add_after(self, key: K, delay: float) -> None:
        """Add the key once `delay` seconds have passed; of several delays the earliest counts."""
        if delay <= 0:
            self.add(key)
            return
        due = self._clock.now() + delay
        former = self._timers.get(key)
        if former is not None:
            if former[0] <= due:
                return
            former[1].cancel()
        timer = self._clock.call_later(delay, lambda: self._fire(key))
        self._timers[key] = (due, timer)

    def add_rate_limited(self, key: K) -> float:
        """Add the key after the delay that its failures have earned; return that delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self._name:
            _retries.add(self._name)
        delay = self._backoff.delay(failures)
        self.add_after(key, delay)
        return delay

    def failed(self, key: K) -> None:
        """Count a failure of a key that is to come again when its owner says."""
        self._failures[key] = self._failures.get(key, 0) + 1

    def forget(self, key: K) -> None:
        """Forget the failures of a key that went well: its next failure is its first."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Return the next key; `done` must follow, whatever becomes of the work."""
        while not self._ready:
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # Woken and cancelled at once: another worker must have the turn.
                if getter.done() and not getter.cancelled():
                    self._wake()
                raise
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        if self._name:
            self._taken(key)
        return key

    def done(self, key: K) -> None:
        self._working.discard(key)
        if self._name and key in self._since:
            _worked.observe(time.monotonic() - self._since.pop(key), self._name)
        if key in self._dirty:
            self._push(key)

    def close(self) -> None:
        """Drop every delayed key, so that no timer outlives its owner."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _push(self, key: K) -> None:
        self._ready.append(key)
        if self._name:
            self._since[key] = time.monotonic()
            _adds.add(self._name)
            _depth.set(len(self._ready), self._name)
        self._wake()

    def _taken(self, key: K) -> None:
        now = time.monotonic()
        _waited.observe(now - self._since.get(key, now), self._name)
        _depth.set(len(self._ready), self._name)
        self._since[key] = now

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
