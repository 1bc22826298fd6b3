"""Keeps the live objects of one resource in key order, with their history.

Owned by the store, which applies committed changes to it. Reading does not wait, and copies no
object.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from ..api.objects import Key
from .history import History, Limits
from .index import Index, Terms
from .record import DELETED, Event, Record


class Bucket:
    """The objects there are now, and what they were at any kept revision."""

    __slots__ = ("_index", "_keys", "_live", "changed", "history")

    def __init__(self, limits: Limits) -> None:
        self._live: dict[Key, Record] = {}
        self._keys: list[Key] | None = None  # in order; None: to be sorted when first read
        self._index: Index | None = None  # made when first asked for
        self.history = History(limits)
        self.changed = 0  # revision of the newest change, for caches built over this bucket

    def __len__(self) -> int:
        return len(self._live)

    def get(self, key: Key) -> Record | None:
        return self._live.get(key)

    def put(self, record: Record) -> None:
        """Set an object without history, as recovery does for what lies below the floor."""
        if self._keys is not None and record.key not in self._live:
            insort(self._keys, record.key)
        self._live[record.key] = record
        if self._index is not None:
            self._index.put(record)
        self.changed = record.revision

    def apply(self, event: Event) -> list[int]:
        """Make a committed change visible; return the revisions the database may forget."""
        if event.type == DELETED:
            self._remove(event.record.key)
            self.changed = event.revision
        else:
            self.put(event.record)
        return self.history.append(event)

    def _remove(self, key: Key) -> None:
        if self._index is not None:
            self._index.remove(key)
        if self._live.pop(key, None) is not None and self._keys is not None:
            del self._keys[bisect_left(self._keys, key)]

    def records(self, namespace: str = "") -> list[Record]:
        """Return all objects, or those of one namespace, by namespace and name."""
        live = self._live
        if self._keys is None:
            self._keys = sorted(live)
        if not namespace:
            return [live[key] for key in self._keys]
        first = bisect_left(self._keys, (namespace, ""))
        last = bisect_left(self._keys, (namespace + "\0", ""), first)
        return [live[key] for key in self._keys[first:last]]

    def find(self, terms: Sequence[str], terms_of: Terms, namespace: str = "") -> list[Record]:
        """Find all objects that may answer to these terms, and few others, in order of keys."""
        if self._index is None or self._index.terms_of is not terms_of:
            self._index = Index(terms_of, self._live.values())
        live = self._live
        keys = self._index.keys(terms)
        if namespace:
            keys = [key for key in keys if key.namespace == namespace]
        return [live[key] for key in sorted(keys)]

    def records_at(self, revision: int, namespace: str = "") -> list[Record]:
        """Return the same as of an earlier revision, found by undoing what came after it."""
        undone: dict[Key, Record | None] = {}
        for event in self.history.newest_first(revision):
            if not namespace or event.record.key.namespace == namespace:
                undone[event.record.key] = event.previous
        if not undone:
            return self.records(namespace)
        kept = [record for record in self.records(namespace) if record.key not in undone]
        kept += [record for record in undone.values() if record is not None]
        return sorted(kept, key=lambda record: record.key)
