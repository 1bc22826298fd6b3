"""The schema in memory, and the compact form it is kept in between starts.

Made by source, or out of kept bytes in a few milliseconds: structs become objects when first asked
for, descriptions when an OpenAPI document is. A type is written as a short text: s string, i int32,
l int64, b bool, d double, y bytes, q Quantity, x IntOrString, t Time, T MicroTime, * any JSON,
@module.Name a struct, [ a list of what follows, { a map of it.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from ..kinds import Kind
from ..objects import Obj
from . import decoding

_FORMAT = 1


class FieldType(msgspec.Struct, frozen=True, array_like=True):
    """One field of one struct."""

    spec: str
    required: bool = False
    pointer: bool = False  # in Go: its zero value is a value
    always: bool = False  # in Go: no omitempty
    merge_key: str = ""
    strategies: tuple[str, ...] = ()
    list_keys: tuple[str, ...] = ()
    list_type: str = ""  # map, set or atomic, for lists
    map_type: str = ""  # atomic or granular, where it is not its type's

    @property
    def struct_name(self) -> str:
        """Return the struct of its value, or of the elements of its value; else empty."""
        bare = self.spec.lstrip("[{")
        return bare[1:] if bare.startswith("@") else ""


class _Kept(msgspec.Struct, array_like=True):
    """The form that `dumps` writes."""

    format: int
    fingerprint: str
    structs: dict[str, dict[str, FieldType]]
    docs: bytes


class StructType:
    """One struct and, through the schema, the structs below it."""

    __slots__ = ("_fields", "fields", "name", "schema")

    def __init__(self, schema: Schema, name: str, fields: dict[str, FieldType]) -> None:
        self.schema = schema
        self.name = name
        self.fields = fields
        self._fields: dict[str, MergeFacts] = {}

    def field(self, name: str) -> MergeFacts | None:
        """Return how a field merges, for strategic merge patches."""
        facts = self._fields.get(name)
        if facts is None and name in self.fields:
            facts = self._fields[name] = MergeFacts(self.schema, self.fields[name])
        return facts


class MergeFacts:
    """A field as patch.strategic wants to see it."""

    __slots__ = ("_field", "_schema")

    def __init__(self, schema: Schema, field: FieldType) -> None:
        self._schema = schema
        self._field = field

    @property
    def merge_key(self) -> str:
        return self._field.merge_key

    @property
    def strategies(self) -> tuple[str, ...]:
        return self._field.strategies

    def struct(self) -> StructType | None:
        name = self._field.struct_name
        return self._schema.struct(name) if name else None


class Schema:
    """All structs, by `module.Name` (`core_v1.PodSpec`)."""

    def __init__(
        self,
        fingerprint: str,
        structs: dict[str, dict[str, FieldType]],
        docs: bytes,
        *,
        is_fresh: bool,
    ) -> None:
        self.fingerprint = fingerprint
        self.is_fresh = is_fresh
        self._raw = structs
        self._docs = docs
        self._structs: dict[str, StructType] = {}
        self._decoders: dict[str, decoding.Decoder] = {}

    @classmethod
    def loads(cls, data: bytes) -> Schema | None:
        """Load the schema that `dumps` wrote; None for other bytes, or those of another form."""
        try:
            kept = msgspec.msgpack.decode(data, type=_Kept)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if kept.format != _FORMAT:
            return None
        return cls(kept.fingerprint, kept.structs, kept.docs, is_fresh=False)

    def dumps(self) -> bytes:
        return msgspec.msgpack.encode(_Kept(_FORMAT, self.fingerprint, self._raw, self._docs))

    def names(self) -> list[str]:
        return list(self._raw)

    def struct(self, name: str) -> StructType:
        struct = self._structs.get(name)
        if struct is None:
            struct = self._structs[name] = StructType(self, name, self._raw[name])
        return struct

    def docs(self) -> dict[str, list[Any]]:
        """Return for each struct its description and those of its fields."""
        docs: dict[str, list[Any]] = msgspec.json.decode(zlib.decompress(self._docs))
        return docs

    def type_of(self, kind: Kind) -> StructType | None:
        """Return the struct of a built-in kind; None for kinds that bring their own schema."""
        name = struct_name(kind.group, kind.version, kind.kind)
        return self.struct(name) if name in self._raw and kind.custom is None else None

    def decode(self, kind: Kind, obj: Obj) -> list[str]:
        """Make `obj` what upstream would have decoded; return the paths of unknown fields.

        Nulls, unknown fields and empty values that mean nothing go, quantities and times take
        their canonical form. A value of a wrong type is a BadRequest in upstream's words.
        """
        if kind.custom is not None:
            return kind.custom.decode(self, obj)
        name = struct_name(kind.group, kind.version, kind.kind)
        if name not in self._raw:
            return []
        return self.decode_struct(name, kind.version, kind.kind, obj)

    def decode_struct(self, name: str, version: str, kind: str, obj: Obj) -> list[str]:
        """Do the same for a part of an object: `version` and `kind` are for messages."""
        decoder = self._decoders.get(name)
        if decoder is None:
            decoder = self._decoders[name] = decoding.decoder(name, self._raw.__getitem__)
        return decoder(version, kind, obj)


def struct_name(group: str, version: str, kind: str) -> str:
    """Return apps_v1.Deployment for `apps`, `v1`, `Deployment`."""
    package = {"": "core", "rbac.authorization.k8s.io": "rbac"}.get(group)
    return f"{package or group.partition('.')[0]}_{version}.{kind}"
