"""The field manager: what becomes of metadata.managedFields, and of the object, with each write.

`update` is called after every write that is no apply, with the object before and after it; `apply`
makes the new object of the live one and a configuration. Both take what a write is from `Write`. As
managedfields/internal: structuredmerge.go, skipnonapplied.go, managedfieldsupdater.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...errors import BadRequest
from ..objects import Obj, meta
from . import configuration
from .compare import Changes, compare
from .conflicts import Conflicts
from .entries import APPLY, UPDATE, Entry, are_valid, capped, decode, encode
from .fieldset import FieldSet, difference, intersection, union
from .merge import merge
from .prune import pruned
from .write import View, Write

BEFORE_FIRST_APPLY = "before-first-apply"


def update(write: Write, old: Obj | None, new: Obj) -> None:
    """Set the managed fields of `new`, which is `old` changed, or made where there is no `old`."""
    metadata = new.setdefault("metadata", {})
    raw = _request_or_live(write, old, metadata.pop("managedFields", None))
    entries = decode(raw) or []
    if entries or old is None:
        before = len(entries)
        entries = _updated(write, old or {}, new, entries)
        if len(entries) > before:
            entries = capped(entries)
    _set(metadata, encode(entries))


def _request_or_live(write: Write, old: Obj | None, asked: Any) -> Any:
    """Return the entries to go on from: the stored ones, or those in the request.

    A client may rewrite or reset them, but not by accident.
    """
    live = meta(old).get("managedFields") if old is not None else None
    if asked == live or write.subresource:
        return live
    if asked == [{}]:
        return []
    return asked if asked and are_valid(asked) else live


def _set(metadata: Obj, entries: list[Obj]) -> None:
    if entries:
        metadata["managedFields"] = entries


def _updated(write: Write, old: Obj, new: Obj, entries: list[Entry]) -> list[Entry]:
    changes = _Versions(write, old, new)
    mine = write.entry(UPDATE, {}, "")
    kept = []
    for entry in entries:
        found = changes.at(entry.api_version)
        if found is None:
            continue
        fields = difference(entry.fields, found.removed)
        if entry.identity == mine.identity:
            mine = entry.with_fields(fields)
            continue
        fields = difference(fields, found.changed)
        kept.append(entry.with_fields(fields))
    changed = changes.own.changed
    if changed:
        fields = union(mine.fields, changed)
        mine = replace(mine, fields=fields, time=write.now, raw=None)
    return [*kept, mine]


class _Versions:
    """The changes of a write, in each version that some manager wrote."""

    def __init__(self, write: Write, old: Obj, new: Obj) -> None:
        self._write, self._old, self._new = write, old, new
        self.own = compare(old, new, write.shape)
        self._known: dict[str, Changes | None] = {write.api_version: self.own}

    def at(self, api_version: str) -> Changes | None:
        if api_version not in self._known:
            view = self._write.other(api_version)
            self._known[api_version] = self._compare(view) if view is not None else None
        return self._known[api_version]

    def _compare(self, view: View) -> Changes:
        old = view.convert(self._old) if self._old else {}
        return compare(old, view.convert(self._new), view.shape)


def apply(write: Write, live: Obj | None, config: Obj, *, force: bool = False) -> Obj:
    """Apply `config` to `live`, or make the object anew; Conflicts unless forced.

    1. The configuration fits the schema, and owns these fields. 2. Merged; what this manager
    applied last time and nobody claims now goes. 3. Others keep what did not change; what did is a
    conflict, or taken from them. 4. The time changes if the object did.
    """
    fields = _fields_of(write, config)  # 1
    before = live or {}
    entries = _existing(write, live)
    mine = write.entry(APPLY, fields, "")
    last = next((entry for entry in entries if entry.identity == mine.identity), None)
    others = [entry for entry in entries if entry is not last]
    bare = _without_entries(before)
    merged = merge(bare, config, write.shape)  # 2
    if last is not None:
        merged = pruned(write, merged, last, [*others, mine])
    kept = _taken(_Versions(write, bare, merged), others, force)  # 3
    if merged != bare:  # 4
        mine = replace(mine, time=write.now)
    elif last is not None:
        mine = replace(mine, time=last.time)
    metadata = dict(meta(merged))
    _set(metadata, encode([*kept, mine]))
    return {**merged, "metadata": metadata}


def _fields_of(write: Write, config: Obj) -> FieldSet:
    metadata = meta(config)
    if "managedFields" in metadata and metadata["managedFields"] is not None:
        raise BadRequest("metadata.managedFields must be nil")
    try:
        return configuration.fields_of(config, write.shape)
    except configuration.NotTyped as error:
        place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        group, _, version = config["apiVersion"].rpartition("/")
        kind = f"{group}/{version}, Kind={config['kind']}"
        raise BadRequest(
            f"failed to create typed patch object ({place}; {kind}): {error}"
        ) from error


def _existing(write: Write, live: Obj | None) -> list[Entry]:
    """Return the entries there are; fields of a time without any get a manager of their own."""
    entries = decode(meta(live).get("managedFields")) if live is not None else []
    if entries or live is None:
        return entries or []
    first = replace(write, manager=BEFORE_FIRST_APPLY)
    return _updated(first, {}, _without_entries(live), [])


def _without_entries(obj: Obj) -> Obj:
    if "managedFields" not in meta(obj):
        return obj
    metadata = {name: value for name, value in meta(obj).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _taken(changes: _Versions, others: list[Entry], force: bool) -> list[Entry]:
    """Return the other managers' entries, without what they lose."""
    kept, held = [], []
    for entry in others:
        found = changes.at(entry.api_version)
        if found is None:
            continue
        conflict = intersection(entry.fields, found.changed)
        if conflict:
            held.append((entry, conflict))
        fields = difference(difference(entry.fields, conflict), found.removed)
        kept.append(entry.with_fields(fields))
    if held and not force:
        raise Conflicts(held)
    return kept
