"""Structs of the schema as OpenAPI definitions, for version 2 and version 3 documents.

Called by openapi. The two versions differ in how they point at other definitions and in how they
write types that are either of two; everything else is the same, extensions included.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from ..objects import Obj
from . import facts
from .model import FieldType, Schema

_MACHINERY = "io.k8s.apimachinery.pkg."
_PACKAGES = {
    "meta_v1": f"{_MACHINERY}apis.meta.v1.",
    "apiextensions_v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.",
    "apiregistration_v1": "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.",
}
_BASIC: dict[str, Obj] = {
    "s": {"type": "string"},
    "i": {"type": "integer", "format": "int32"},
    "l": {"type": "integer", "format": "int64"},
    "b": {"type": "boolean"},
    "d": {"type": "number", "format": "double"},
    "y": {"type": "string", "format": "byte"},
}
_SPECIAL = {
    "q": f"{_MACHINERY}api.resource.Quantity",
    "x": f"{_MACHINERY}util.intstr.IntOrString",
    "t": f"{_MACHINERY}apis.meta.v1.Time",
    "T": f"{_MACHINERY}apis.meta.v1.MicroTime",
    "*": f"{_MACHINERY}runtime.RawExtension",
    "j": f"{_PACKAGES['apiextensions_v1']}JSON",
}
_SPECIAL_ABOUT = {
    "q": "An amount of a resource, such as 500m, 1.5Gi or 2e3.",
    "x": "A whole number, or a string such as the name of a port or a percentage.",
    "t": "A time in RFC 3339, to the second.",
    "T": "A time in RFC 3339, to the microsecond.",
    "*": "Any object.",
    "j": "Any value.",
}
_V2_TYPES: dict[str, Obj] = {
    "q": {"type": "string"},
    "x": {"type": "string", "format": "int-or-string"},
    "t": {"type": "string", "format": "date-time"},
    "T": {"type": "string", "format": "date-time"},
    "*": {"type": "object"},
    "j": {},  # old kubectls check by themselves: whatever may be no object must not say it is one
}
_V3_TYPES: dict[str, Obj] = {
    **_V2_TYPES,
    "q": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "x": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
}


def definition_name(struct: str) -> str:
    """Return io.k8s.api.apps.v1.Deployment for `apps_v1.Deployment`."""
    module, _, name = struct.partition(".")
    prefix = _PACKAGES.get(module)
    if prefix is None:
        package, _, version = module.rpartition("_")
        prefix = f"io.k8s.api.{package}.{version}."
    return prefix + name


def reachable(schema: Schema, roots: Iterable[str]) -> list[str]:
    """Return these structs and all they are made of, sorted."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            fields = schema.struct(name).fields.values()
            waiting += [field.struct_name for field in fields if field.struct_name]
    return sorted(seen)


class Definitions:
    """Writes definitions of one OpenAPI version (2 or 3)."""

    def __init__(self, schema: Schema, version: int) -> None:
        self._schema = schema
        self._version = version
        self._docs = schema.docs()

    def all(self, structs: Iterable[str]) -> dict[str, Obj]:
        written = {definition_name(name): self.struct(name) for name in structs}
        types = _V2_TYPES if self._version == 2 else _V3_TYPES
        for spec, name in _SPECIAL.items():
            written[name] = {**types[spec], "description": _SPECIAL_ABOUT[spec]}
        return dict(sorted(written.items()))

    def struct(self, name: str) -> Obj:
        description, field_docs = self._docs[name]
        short = name.partition(".")[2]
        fields = self._schema.struct(name).fields
        definition: Obj = {"type": "object", "description": description}
        if fields:
            definition["properties"] = {
                field: self._property(_published(name, facts_of), field_docs.get(field, ""))
                for field, facts_of in fields.items()
            }
            self._add_defaults(short, definition["properties"])
        required = [field for field, facts_of in fields.items() if facts_of.required]
        if required:
            definition["required"] = required
        if short in facts.ATOMIC_STRUCTS or name in facts.ATOMIC_STRUCTS:
            definition["x-kubernetes-map-type"] = "atomic"
        return definition

    def _add_defaults(self, struct: str, properties: Obj) -> None:
        """Add defaults, in version 3: version 2 has none, as upstream's."""
        for field, written in properties.items():
            default = facts.DEFAULTS.get(f"{struct}.{field}")
            if default is not None and self._version == 3:
                written["default"] = default

    def _property(self, field: FieldType, description: str) -> Obj:
        written = self._value(field.spec, field)
        if self._version == 3 and "$ref" in written:
            # A reference has no siblings in OpenAPI 3: what is said beside it wraps it.
            written = {"allOf": [written]}
            if field.spec[0] == "@" and not field.pointer:
                written["default"] = {}
        if description:
            written["description"] = description
        if field.merge_key:
            written["x-kubernetes-patch-merge-key"] = field.merge_key
        if field.strategies:
            written["x-kubernetes-patch-strategy"] = ",".join(field.strategies)
        if field.list_type:
            written["x-kubernetes-list-type"] = field.list_type
        if field.list_keys:
            written["x-kubernetes-list-map-keys"] = list(field.list_keys)
        if field.map_type:
            written["x-kubernetes-map-type"] = field.map_type
        return written

    def _value(self, spec: str, field: FieldType | None = None) -> Obj:
        if spec[0] == "[":
            return {"type": "array", "items": self._element(spec[1:])}
        if spec[0] == "{":
            return {"type": "object", "additionalProperties": self._element(spec[1:])}
        if spec in _BASIC:
            return dict(_BASIC[spec])
        name = definition_name(spec[1:]) if spec[0] == "@" else _SPECIAL[spec]
        return {"$ref": self.reference(name)}

    def _element(self, spec: str) -> Obj:
        written = self._value(spec)
        if self._version == 3 and spec[0] == "@":
            return {"allOf": [written], "default": {}}
        return written

    def reference(self, name: str) -> str:
        return f"#/definitions/{name}" if self._version == 2 else f"#/components/schemas/{name}"


def _published(struct: str, field: FieldType) -> FieldType:
    """Return the type to publish.

    Schemas carry values of any type; everything else that is free is an object.
    """
    if not struct.startswith("apiextensions_v1.") or "*" not in field.spec:
        return field
    return replace(field, spec=field.spec.replace("*", "j"))


def group_version_kind(group: str, version: str, kind: str) -> dict[str, Any]:
    return {"group": group, "kind": kind, "version": version}
