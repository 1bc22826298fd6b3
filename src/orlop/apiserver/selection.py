"""Which objects a list, watch or deletecollection is about: label and field selectors together.

Made once per request. Of an object only what selectors can name is parsed, which costs a fifth of
the whole; a selection by name alone parses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypedDict

import msgspec

from ..api.fields import parse_fields, selectable
from ..api.kinds import Kind
from ..api.objects import Key, Obj
from ..api.selectors import EVERYTHING, FieldSelector, LabelSelector, parse_labels
from ..store import Record
from .conversion import decode, stored_kind

NO_FIELDS = FieldSelector()
# What the getters of some fields read beside the field of that name.
_ALSO = ("status.succeeded", "source", "reportingComponent", "involvedObject")

Narrow = Callable[[bytes], Obj]


@dataclass(frozen=True, slots=True)
class Selection:
    labels: LabelSelector = EVERYTHING
    fields: FieldSelector = NO_FIELDS
    narrow: Narrow = msgspec.json.decode

    @property
    def is_everything(self) -> bool:
        return self.labels.is_empty and self.fields.is_empty

    @property
    def name(self) -> str | None:
        """The one name that can match, if the fields demand one."""
        return self.fields.exact("metadata.name")

    def matches(self, record: Record) -> bool:
        name = self.name
        if name is not None:
            if record.key.name != name:
                return False
            if len(self.fields.terms) == 1 and self.labels.is_empty:
                return True
        if self.is_everything:
            return True
        obj = self.narrow(record.data)
        labels = obj["metadata"].get("labels") or {}
        return self.labels.matches(labels) and self.fields.matches(obj)


def select(kind: Kind, labels: str = "", fields: str = "") -> Selection:
    """BadRequest for what cannot be read or is not selectable."""
    if not labels and not fields:
        return ALL
    narrow = _whole(kind) if kind.custom is not None else _narrow(stored_kind(kind))
    return Selection(parse_labels(labels), parse_fields(kind, fields), narrow)


def _whole(kind: Kind) -> Narrow:
    """Custom resources are selected by what clients of their version see."""
    return lambda data: decode(kind, Record(0, Key("", ""), data))


@lru_cache(maxsize=256)
def _narrow(kind: Kind) -> Narrow:
    """A parser of nothing but labels and the fields that can be selected."""
    below: dict[str, dict[str, Any]] = {"metadata": {"labels": Any}}
    whole: dict[str, Any] = {}
    for path in (*selectable(kind), *_ALSO):
        outer, _, inner = path.partition(".")
        if outer in ("metadata", "spec", "status"):
            below.setdefault(outer, {})[inner] = Any
        else:
            whole[outer] = Any
    nested = {outer: _typed(outer, inner) for outer, inner in below.items()}
    narrow: Narrow = msgspec.json.Decoder(_typed("Selectable", {**whole, **nested})).decode
    return narrow


def _typed(name: str, fields: dict[str, Any]) -> Any:
    """A TypedDict: msgspec skips, without parsing, what it does not name."""
    return TypedDict(name, fields, total=False)  # type: ignore[operator]


ALL = Selection()
