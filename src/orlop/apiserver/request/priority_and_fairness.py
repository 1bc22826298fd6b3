"""Bounds how many requests are worked on at once, and lets users take turns when there are more.

Every request but those open to all takes a seat before it is authorized. Reads and writes have
seats of their own; who wants one when none is free waits in a queue per user, and users take turns,
so that one client with a thousand connections costs the others a few milliseconds and no more. What
waits too long, or behind too many, is told to come back. As apiserver/pkg/util/flowcontrol in its
aim; its shape is that of one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from ...errors import TooManyRequests
from . import metrics

MUTATING, READ_ONLY, LARGE, UPLOAD = "mutating", "readOnly", "large", "upload"


@dataclass(frozen=True, slots=True)
class SeatLimits:
    """The limits of one kind of requests."""

    seats: int  # requests at once, of all users
    of_one: int  # of them, those that one user may have
    queued: int = 500  # requests of one user that wait
    patience: float = 15.0  # seconds that a request waits


# A write waits for the disk, and many share one turn of it. A read is work for the loop: as many as
# have seats may run before the next user's turn, so there are fewer.
WRITES, READS = SeatLimits(400, 200), SeatLimits(128, 32)
# A large body is most of a second's work, which the loop does between others' requests or, where
# that is easy, a thread beside it: never two at once, or a hundred of them would be a hundred
# seconds in which nobody else is heard.
LARGE_BODIES = SeatLimits(1, 1, queued=50, patience=30.0)
# A body that has not come with its head may never come. Who waits for it has a seat of another
# kind, and not for long: those of the writes are for work.
UPLOADS = SeatLimits(256, 32)


@dataclass(slots=True)
class Seat:
    """A place to work for one user, as long as `async with` lasts or until it is left."""

    seats: Seats
    user: str
    is_taken: bool = False

    async def __aenter__(self) -> None:
        await self.seats.take(self.user)
        self.is_taken = True

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        if self.is_taken:
            self.is_taken = False
            self.seats.leave(self.user)


class Seats:
    """Turns among users; a seat that is left is free from the loop's next round on.

    Were it free at once, a crowd of requests that do not wait would take turns on one seat, and all
    of them would run before anybody else's.
    """

    def __init__(self, kind: str, limits: SeatLimits) -> None:
        self._kind = kind
        self._limits = limits
        self._taken: dict[str, int] = {}
        self._total = 0
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}  # the first has the next turn

    def seat(self, user: str) -> Seat:
        """Give a place to work, as long as `async with` lasts.

        TooManyRequests if none comes free.
        """
        return Seat(self, user)

    async def take(self, user: str) -> None:
        if self._queues or not self._has_room(user):
            await self._wait(user)
        else:
            self._take(user)

    def leave(self, user: str) -> None:
        asyncio.get_running_loop().call_soon(self._leave, user)

    async def _wait(self, user: str) -> None:
        queue = self._queues.setdefault(user, deque())
        if len(queue) >= self._limits.queued:
            raise self._refusal()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._give()  # others may wait for their own limit alone
        try:
            async with asyncio.timeout(self._limits.patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._leave(user)  # the turn came in the very moment
            else:
                self._withdraw(user, turn)
            if isinstance(error, TimeoutError):
                raise self._refusal() from error
            raise

    def _refusal(self) -> TooManyRequests:
        metrics.dropped.add(self._kind)
        return TooManyRequests(
            "too many requests, please try again later", details={"retryAfterSeconds": 1}
        )

    def _withdraw(self, user: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(user)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[user]

    def _has_room(self, user: str) -> bool:
        limits = self._limits
        return self._total < limits.seats and self._taken.get(user, 0) < limits.of_one

    def _take(self, user: str) -> None:
        self._total += 1
        self._taken[user] = self._taken.get(user, 0) + 1
        metrics.in_flight.set(self._total, self._kind)

    def _leave(self, user: str) -> None:
        self._total -= 1
        self._taken[user] -= 1
        if not self._taken[user]:
            del self._taken[user]
        metrics.in_flight.set(self._total, self._kind)
        self._give()

    def _give(self) -> None:
        """Give free seats to those who wait, one user after the other."""
        passed = 0
        while passed < len(self._queues) and self._total < self._limits.seats:
            user, queue = next(iter(self._queues.items()))
            del self._queues[user]
            if not self._has_room(user):
                self._queues[user] = queue
                passed += 1
                continue
            turn = queue.popleft()
            if queue:
                self._queues[user] = queue
            if not turn.done():
                self._take(user)
                turn.set_result(None)
                passed = 0


class FlowControl:
    """The seats of the whole server."""

    def __init__(
        self,
        writes: SeatLimits = WRITES,
        reads: SeatLimits = READS,
        large: SeatLimits = LARGE_BODIES,
        uploads: SeatLimits = UPLOADS,
    ) -> None:
        self._writes = Seats(MUTATING, writes)
        self._reads = Seats(READ_ONLY, reads)
        self.large = Seats(LARGE, large)
        self.uploads = Seats(UPLOAD, uploads)

    def of(self, method: str) -> Seats:
        return self._reads if method in ("GET", "HEAD", "OPTIONS") else self._writes
