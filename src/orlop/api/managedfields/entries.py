"""The entries of metadata.managedFields: one for each manager and way of writing.

Called by `manager` on the way in and out. An entry that did not change is written back as it was
read. As apimachinery/pkg/util/managedfields/internal/managedfields.go and capmanagers.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..objects import Obj
from ..times import parse
from .fieldset import FieldSet, is_valid, union

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATERS = 10  # more are merged into one of an old name, so that objects stay small
ANCIENT = "ancient-changes"


class Identity(NamedTuple):
    """The key by which two writes are those of one manager; appliers may change their version."""

    manager: str
    operation: str
    api_version: str
    subresource: str


@dataclass(frozen=True, slots=True)
class Entry:
    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: FieldSet
    raw: Obj | None = None  # what it was read from

    @property
    def identity(self) -> Identity:
        version = "" if self.operation == APPLY else self.api_version
        return Identity(self.manager, self.operation, version, self.subresource)

    def with_fields(self, fields: FieldSet) -> Entry:
        return self if fields is self.fields else replace(self, fields=fields, raw=None)


def decode(raw: Any) -> list[Entry] | None:
    """Read the entries of an object; None where they are not such entries."""
    if raw is None:
        return []
    if not isinstance(raw, list):
        return None
    entries = [_entry(one) for one in raw]
    known = [entry for entry in entries if entry is not None]
    return known if len(known) == len(entries) else None


def _entry(raw: Any) -> Entry | None:
    if not isinstance(raw, dict) or raw.get("operation") not in (APPLY, UPDATE):
        return None
    if raw.get("fieldsType") != "FieldsV1":
        return None
    fields = raw.get("fieldsV1")
    return Entry(
        manager=str(raw.get("manager") or ""),
        operation=raw["operation"],
        api_version=str(raw.get("apiVersion") or ""),
        subresource=str(raw.get("subresource") or ""),
        time=str(raw.get("time") or ""),
        fields=fields if isinstance(fields, dict) else {},
        raw=raw,
    )


def are_valid(raw: Any) -> bool:
    """Return whether entries that a client wrote may take the place of ours."""
    entries = decode(raw)
    return entries is not None and all(is_valid(entry.fields) for entry in entries)


def encode(entries: Iterable[Entry]) -> list[Obj]:
    """Write the entries in upstream's order: appliers first, then by time."""
    kept = [entry for entry in entries if entry.fields]
    if len(kept) > 1:
        kept.sort(key=_order)
    return [entry.raw if entry.raw is not None else _written(entry) for entry in kept]


def _order(entry: Entry) -> tuple[str, str, str, str, str]:
    return entry.operation, entry.time, entry.manager, entry.api_version, entry.subresource


def _written(entry: Entry) -> Obj:
    written = {
        "manager": entry.manager,
        "operation": entry.operation,
        "apiVersion": entry.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": entry.fields,
        "subresource": entry.subresource,
    }
    if not entry.time:
        del written["time"]
    if not entry.subresource:
        del written["subresource"]
    return written


def capped(entries: list[Entry]) -> list[Entry]:
    """Keep at most ten updaters: the oldest become one entry for each version."""
    updaters = [entry for entry in entries if entry.operation == UPDATE]
    too_many = len(updaters) - MAX_UPDATERS
    if too_many <= 0:
        return entries
    updaters.sort(key=lambda entry: (_seconds(entry), entry.identity))
    merged: dict[str, Entry] = {}
    first: dict[str, Entry] = {}
    gone: list[Entry] = []
    for entry in updaters:
        if too_many <= 0:
            break
        version = entry.api_version
        if version not in first:
            first[version] = entry
            continue
        former = merged.get(version, first[version])
        fields = union(entry.fields, former.fields)
        merged[version] = Entry(ANCIENT, UPDATE, version, "", entry.time, fields)
        gone += [entry, first[version]]
        too_many -= 1
    kept = [entry for entry in entries if not any(entry is one for one in gone)]
    return [*kept, *merged.values()]


def _seconds(entry: Entry) -> float:
    try:
        return parse(entry.time) if entry.time else 0.0
    except ValueError:
        return 0.0


def without_times(raw: Any) -> list[Obj]:
    """Return the entries in an order that does not depend on when they were written."""
    bare = [{name: value for name, value in one.items() if name != "time"} for one in raw or ()]
    return sorted(bare, key=lambda one: [str(one.get(name, "")) for name in _NAMES])


_NAMES = ("operation", "manager", "apiVersion", "subresource")
