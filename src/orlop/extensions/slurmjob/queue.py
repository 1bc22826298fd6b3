"""Keeps the user's queue as Slurm has it now, with as few squeue calls as possible.

One task of the control plane. What the kubelet's own questions bring is heard too, and puts off
ours; Slurm is asked at its own pace while a SlurmJob has a job there, and seldom while none has.
What a change means is for its subscribers to decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import ClassVar, Protocol

from ...client.clock import Clock, SystemClock
from ...engine.pace import Pace
from ...errors import EngineError
from ...log import logger
from ...slurm.query.user_jobs import UserJob
from ...slurm.submit.user_slurm import Listing

log = logger(__name__)

SOON = 0.3  # seconds from somebody's asking to the answer, at the least
SLACK = 0.5  # beyond the interval of who asked last: while the kubelet does, nobody else need to

Hear = Callable[[Collection[str]], None]


class Source(Protocol):
    """The source of the listings."""

    def subscribe(self, hear: Callable[[Listing], None]) -> None: ...

    async def list(self) -> None: ...

    def is_ours(self, job: UserJob) -> bool:
        """Return whether a SlurmJob of this cluster has asked for it."""
        ...


class Queue:
    name: ClassVar[str] = "slurm-queue"

    def __init__(
        self, slurm: Source, *, busy: float, idle: float, clock: Clock | None = None
    ) -> None:
        self._slurm = slurm
        self._pace = Pace(busy, idle)
        self._clock = clock or SystemClock()
        self._due = self._clock.now()
        self._is_moved, self._moved_at = asyncio.Event(), float("-inf")
        self._hearers: list[Hear] = []
        self._asked_at = 0.0
        self.jobs: Listing = {}
        self.listed_at = 0.0  # when the question was asked that `jobs` answers
        self.count = 0  # of answers
        slurm.subscribe(self._on_listing)

    def get(self, number: str) -> tuple[UserJob, ...]:
        """Return the job of that number, or all listed tasks of that array."""
        return self.jobs.get(number, ())

    def subscribe(self, hear: Hear) -> None:
        """Call `hear(numbers)` whenever these have changed, appeared or gone."""
        self._hearers.append(hear)

    def unsubscribe(self, hear: Hear) -> None:
        if hear in self._hearers:
            self._hearers.remove(hear)

    def ask(self) -> None:
        """Have Slurm asked soon: something waits for its answer."""
        self._move(self._clock.now() + max(SOON, self._pace.spacing))

    def expect(self) -> None:
        """Have Slurm asked in its own time: there will be something to hear."""
        self._pace.watch()
        self._move(self._clock.now() + self._pace.interval)

    def _move(self, due: float) -> None:
        self._due, self._moved_at = min(self._due, due), self._clock.now()
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
        self._due = float("inf")  # who asks from now on may not be answered by this
        try:
            await self._slurm.list()
            self._pace.took(self._clock.now() - self._asked_at)
        except EngineError as error:
            log.debug("Slurm does not answer", error=error)
        except Exception:
            log.error("the queue was not understood", exc_info=True)
            self._pace.rest()
        finally:
            self._asked_at = 0.0
        self._due = min(self._due, self._clock.now() + self._pace.interval)

    def _on_listing(self, jobs: Listing) -> None:
        former, self.jobs = self.jobs, jobs
        self.count += 1
        # Of an answer to somebody else's question all that is known is that it is here now.
        self.listed_at = self._asked_at or self._clock.now() - SOON
        if jobs is not former:
            self._tell(former, jobs)
        if any(self._is_followed(tasks) for tasks in jobs.values()):
            self._pace.watch()
        else:
            self._pace.relax()
        due = self._clock.now() + self._pace.interval + SLACK
        # Who has asked since then is not answered by it.
        self._due = min(self._due, due) if self._moved_at >= self.listed_at else due

    def _tell(self, former: Listing, jobs: Listing) -> None:
        changed = {number for number, job in jobs.items() if former.get(number) != job}
        changed |= former.keys() - jobs.keys()
        if changed:
            for hear in list(self._hearers):
                hear(changed)

    def _is_followed(self, tasks: tuple[UserJob, ...]) -> bool:
        """Return whether a SlurmJob waits for what becomes of it."""
        is_over = all(task.state.has_ended for task in tasks)
        return not is_over and self._slurm.is_ours(tasks[0])
