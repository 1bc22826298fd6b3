"""Objects, lists and events as bytes, in the form a client asked for.

Called by the dispatcher for every answer. Plain JSON is the stored bytes themselves, joined; only
Tables, bare metadata and YAML cost a parse.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from ..api.kinds import Kind
from ..api.objects import Obj
from ..store import Record
from . import interim as tables
from .conversion import decode, is_view
from .negotiation import Form
from .verbs.list import Page
from .verbs.watch import BOOKMARK, Seen

encode = msgspec.json.Encoder().encode
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


def value(form: Form, obj: Any) -> bytes:
    """Any data, as JSON or YAML."""
    if form.is_yaml:
        text: str = yaml.dump(obj, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
        return text.encode()
    return encode(obj) + b"\n"


class Renderer:
    """How one kind looks to one request."""

    def __init__(self, kind: Kind, form: Form, *, now: float, include: str = "Metadata") -> None:
        self.kind = kind
        self.form = form
        self._is_view = is_view(kind)
        self._now = now
        self._include = include or "Metadata"

    def one(self, record: Record) -> bytes:
        if self.form.shape == "object" and not self.form.is_yaml:
            return self._bytes(record)
        obj = decode(self.kind, record)
        if self.form.shape == "table":
            return value(self.form, self._table([obj], {"resourceVersion": _revision(obj)}))
        if self.form.shape == "partial":
            return value(self.form, self._partial(obj))
        return value(self.form, obj)

    def page(self, page: Page) -> bytes:
        metadata: Obj = {"resourceVersion": str(page.revision)}
        if page.token:
            metadata["continue"] = page.token
            if page.remaining is not None:
                metadata["remainingItemCount"] = page.remaining
        if self.form.shape == "table":
            objects = [decode(self.kind, record) for record in page.records]
            return value(self.form, self._table(objects, metadata))
        if self.form.shape == "partial":
            return value(self.form, self._partial_list(page, metadata))
        joined = self._joined(page, metadata)
        return value(self.form, msgspec.json.decode(joined)) if self.form.is_yaml else joined

    def _joined(self, page: Page, metadata: Obj) -> bytes:
        head = {"kind": self.kind.list_kind, "apiVersion": self.kind.api_version}
        opening = encode({**head, "metadata": metadata})[:-1]
        if self._is_view:
            items = [self._bytes(record) for record in page.records]
        else:
            items = [record.data for record in page.records]
        return b"".join((opening, b',"items":[', b",".join(items), b"]}\n"))

    def _bytes(self, record: Record) -> bytes:
        return encode(decode(self.kind, record)) if self._is_view else record.data

    def event(self, seen: Seen, *, is_first: bool) -> bytes:
        """One line of a watch; a Table names its columns in the first one only."""
        return b'{"type":"%b","object":%b}\n' % (seen.type.encode(), self._event(seen, is_first))

    def _event(self, seen: Seen, is_first: bool) -> bytes:
        if seen.type == BOOKMARK or seen.record is None:
            return encode(self._bookmark(seen))
        if self.form.shape == "object":
            return self._bytes(seen.record)
        obj = decode(self.kind, seen.record)
        if self.form.shape == "partial":
            return encode(self._partial(obj))
        table = self._table([obj], {"resourceVersion": _revision(obj)})
        if not is_first:
            table["columnDefinitions"] = None
        return encode(table)

    def _bookmark(self, seen: Seen) -> Obj:
        metadata: Obj = {"resourceVersion": str(seen.revision), "creationTimestamp": None}
        if seen.ends_initial_events:
            metadata["annotations"] = INITIAL_EVENTS_END
        if self.form.shape == "object":
            kind = self.kind
            return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        partial = {**self._meta_type("PartialObjectMetadata"), "metadata": metadata}
        if self.form.shape == "partial":
            return partial
        return {
            **self._meta_type("Table"),
            "metadata": {"resourceVersion": str(seen.revision)},
            "columnDefinitions": None,
            "rows": [{"cells": [], "object": partial}],
        }

    def _table(self, objects: list[Obj], metadata: Obj) -> Obj:
        table = tables.table(self.kind, objects, self._now, self._include)
        return {**table, **self._meta_type("Table"), "metadata": metadata}

    def _partial(self, obj: Obj) -> Obj:
        return {**self._meta_type("PartialObjectMetadata"), "metadata": obj["metadata"]}

    def _partial_list(self, page: Page, metadata: Obj) -> Obj:
        items = [self._partial(decode(self.kind, record)) for record in page.records]
        listed = self._meta_type("PartialObjectMetadataList")
        return {**listed, "metadata": metadata, "items": items}

    def _meta_type(self, kind: str) -> Obj:
        return {"kind": kind, "apiVersion": f"meta.k8s.io/{self.form.version}"}


def _revision(obj: Obj) -> str:
    return str(obj["metadata"].get("resourceVersion", ""))
