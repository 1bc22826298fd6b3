"""The user's queue as Slurm has it now, kept up to date with as few squeue calls as possible.

One task of the control plane. What the kubelet's own questions bring is heard too, and puts off
ours; when something changes Slurm is asked often, and seldom when nothing does. It never decides
what a change means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import ClassVar, Protocol

from ..client.clock import Clock, SystemClock
from ..errors import EngineError
from ..log import logger
from ..slurm.userjobs import UserJob
from ..slurm.userslurm import Listing

log = logger(__name__)

SOON = 0.3  # seconds from somebody's asking to the answer, at the least
GROWTH = 1.5
# Beyond the kubelet's longest interval: while it asks, nobody else need to.
SLACK = 1.5

Hear = Callable[[Collection[str]], None]


class Source(Protocol):
    """Where the listings come from."""

    def subscribe(self, hear: Callable[[Listing], None]) -> None: ...

    async def list(self) -> None: ...


class Queue:
    name: ClassVar[str] = "slurm-queue"

    def __init__(
        self, slurm: Source, *, busy: float, idle: float, clock: Clock | None = None
    ) -> None:
        self._slurm = slurm
        self._busy = busy
        self._idle = max(busy, idle) * SLACK
        self._clock = clock or SystemClock()
        self._interval = busy
        self._due = self._clock.now()
        self._is_moved = asyncio.Event()
        self._hearers: list[Hear] = []
        self._asked_at = 0.0
        self.jobs: Listing = {}
        self.listed_at = 0.0  # when the question was asked that `jobs` answers
        self.count = 0  # of answers
        slurm.subscribe(self._on_listing)

    def get(self, number: str) -> tuple[UserJob, ...]:
        """The job of that number, or all listed tasks of that array."""
        return self.jobs.get(number, ())

    def subscribe(self, hear: Hear) -> None:
        """Call `hear(numbers)` whenever these have changed, appeared or gone."""
        self._hearers.append(hear)

    def unsubscribe(self, hear: Hear) -> None:
        if hear in self._hearers:
            self._hearers.remove(hear)

    def ask(self) -> None:
        """Have Slurm asked soon: somebody waits for its answer."""
        self._interval = self._busy
        self._move(self._clock.now() + SOON)

    def expect(self) -> None:
        """Have Slurm asked at the next busy tick: there will be something to hear."""
        self._interval = self._busy
        self._move(self._clock.now() + self._busy)

    def _move(self, due: float) -> None:
        self._due = min(self._due, due)
        self._is_moved.set()

    async def run(self) -> None:
        while True:
            left = self._due - self._clock.now()
            if left <= 0:
                await self._list()
                continue
            self._is_moved.clear()
            try:
                async with asyncio.timeout(left):
                    await self._is_moved.wait()
            except TimeoutError:
                pass

    async def _list(self) -> None:
        self._asked_at = self._clock.now()
        before = self.count
        try:
            await self._slurm.list()
        except EngineError as error:
            log.debug("Slurm does not answer", error=error)
        except Exception:
            log.error("the queue was not understood", exc_info=True)
        finally:
            self._asked_at = 0.0
        if self.count == before:
            self._calm(is_news=False)

    def _on_listing(self, jobs: Listing) -> None:
        former, self.jobs = self.jobs, jobs
        self.count += 1
        # Of an answer to somebody else's question all that is known is that it is here now.
        self.listed_at = self._asked_at or self._clock.now() - SOON
        changed = {number for number, job in jobs.items() if former.get(number) != job}
        changed |= former.keys() - jobs.keys()
        self._calm(is_news=bool(changed))
        if changed:
            for hear in list(self._hearers):
                hear(changed)

    def _calm(self, *, is_news: bool) -> None:
        self._interval = self._busy if is_news else min(self._interval * GROWTH, self._idle)
        self._due = self._clock.now() + self._interval
