"""Shapes out of structural schemas, as CustomResourceDefinitions carry them.

Called by whoever serves custom resources; the result goes to `Shapes.use`. It reads the extensions
that say how things merge and ignores what is for validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .shapes import DEDUCED, LEAF, SET, KeyedList, Map, Shape, Struct

_META = "x-kubernetes-"


def fields_of(schema: Mapping[str, Any]) -> tuple[dict[str, Shape], Shape | None]:
    """Return the fields of an object of this schema, and the shape of those it has no names for."""
    shape = shape_of(schema)
    if isinstance(shape, Struct):
        return shape.fields, shape.rest
    return {}, DEDUCED


def shape_of(schema: Mapping[str, Any]) -> Shape:
    match schema.get("type"):
        case "object":
            return _object(schema)
        case "array":
            return _array(schema)
        case None if not schema.get(f"{_META}int-or-string"):
            return DEDUCED
    return LEAF


def _object(schema: Mapping[str, Any]) -> Shape:
    if schema.get(f"{_META}map-type") == "atomic":
        return LEAF
    properties = schema.get("properties") or {}
    rest = DEDUCED if schema.get(f"{_META}preserve-unknown-fields") else None
    if schema.get(f"{_META}embedded-resource"):
        rest = rest or DEDUCED  # apiVersion, kind and metadata need not be named
    if properties:
        return Struct({name: shape_of(one) for name, one in properties.items()}, rest=rest)
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        return Map(shape_of(values))
    return DEDUCED if values or rest is not None else Struct({}, rest=rest)


def _array(schema: Mapping[str, Any]) -> Shape:
    items = schema.get("items") or {}
    match schema.get(f"{_META}list-type"):
        case "map":
            keys = tuple(schema.get(f"{_META}list-map-keys") or ())
            known = items.get("properties") or {}
            defaults = {
                key: known[key]["default"] for key in keys if "default" in known.get(key, {})
            }
            return KeyedList(keys, shape_of(items), defaults)
        case "set":
            return SET
    return LEAF
