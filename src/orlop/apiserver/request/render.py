"""Objects, lists and events as bytes, in the form a client asked for.

Called by the dispatcher for every answer. Plain JSON is the stored bytes themselves, joined; bare
metadata is cut out of them. Only Tables and YAML cost a parse, a few hundred objects at a time, so
that a large list holds neither the event loop nor much memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import yaml

from ...api import tables
from ...api.kinds import Kind
from ...api.objects import Obj
from ...store import Record
from ..objects.conversion import decode, is_view, ready
from ..verbs.list import Page
from ..verbs.watch import BOOKMARK, Seen
from .negotiation import Form
from .offload import LARGE

encode = msgspec.json.Encoder().encode
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
_CHUNK = 250  # objects that are parsed between two breaths of the event loop
PIECE = 64 << 10  # bytes that are written at once


class _Bare(msgspec.Struct):
    """An object of which only the metadata is cut out, unparsed."""

    metadata: msgspec.Raw


_bare = msgspec.json.Decoder(_Bare).decode


def value(form: Form, obj: Any) -> bytes:
    """Write any data, as JSON or YAML."""
    if form.is_yaml:
        text: str = yaml.dump(obj, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
        return text.encode()
    return encode(obj) + b"\n"


def pieces_of(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join what is small and cut what is large.

    What a client does not read is kept encrypted, for each client anew: so at most a piece of an
    answer waits, and not a whole object.
    """
    block: list[bytes] = []
    size = 0
    for part in parts:
        for start in range(0, len(part), PIECE):
            some = part[start : start + PIECE]
            if size + len(some) > PIECE:
                data, block, size = b"".join(block), [], 0
                yield data
            block.append(some)
            size += len(some)
    if block:
        yield b"".join(block)


class Pieces:
    """A long answer, put together only as it is sent: its items are those of the store."""

    def __init__(self, opening: bytes, items: list[bytes], closing: bytes) -> None:
        self._opening, self.items, self._closing = opening, items, closing
        commas = max(len(items) - 1, 0)
        self.size = len(opening) + sum(map(len, items)) + commas + len(closing)

    @property
    def frame(self) -> bytes:
        """Return the answer without any item."""
        return self._opening + self._closing

    def __iter__(self) -> Iterator[bytes]:
        return pieces_of(self._parts())

    def _parts(self) -> Iterator[bytes]:
        yield self._opening
        comma = b""
        for item in self.items:
            yield comma
            yield item
            comma = b","
        yield self._closing


class Renderer:
    """A writer of one kind in the form that one request asked for."""

    def __init__(self, kind: Kind, form: Form, *, now: float, include: str = "Metadata") -> None:
        self.kind = kind
        self.form = form
        self._is_view = is_view(kind)
        self._now = now
        self._include: tables.IncludeObject = _included(include)

    async def ready(self, record: Record) -> bytes:
        """Do as `one`, once a conversion webhook has been asked where it must be."""
        await ready(self.kind, [record])
        if self.form.is_yaml and len(record.data) > LARGE:
            return await asyncio.to_thread(self.one, record)
        return self.one(record)

    def one(self, record: Record) -> bytes:
        body = self._shaped(record, with_columns=True)
        return value(self.form, msgspec.json.decode(body)) if self.form.is_yaml else body

    async def page(self, page: Page) -> Pieces:
        """Write a list, in pieces that are sent one after the other."""
        await ready(self.kind, page.records)
        metadata: Obj = {"resourceVersion": str(page.revision)}
        if page.token:
            metadata["continue"] = page.token
            if page.remaining is not None:
                metadata["remainingItemCount"] = page.remaining
        opening = encode({**self._list_type(), "metadata": metadata})[:-1]
        field = b',"rows":[' if self.form.shape == "table" else b',"items":['
        pieces = Pieces(opening + field, await self._items(page), b"]}\n")
        return await self._in_yaml(pieces) if self.form.is_yaml else pieces

    async def _in_yaml(self, pieces: Pieces) -> Pieces:
        """Write the list as YAML, its items one by one: a long list is many seconds of work."""
        head: Obj = msgspec.json.decode(pieces.frame)
        name, _ = head.popitem()
        if not pieces.items:
            return Pieces(value(self.form, {**head, name: []}), [], b"")
        text = value(self.form, head) + f"{name}:\n".encode()
        parts = [await asyncio.to_thread(self._yaml_item, item) for item in pieces.items]
        return Pieces(text + b"".join(parts), [], b"")

    def _yaml_item(self, item: bytes) -> bytes:
        return value(self.form, [msgspec.json.decode(item)])

    async def _items(self, page: Page) -> list[bytes]:
        if self.form.shape == "object" and not self._is_view:
            return [record.data for record in page.records]
        items: list[bytes] = []
        for start in range(0, len(page.records), _CHUNK):
            if start:
                await asyncio.sleep(0)
            items += self._chunk(page.records[start : start + _CHUNK])
        return items

    def _chunk(self, records: list[Record]) -> Iterator[bytes]:
        if self.form.shape != "table":
            return (self._shaped(record) for record in records)
        return (self._row(record) for record in records)

    def _row(self, record: Record) -> bytes:
        # Printers know the stored view of a kind; a client that wants the object wants its own.
        is_own = self._include == "Object" or self.kind.custom is not None
        obj = decode(self.kind, record) if is_own else record.decode()
        if is_own or self._include == "None":
            return encode(tables.row(self.kind, obj, self._now, self._include))
        cells = encode(tables.cells_of(self.kind, obj, self._now))
        return b'{"cells":%b,"object":%b}' % (cells, self._partial(record))

    def _partial(self, record: Record) -> bytes:
        head = encode(self._meta_type("PartialObjectMetadata"))[:-1]
        return b'%b,"metadata":%b}' % (head, bytes(_bare(record.data).metadata))

    def event(self, seen: Seen, *, is_first: bool) -> tuple[bytes, bytes, bytes]:
        """Write one line of a watch, around the very bytes of the store where they are the object.

        A Table names its columns in the first line of the watch.
        """
        if seen.type == BOOKMARK or seen.record is None:
            body = encode(self._bookmark(seen))
        else:
            body = self._shaped(seen.record, with_columns=is_first)
        return b'{"type":"%b","object":' % seen.type.encode(), body, b"}\n"

    def _shaped(self, record: Record, *, with_columns: bool = False) -> bytes:
        match self.form.shape:
            case "table":
                return self._table(record, with_columns)
            case "partial":
                return self._partial(record)
        return encode(decode(self.kind, record)) if self._is_view else record.data

    def _table(self, record: Record, with_columns: bool) -> bytes:
        columns = tables.columns(self.kind) if with_columns else None
        metadata = {"resourceVersion": str(record.revision) if record.revision else ""}
        head = {**self._meta_type("Table"), "metadata": metadata, "columnDefinitions": columns}
        return b'%b,"rows":[%b]}' % (encode(head)[:-1], self._row(record))

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

    def _list_type(self) -> Obj:
        if self.form.shape == "table":
            columns = {"columnDefinitions": tables.columns(self.kind)}
            return {**self._meta_type("Table"), **columns}
        if self.form.shape == "partial":
            return self._meta_type("PartialObjectMetadataList")
        return {"kind": self.kind.list_kind, "apiVersion": self.kind.api_version}

    def _meta_type(self, kind: str) -> Obj:
        return {"kind": kind, "apiVersion": f"meta.k8s.io/{self.form.version}"}


def _included(text: str) -> tables.IncludeObject:
    if text == "None":
        return "None"
    return "Object" if text == "Object" else "Metadata"
