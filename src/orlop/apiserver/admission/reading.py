"""The objects that admission plugins look up, decoded once for each revision.

Made by each plugin that needs one kind of object for many requests. Objects that come out are
shared and must not be changed; nothing here waits for the disk.
"""

from __future__ import annotations

from ...api.kinds import Kind
from ...api.objects import Key, Obj
from ...store import Record, Store


class Objects:
    """All of one kind as readers see them."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self._bucket = kind.resource
        self._decoded: dict[Key, tuple[int, Obj]] = {}
        self._listed: tuple[int, list[Obj]] = (-1, [])

    def get(self, key: Key) -> Obj | None:
        record = self._store.newest(self._bucket, key)
        return None if record is None else self._read(record)

    def in_namespace(self, namespace: str) -> list[Obj]:
        if not self._store.count(self._bucket):  # as in most clusters, for most kinds
            return []
        return [self._read(record) for record in self._store.list(self._bucket, namespace).records]

    def all(self) -> list[Obj]:
        changed = self._store.changed(self._bucket)
        if self._listed[0] != changed:
            records = self._store.list(self._bucket).records
            self._listed = (changed, [record.decode() for record in records])
        return self._listed[1]

    def _read(self, record: Record) -> Obj:
        known = self._decoded.get(record.key)
        if known is not None and known[0] == record.revision:
            return known[1]
        if len(self._decoded) > 2 * self._store.count(self._bucket) + 16:
            self._decoded.clear()  # of what is gone
        obj = record.decode()
        self._decoded[record.key] = (record.revision, obj)
        return obj
