"""Selects the objects of a list, watch or deletecollection: label and field selectors together.

Made once per request. Of an object only what selectors can name is parsed, which costs a fifth of
the whole, and once for all who watch; a selection by nothing but a name parses nothing. Labels and
the fields that matter at scale have an index, so that a list need not look at every object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypedDict

import msgspec

from ...api.fields import parse_fields, selectable
from ...api.kinds import Kind
from ...api.objects import Key, Obj
from ...api.selectors import EVERYTHING, FieldSelector, LabelSelector, parse_labels
from ...store import Event, Record, Snapshot, Store
from ...store.index import Terms
from .conversion import decode, stored_kind

NO_FIELDS = FieldSelector()
# What the getters of some fields read beside the field of that name.
_ALSO = ("status.succeeded", "source", "reportingComponent", "involvedObject")

# Fields by which few of many are selected: the pods of a node, the events of an object.
INDEXED = ("spec.nodeName", "involvedObject.name", "involvedObject.uid")
_KEPT = 256  # records whose selectable part is kept parsed, for all who watch them

Narrow = Callable[[Record], Obj]


@dataclass(frozen=True, slots=True)
class Selection:
    labels: LabelSelector = EVERYTHING
    fields: FieldSelector = NO_FIELDS
    narrow: Narrow = Record.decode
    terms_of: Terms | None = None

    @property
    def is_everything(self) -> bool:
        return self.labels.is_empty and self.fields.is_empty

    @property
    def name(self) -> str | None:
        """Return the one name that can match, if the fields demand one."""
        return self.fields.exact("metadata.name")

    @property
    def terms(self) -> list[str]:
        """Return the terms that an object must have in the index; none where that does not help."""
        if self.terms_of is None:
            return []
        found = [
            f"{one.key}={next(iter(one.values))}"
            for one in self.labels.requirements
            if one.operator == "in" and len(one.values) == 1
        ]
        exact = ((name, self.fields.exact(name)) for name in INDEXED)
        return found + [f".{name}={value}" for name, value in exact if value is not None]

    def find(self, store: Store, bucket: str, namespace: str) -> Snapshot:
        """Find what is there now, without most of what cannot match."""
        name, terms = self.name, self.terms
        if name is not None and namespace:
            record = store.get(bucket, Key(namespace, name))
            return Snapshot(store.revision, [record] if record is not None else [])
        if terms and self.terms_of is not None:
            return store.find(bucket, terms, self.terms_of, namespace)
        return store.list(bucket, namespace)

    def concerns(self, event: Event) -> bool:
        """Return whether an event can be of interest to a client that sees what matches."""
        if self.matches(event.record):
            return True
        return event.previous is not None and self.matches(event.previous)

    def matches(self, record: Record) -> bool:
        name = self.name
        if name is not None:
            if record.key.name != name:
                return False
            if len(self.fields.terms) == 1 and self.labels.is_empty:
                return True
        if self.is_everything:
            return True
        obj = self.narrow(record)
        labels = obj["metadata"].get("labels") or {}
        return self.labels.matches(labels) and self.fields.matches(obj)


def select(kind: Kind, labels: str = "", fields: str = "") -> Selection:
    """Make the selection of a call; BadRequest for what cannot be read or is not selectable."""
    if not labels and not fields:
        return ALL
    wanted = parse_labels(labels), parse_fields(kind, fields)
    if kind.custom is not None:
        return Selection(*wanted, _whole(kind))
    return Selection(*wanted, _narrow(stored_kind(kind)), _terms(stored_kind(kind)))


def _whole(kind: Kind) -> Narrow:
    """Select custom resources by what clients of their version see."""
    return lambda record: decode(kind, record)


@lru_cache(maxsize=256)
def _terms(kind: Kind) -> Terms:
    """Return the terms that an object answers to in the index."""
    parse = _parser(kind)
    names = [name for name in INDEXED if name in selectable(kind)]
    fields = parse_fields(kind, ",".join(f"{name}=" for name in names)).terms

    def terms_of(record: Record) -> Iterator[str]:
        obj = parse(record.data)
        for key, value in (obj["metadata"].get("labels") or {}).items():
            yield f"{key}={value}"
        for field in fields:
            yield f".{field.name}={field.get(obj)}"

    return terms_of


@lru_cache(maxsize=256)
def _narrow(kind: Kind) -> Narrow:
    parse = _parser(kind)
    return lru_cache(maxsize=_KEPT)(lambda record: parse(record.data))


@lru_cache(maxsize=256)
def _parser(kind: Kind) -> Callable[[bytes], Obj]:
    """Make a parser that reads labels and the fields that can be selected, and skips the rest."""
    below: dict[str, dict[str, Any]] = {"metadata": {"labels": Any}}
    whole: dict[str, Any] = {}
    for path in (*selectable(kind), *_ALSO):
        outer, _, inner = path.partition(".")
        if outer in ("metadata", "spec", "status"):
            below.setdefault(outer, {})[inner] = Any
        else:
            whole[outer] = Any
    nested = {outer: _typed(outer, inner) for outer, inner in below.items()}
    parse: Callable[[bytes], Obj] = msgspec.json.Decoder(
        _typed("Selectable", {**whole, **nested})
    ).decode
    return parse


def _typed(name: str, fields: dict[str, Any]) -> Any:
    """Make a TypedDict: msgspec skips, without parsing, what it does not name."""
    return TypedDict(name, fields, total=False)  # type: ignore[operator]


ALL = Selection()
