"""watch: what happens to a selection of objects, from a revision on.

Called for GET with `watch`, and by the in-process client. With a selector the type of an event
follows from whether the object matched before and matches now. It has no queue: a reader who is too
slow gets Gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import NamedTuple, Self

from ...api.kinds import Kind
from ...store import Event, Expired, Record, Watch
from ...store.record import ADDED, DELETED, MODIFIED, record_of
from ..objects.conversion import bucket_of, ready
from ..objects.selection import ALL, Selection
from ..registry import Call, Registry
from ..request.failures import expired, too_large
from .get import parse_revision

BOOKMARK = "BOOKMARK"
BOOKMARK_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class WatchOptions:
    selection: Selection = ALL
    resource_version: str = ""
    bookmarks: bool = False
    initial_events: bool | None = None  # sendInitialEvents
    timeout: float | None = None


class Seen(NamedTuple):
    """One event for one watcher; a bookmark has no record, only the revision."""

    type: str
    revision: int
    record: Record | None = None
    ends_initial_events: bool = False


async def watch(
    registry: Registry, call: Call, options: WatchOptions
) -> AsyncGenerator[list[Seen], None]:
    """Yield batches of events, until the time is over or the server stops.

    1. What is there now, where the client has no revision or asks for it (WatchList).
    2. Every change after that, and now and then a bookmark where nothing else tells the revision.
    """
    begun, initial = await _begin(registry, call, options)
    registry.watches.add(begun)
    try:
        if initial is not None:  # 1
            yield initial
        async for seen in _follow(registry, call.kind, begun, options):  # 2
            yield seen
    finally:
        registry.watches.discard(begun)
        begun.close()


async def _begin(
    registry: Registry, call: Call, options: WatchOptions
) -> tuple[Watch, list[Seen] | None]:
    store, bucket = registry.store, bucket_of(call.kind)
    after = parse_revision(options.resource_version)
    if after > store.revision:  # of another life of this cluster: the client must list again
        raise too_large(after, store.revision)
    wants_initial = options.initial_events
    if wants_initial is None:
        wants_initial = after == 0
    try:
        selection = options.selection
        is_choosy = call.kind.custom is None and not selection.is_everything
        concerns = selection.concerns if is_choosy else None
        if not wants_initial:
            after = after or store.revision
            return store.watch(bucket, call.namespace, after=after, concerns=concerns), None
        snapshot = selection.find(store, bucket, call.namespace)
        after = snapshot.revision
        begun = store.watch(bucket, call.namespace, after=after, concerns=concerns)
    except Expired as too_old:
        raise expired(str(too_old)) from too_old
    await ready(call.kind, snapshot.records)
    chosen = [record for record in snapshot.records if options.selection.matches(record)]
    initial = [Seen(ADDED, record.revision, record) for record in chosen]
    if options.initial_events and options.bookmarks:
        initial.append(Seen(BOOKMARK, snapshot.revision, ends_initial_events=True))
    return begun, initial


async def _follow(
    registry: Registry, kind: Kind, begun: Watch, options: WatchOptions
) -> AsyncGenerator[list[Seen], None]:
    with _Alarm(begun, options) as alarm:
        while not begun.is_closed:
            events = _pending(begun)
            if events:
                if kind.custom is not None:
                    await ready(kind, (record for event in events for record in _states(event)))
                seen = _visible(events, options.selection)
                if seen:
                    yield seen
            elif alarm.is_over():
                return
            elif alarm.is_due():
                yield [Seen(BOOKMARK, registry.store.revision)]
            else:
                await begun.wait()


class _Alarm:
    """Wakes a watch for its bookmarks and for its end.

    One timer for all of its life: one for each event would cost more than the event.
    """

    def __init__(self, begun: Watch, options: WatchOptions) -> None:
        self._begun = begun
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._every = BOOKMARK_EVERY if options.bookmarks else float("inf")
        self._due = now + self._every
        self._end = now + options.timeout if options.timeout is not None else float("inf")
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._set()
        return self

    def _set(self) -> None:
        when = min(self._due, self._end)
        if when < float("inf"):
            self._timer = self._loop.call_at(when, self._begun.wake)

    def is_over(self) -> bool:
        return self._loop.time() >= self._end

    def is_due(self) -> bool:
        """Return whether it is time for a bookmark; asked again, it is time for the next."""
        if self._loop.time() < self._due:
            return False
        self._due = self._loop.time() + self._every
        self._set()
        return True

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _pending(begun: Watch) -> list[Event]:
    try:
        return begun.pending()
    except Expired as too_slow:
        raise expired(str(too_slow)) from too_slow


def _states(event: Event) -> list[Record]:
    """Return every record of an event that may have to be read."""
    previous = event.previous
    return [event.record, *([previous, _last_seen(event)] if previous is not None else [])]


def _visible(events: list[Event], selection: Selection) -> list[Seen]:
    if selection.is_everything:
        return [Seen(event.type, event.revision, event.record) for event in events]
    return [seen for event in events if (seen := _through(event, selection)) is not None]


def _through(event: Event, selection: Selection) -> Seen | None:
    """Return the event as it looks to a client that sees what matches."""
    before = event.previous is not None and selection.matches(event.previous)
    now = event.type != DELETED and selection.matches(event.record)
    if now:
        return Seen(MODIFIED if before else ADDED, event.revision, event.record)
    return Seen(DELETED, event.revision, _last_seen(event)) if before else None


def _last_seen(event: Event) -> Record:
    """Return an object that no longer matches as it last looked, at the revision of its leaving."""
    if event.type == DELETED or event.previous is None:
        return event.record
    return record_of(event.previous.decode(), event.record.key, event.revision)
