"""Defines a kept object, and a change of one.

The bytes are the truth: a list of 10,000 pods is a join of them, and they are parsed by those who
need a field. Records and events are shared by all readers and do not change.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..api.objects import Key, Obj

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One revision of one object, as JSON that carries its own resourceVersion."""

    revision: int
    key: Key
    data: bytes

    def decode(self) -> Obj:
        """Decode a fresh copy, which belongs to the caller."""
        obj: Obj = _decoder.decode(self.data)
        return obj


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A change; a deletion carries the last state under the deletion's own revision."""

    type: str
    record: Record
    previous: Record | None

    @property
    def revision(self) -> int:
        return self.record.revision


def unsaved(obj: Obj, key: Key) -> Record:
    """Return `obj` as a dry run shows it: under the revision it names, or none."""
    return Record(0, key, _encoder.encode(obj))


def record_of(obj: Obj, key: Key, revision: int) -> Record:
    """Return `obj` as it is kept under that revision."""
    stamped = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
    return Record(revision, key, _encoder.encode(stamped))
