"""Objects under one revision counter: read from memory, written durably before anyone hears of it.

Called by the API server from its event loop. A write is checked against the newest state, queued
for the writer thread, and becomes visible (to readers, watchers and its own caller) only after the
commit; the loop does not wait for the disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern

from ..api.objects import Key, Obj
from ..errors import Error, Unavailable
from ..log import logger
from .bucket import Bucket
from .history import Limits
from .index import Terms
from .record import ADDED, DELETED, MODIFIED, Event, Record, record_of
from .sqlite import Compaction, Database
from .watch import Expired, Watch
from .writer import Copy, Write, Writer

log = logger(__name__)

_COMPACT_AT = 500  # forgotten revisions of a bucket that are worth a DELETE
_FIRST_REVISION = 1  # "0" means "any" to clients, so an empty store is at 1


class RevisionConflict(Error):
    """The object is not (or no more) what the writer thought; `current` is what is there."""

    def __init__(self, current: Record | None) -> None:
        super().__init__("the object has been modified")
        self.current = current


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A consistent list, and the revision it is of."""

    revision: int
    records: list[Record]


class Store:
    """Use `await Store.open(path)`; one process at a time holds a path."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits
        self._buckets: dict[str, Bucket] = {}
        self._pending: dict[tuple[str, Key], Event] = {}  # the newest uncommitted change of a key
        self._watches: dict[str, set[Watch]] = {}
        self._forgotten: dict[str, list[int]] = {}
        self._generation = 0
        self._revision = _FIRST_REVISION  # the newest one that readers see
        self._allotted = _FIRST_REVISION  # the newest one given to a write
        self._newest_write: asyncio.Future[None] | None = None
        self._writer: Writer | None = None
        self._has_failed = False

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        limits: Limits | None = None,
        options: str = "",
        fence: Callable[[], None] = lambda: None,
    ) -> Store:
        """Recover the state kept at `path`, or begin a new one; HomeInUse if another has it.

        `fence` is called before each commit, in the writer's thread, and raises an Error where
        the state is no longer ours to write.
        """
        database = await asyncio.to_thread(Database, path, options=options)
        store = cls(database, limits or Limits())
        await asyncio.to_thread(store._recover)
        store._writer = Writer(database, store._committed, fence)
        return store

    async def close(self) -> None:
        """End all watches, write what was accepted, let go of the file."""
        for watch in [watch for watches in self._watches.values() for watch in watches]:
            watch.close()
        if self._writer is not None:
            for bucket in list(self._forgotten):
                self._compact(bucket)
            await self._writer.close()
            self._writer = None
        self._database.close()

    def _recover(self) -> None:
        floors = self._database.floors()
        self._allotted = max([_FIRST_REVISION, *floors.values()])
        for name, floor in floors.items():
            self._bucket(name).history.floor = floor
        for row in self._database.rows():
            bucket = self._bucket(intern(row.bucket))
            key = Key(intern(row.namespace), row.name)
            record = Record(row.revision, key, row.data)
            self._allotted = max(self._allotted, row.revision)
            if row.revision <= bucket.history.floor:
                bucket.put(record)
                continue
            self._forget(row.bucket, bucket.apply(_event(record, bucket.get(key), row.deleted)))
        self._revision = self._allotted = max(self._allotted, self._revision)

    # Reading

    @property
    def revision(self) -> int:
        """Return the newest revision that is durable and visible."""
        return self._revision

    @property
    def path(self) -> Path:
        return self._database.path

    @property
    def is_writable(self) -> bool:
        """Return whether the last write reached the disk."""
        return self._writer is not None and not self._has_failed

    @property
    def journal(self) -> str:
        """Return `wal`, or `truncate` where the file system cannot carry that."""
        return self._database.journal

    def get(self, bucket: str, key: Key) -> Record | None:
        return self._bucket(bucket).get(key)

    def newest(self, bucket: str, key: Key) -> Record | None:
        """Return the object as the next write will find it: with changes not yet committed.

        For building a write upon: if the earlier change fails, so will the later one.
        """
        event = self._pending.get((bucket, key))
        if event is None:
            return self._bucket(bucket).get(key)
        return None if event.type == DELETED else event.record

    def list(self, bucket: str, namespace: str = "", *, at: int | None = None) -> Snapshot:
        """List all objects now, or as they were `at` a revision; Expired if it is not kept."""
        kept = self._bucket(bucket)
        if at is None or at >= self._revision:
            return Snapshot(self._revision, kept.records(namespace))
        if at < kept.history.floor:
            raise Expired(f"too old resource version: {at} ({kept.history.floor})")
        return Snapshot(at, kept.records_at(at, namespace))

    def find(
        self, bucket: str, terms: Sequence[str], terms_of: Terms, namespace: str = ""
    ) -> Snapshot:
        """List objects that may answer to `terms`, as they are now, by an index.

        `terms_of` tells what an object answers to; it must be the same one each time.
        """
        return Snapshot(self._revision, self._bucket(bucket).find(terms, terms_of, namespace))

    def list_newest(self, bucket: str) -> Sequence[Record]:
        """Return all objects as the next write will find them, in no order."""
        newest = {record.key: record for record in self._bucket(bucket).records()}
        for (name, key), event in self._pending.items():
            if name == bucket:
                newest[key] = event.record
                if event.type == DELETED:
                    del newest[key]
        return tuple(newest.values())

    def count(self, bucket: str) -> int:
        return len(self._bucket(bucket))

    def changed(self, bucket: str) -> int:
        """Return the revision of the newest change in a bucket, for caches built over it."""
        return self._bucket(bucket).changed

    def watch(
        self,
        bucket: str,
        namespace: str = "",
        *,
        after: int,
        concerns: Callable[[Event], bool] | None = None,
    ) -> Watch:
        """Watch every change after a revision; Expired if the history does not reach back so far.

        One that has read everything is not woken for what does not `concern` it, but may still
        be told of it with what does.
        """
        watches = self._watches.setdefault(bucket, set())
        watch = Watch(self._bucket(bucket).history, namespace, after, watches.discard, concerns)
        watches.add(watch)
        return watch

    def end_watches(self, bucket: str) -> None:
        """Let every watch of a bucket end: what it is read as has changed."""
        for watch in list(self._watches.get(bucket, ())):
            watch.close()

    # Writing

    async def create(self, bucket: str, key: Key, obj: Obj) -> Record:
        """Keep a new object; RevisionConflict if there is one of that key."""
        previous = self.newest(bucket, key)
        if previous is not None:
            await self.settled()
            raise RevisionConflict(previous)
        return await self._write(bucket, ADDED, key, obj, None)

    async def update(self, bucket: str, key: Key, obj: Obj, *, expected: int) -> Record:
        """Replace the object if it is still at revision `expected`, else RevisionConflict."""
        previous = await self._expect(bucket, key, expected)
        return await self._write(bucket, MODIFIED, key, obj, previous)

    async def delete(self, bucket: str, key: Key, obj: Obj, *, expected: int) -> Record:
        """Remove the object if it is still at `expected`; `obj` is its last state, for watchers."""
        previous = await self._expect(bucket, key, expected)
        return await self._write(bucket, DELETED, key, obj, previous)

    async def settled(self) -> None:
        """Return when everything accepted so far is durable.

        This is for answers that change nothing, but tell of what another write has changed.
        """
        if self._newest_write is not None and not self._newest_write.done():
            await asyncio.wait([self._newest_write])

    async def backup(self, path: Path) -> None:
        """Copy all that is durable, consistently, to `path`; writes wait for it, reads do not."""
        if self._writer is None:
            raise Unavailable("the store is closed: the control plane is shutting down")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writer.submit(Copy(path, done))
        try:
            await done
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"{self.path} cannot be copied to {path}: {error}") from error

    async def _expect(self, bucket: str, key: Key, expected: int) -> Record:
        previous = self.newest(bucket, key)
        if previous is None or previous.revision != expected:
            # Whoever hears of a conflict will read again, and must then see what it lost to.
            await self.settled()
            raise RevisionConflict(previous)
        return previous

    async def _write(
        self, bucket: str, change: str, key: Key, obj: Obj, previous: Record | None
    ) -> Record:
        if self._writer is None:
            raise Unavailable("the store is closed: the control plane is shutting down")
        self._allotted += 1
        event = Event(change, record_of(obj, key, self._allotted), previous)
        done = asyncio.get_running_loop().create_future()
        done.add_done_callback(_retrieve)
        self._pending[bucket, key] = event
        self._newest_write = done
        self._writer.submit(Write(bucket, event, self._generation, done))
        await asyncio.shield(done)
        return event.record

    # Called in the event loop by the writer

    def _committed(self, writes: Sequence[Write], error: sqlite3.Error | None) -> None:
        self._has_failed = error is not None
        if error is None:
            self._publish(writes)
        else:
            self._fail(writes, error)

    def _publish(self, writes: Sequence[Write]) -> None:
        news: dict[str, list[Event]] = {}
        for write in writes:
            event = write.event
            self._revision = event.revision
            self._forget(write.bucket, self._bucket(write.bucket).apply(event))
            if self._pending.get((write.bucket, event.record.key)) is event:
                del self._pending[write.bucket, event.record.key]
            news.setdefault(write.bucket, []).append(event)
            write.done.set_result(None)
        for bucket, events in news.items():
            for watch in self._watches.get(bucket, ()):
                watch.offer(events)

    def _fail(self, writes: Sequence[Write], error: sqlite3.Error) -> None:
        log.error("cannot write state", path=self._database.path, error=error)
        message = (
            f"{self._database.path} cannot be written: {error}; nothing was changed. "
            "Free space or quota there; what is kept can still be read"
        )
        if writes[0].generation == self._generation:  # the first to fail, not one built upon it
            self._generation += 1
            self._pending.clear()
        for write in writes:
            write.done.set_exception(Unavailable(message))

    def _bucket(self, name: str) -> Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = Bucket(self._limits)
        return bucket

    def _forget(self, bucket: str, revisions: Sequence[int]) -> None:
        if not revisions:
            return
        self._forgotten.setdefault(bucket, []).extend(revisions)
        if len(self._forgotten[bucket]) >= _COMPACT_AT:
            self._compact(bucket)

    def _compact(self, bucket: str) -> None:
        if self._writer is not None:
            floor = self._bucket(bucket).history.floor
            self._writer.submit(Compaction(bucket, floor, self._forgotten.pop(bucket)))


def _event(record: Record, previous: Record | None, is_deleted: bool) -> Event:
    change = DELETED if is_deleted else MODIFIED if previous else ADDED
    return Event(change, record, previous)


def _retrieve(done: asyncio.Future[None]) -> None:
    """Read the result, so that asyncio does not complain of a failure nobody asked for.

    A writer that was cancelled no longer asks: its failure is in the log already.
    """
    if not done.cancelled():
        done.exception()
