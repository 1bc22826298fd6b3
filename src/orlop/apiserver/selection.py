"""Which objects a list, watch or deletecollection is about: label and field selectors together.

Made once per request. An object is parsed only where a selector needs more than its name, and then
no further than its labels if they suffice.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..api.fields import parse_fields
from ..api.kinds import Kind
from ..api.selectors import EVERYTHING, FieldSelector, LabelSelector, parse_labels
from ..store import Record


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_labelled = msgspec.json.Decoder(_Labelled)


NO_FIELDS = FieldSelector()


@dataclass(frozen=True, slots=True)
class Selection:
    labels: LabelSelector = EVERYTHING
    fields: FieldSelector = NO_FIELDS

    @property
    def is_everything(self) -> bool:
        return self.labels.is_empty and self.fields.is_empty

    @property
    def name(self) -> str | None:
        """The one name that can match, if the fields demand one."""
        return self.fields.exact("metadata.name")

    def matches(self, record: Record) -> bool:
        name = self.name
        if name is not None and record.key.name != name:
            return False
        if not self.labels.is_empty:
            labels = _labelled.decode(record.data).metadata.labels or {}
            if not self.labels.matches(labels):
                return False
        if self.fields.is_empty or (name is not None and len(self.fields.terms) == 1):
            return True
        return self.fields.matches(record.decode())


def select(kind: Kind, labels: str = "", fields: str = "") -> Selection:
    """BadRequest for what cannot be read or is not selectable."""
    if not labels and not fields:
        return ALL
    return Selection(parse_labels(labels), parse_fields(kind, fields))


ALL = Selection()
