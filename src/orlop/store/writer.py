"""Runs the thread that writes: it commits what has gathered while it last waited for the disk.

The store hands it writes in revision order and hears of them, in the same order, once they are
durable. What readers see is the store's business.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from ..errors import Error
from .record import DELETED, Event
from .sqlite import Compaction, Database, Row

_LARGEST_BATCH = 512


@dataclass(frozen=True, slots=True)
class Write:
    """A change on its way to the disk; `generation` counts the failures before it was made."""

    bucket: str
    event: Event
    generation: int
    done: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the database as it is after all that was submitted before."""

    path: Path
    done: asyncio.Future[None]


Outcome = Callable[[Sequence[Write], "sqlite3.Error | None"], None]
_Work = Write | Compaction | Copy
_Item = _Work | None


class Writer:
    """Group commit; `outcome` is called in the event loop for each batch."""

    def __init__(
        self, database: Database, outcome: Outcome, fence: Callable[[], None] = lambda: None
    ) -> None:
        self._database = database
        self._fence = fence
        self._outcome = outcome
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._failed_generation = -1
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, item: _Work) -> None:
        self._queue.put(item)

    async def close(self) -> None:
        """Write what was submitted, then end."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._gather()
            writes = [item for item in batch if isinstance(item, Write)]
            compactions = [item for item in batch if isinstance(item, Compaction)]
            self._commit(writes, compactions)
            for item in batch:
                if isinstance(item, Copy):
                    self._copy(item)

    def _gather(self) -> tuple[list[_Work], bool]:
        """Take at least one item, and all others that are there already."""
        batch: list[_Work] = []
        item = self._queue.get()
        while item is not None:
            batch.append(item)
            if len(batch) >= _LARGEST_BATCH:
                return batch, False
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _commit(self, writes: list[Write], compactions: list[Compaction]) -> None:
        # What was built upon a write that failed must fail with it.
        stale = [write for write in writes if write.generation <= self._failed_generation]
        fresh = [write for write in writes if write.generation > self._failed_generation]
        if stale:
            self._report(stale, sqlite3.OperationalError("an earlier write failed"))
        if not fresh and not compactions:
            return
        try:
            self._check_fence()
            self._database.commit([_row(write) for write in fresh], compactions)
        except sqlite3.Error as error:
            generations = [write.generation for write in fresh]
            self._failed_generation = max([self._failed_generation, *generations])
            self._report(fresh, error)
        else:
            self._report(fresh, None)

    def _check_fence(self) -> None:
        try:
            self._fence()
        except (Error, OSError) as error:
            raise sqlite3.OperationalError(str(error)) from error

    def _copy(self, copy: Copy) -> None:
        try:
            self._database.copy_to(copy.path)
        except (sqlite3.Error, OSError, Error) as error:
            self._loop.call_soon_threadsafe(_fail, copy.done, error)
        else:
            self._loop.call_soon_threadsafe(_succeed, copy.done)

    def _report(self, writes: list[Write], error: sqlite3.Error | None) -> None:
        if writes:
            self._loop.call_soon_threadsafe(self._outcome, writes, error)


def _succeed(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _fail(done: asyncio.Future[None], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _row(write: Write) -> Row:
    record = write.event.record
    namespace, name = record.key
    is_deleted = write.event.type == DELETED
    return Row(record.revision, write.bucket, namespace, name, is_deleted, record.data)
