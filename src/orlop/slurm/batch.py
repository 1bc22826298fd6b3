"""Lets many callers share one command: requests that come while it runs share the next one.

Used for squeue and scancel, so that a thousand pods deleted at once are a handful of commands. One
of the callers runs the command for all, and if that caller is cancelled another takes over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

K = TypeVar("K")
R = TypeVar("R")


class _Ticket(Generic[K, R]):
    __slots__ = ("error", "is_done", "key", "result")

    def __init__(self, key: K) -> None:
        self.key = key
        self.is_done = False
        self.result: R | None = None
        self.error: Exception | None = None


class Batch(Generic[K, R]):
    """`ask(key)` answers with what `run` returned for a list of keys that had this key in it.

    The run always starts after the question was asked: an answer is never older than its question.
    """

    def __init__(
        self, run: Callable[[list[K]], Awaitable[R]], *, most: int = 1000, pause: float = 0.0
    ) -> None:
        self._run = run
        self._most = most
        self._pause = pause
        self._lock = asyncio.Lock()
        self._waiting: list[_Ticket[K, R]] = []

    async def ask(self, key: K) -> R:
        ticket: _Ticket[K, R] = _Ticket(key)
        self._waiting.append(ticket)
        try:
            async with self._lock:
                while not ticket.is_done:
                    await self._lead()
        finally:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
        if ticket.error is not None:
            raise ticket.error
        return ticket.result  # type: ignore[return-value]  # None only where R allows it

    async def _lead(self) -> None:
        await asyncio.sleep(self._pause)
        batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        try:
            result = await self._run([ticket.key for ticket in batch])
        except Exception as error:
            for ticket in batch:
                ticket.is_done, ticket.error = True, error
        except BaseException:
            self._waiting[:0] = batch
            raise
        else:
            for ticket in batch:
                ticket.is_done, ticket.result = True, result


async def to_its_end(work: Callable[[], R]) -> R:
    """Run `work` in a thread, and wait for its end even if the caller is cancelled meanwhile."""
    task = asyncio.create_task(asyncio.to_thread(work), name="work that is not broken off")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
