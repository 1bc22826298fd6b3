"""Keeps the recent changes of one bucket, in order, for those who watch it.

Watchers hold a place in it and no queue of their own, so that a slow one costs nothing: when the
history moves past its place it has to list again. The store appends; eviction tells which revisions
the database need not keep any more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from .record import DELETED, Event

_revision = attrgetter("revision")
_SLACK = 1024  # dead entries at the front before the list is cut


@dataclass(frozen=True, slots=True)
class Limits:
    """The amount of history a bucket keeps, in changes and in bytes of superseded objects."""

    events: int = 10_000
    size: int = 8 << 20


@dataclass(slots=True)
class History:
    """Changes after `floor`; places are counted from the first change ever appended."""

    limits: Limits
    floor: int = 0
    _events: list[Event] = field(default_factory=list)
    _start: int = 0  # index of the oldest kept change
    _dropped: int = 0  # changes cut off the front of the list
    _size: int = 0

    @property
    def end(self) -> int:
        """Return the place after the newest change."""
        return self._dropped + len(self._events)

    def append(self, event: Event) -> list[int]:
        """Add a change; return the revisions that nobody can ask for any more."""
        self._events.append(event)
        self._size += _superseded(event)
        superseded: list[int] = []
        while len(self._events) - self._start > self.limits.events or self._size > self.limits.size:
            superseded += self._evict()
        if self._start > _SLACK:
            del self._events[: self._start]
            self._dropped += self._start
            self._start = 0
        return superseded

    def _evict(self) -> list[int]:
        event = self._events[self._start]
        self._start += 1
        self._size -= _superseded(event)
        self.floor = event.revision
        gone = [event.previous.revision] if event.previous else []
        return [*gone, event.revision] if event.type == DELETED else gone

    def place_after(self, revision: int) -> int:
        """Return the place of the first change after `revision`, which is not below the floor."""
        index = bisect_right(self._events, revision, self._start, key=_revision)
        return self._dropped + index

    def has(self, place: int) -> bool:
        """Return whether all changes from `place` on are still kept."""
        return place >= self._dropped + self._start

    def since(self, place: int) -> list[Event]:
        return self._events[place - self._dropped :]

    def newest_first(self, after: int) -> Iterator[Event]:
        """Yield the changes newer than `after`, backwards."""
        for index in range(len(self._events) - 1, self._start - 1, -1):
            event = self._events[index]
            if event.revision <= after:
                return
            yield event


def _superseded(event: Event) -> int:
    """Return the bytes that are kept just for the history."""
    size = len(event.previous.data) if event.previous else 0
    return size + len(event.record.data) if event.type == DELETED else size
