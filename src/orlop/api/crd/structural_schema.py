"""A structural schema, read once into nodes that pruning, defaulting and validation walk.

Made when a definition is first served, from the JSONSchemaProps of one of its versions, which
validation has found to be structural. A node holds what one place of an object may be and the nodes
of the places below it; it is not changed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .. import formats
from ..objects import Obj

ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT", "__bool__": lambda _: False})()
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_SPECIAL_FORMATS = ("date-time", "datetime", "date", "duration", "byte")


def enum_key(value: Any) -> Any:
    """Make a key that is equal where values are equal in JSON: true is not 1, but 1.0 is."""
    if isinstance(value, bool):
        return (value,)
    if isinstance(value, dict | list):
        return msgspec.json.encode(_with_whole_numbers(value), order="sorted")
    return value


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _cost(value: Any) -> int:
    return 1 + len(msgspec.json.encode(value)) // 32


class Node:
    """One place of an object: its type, what is below it, and the rules for its value."""

    def __init__(self, schema: Obj) -> None:
        self._read_structure(schema)
        self._read_values(schema)
        below = [*self.properties.values(), self.additional, self.items]
        inner = [node for node in below if node is not None]
        self.has_defaults: bool = self.default is not ABSENT or any(n.has_defaults for n in inner)
        self.has_rules: bool = bool(self.rules) or any(node.has_rules for node in inner)
        # Whether CEL sees another value than the JSON one: times, durations, bytes, doubles.
        self.cel_view: bool = (
            (self.type == "string" and self.format in _SPECIAL_FORMATS)
            or self.type in ("number", "integer")
            or any(node.cel_view for node in inner)
        )

    def _read_structure(self, schema: Obj) -> None:
        self.type: str = schema.get("type") or ""
        self.nullable = bool(schema.get("nullable"))
        self.int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
        self.preserve = bool(schema.get(_PRESERVE))
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        properties = schema.get("properties") or {}
        self.properties = {name: Node(inner) for name, inner in properties.items()}
        additional = schema.get("additionalProperties")
        self.additional: Node | None = Node(additional) if isinstance(additional, dict) else None
        if additional is True:
            self.additional = Node({_PRESERVE: True})
        items = schema.get("items")
        self.items: Node | None = Node(items) if isinstance(items, dict) else None
        self.default = schema.get("default", ABSENT)
        # In values, or as many bytes as the usual value has.
        self.default_cost = 0 if self.default is ABSENT else _cost(self.default)
        self.list_type: str = schema.get("x-kubernetes-list-type") or "atomic"
        self.map_keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.rules: list[Obj] = list(schema.get("x-kubernetes-validations") or ())

    def _read_values(self, schema: Obj) -> None:
        get = schema.get
        self.required: tuple[str, ...] = tuple(get("required") or ())
        self.enum: list[Any] | None = get("enum")
        self.enum_keys = frozenset(map(enum_key, self.enum or ()))
        self.format: str = get("format") or ""
        self.format_check: Callable[[str], bool] | None = formats.CHECKS.get(self.format)
        self.pattern: str = get("pattern") or ""
        self.minimum, self.maximum = get("minimum"), get("maximum")
        self.exclusive_min = bool(get("exclusiveMinimum"))
        self.exclusive_max = bool(get("exclusiveMaximum"))
        self.multiple_of = get("multipleOf")
        self.min_length, self.max_length = get("minLength"), get("maxLength")
        self.min_items, self.max_items = get("minItems"), get("maxItems")
        self.min_properties, self.max_properties = get("minProperties"), get("maxProperties")
        self.all_of = [Node(one) for one in get("allOf") or ()]
        self.any_of = [Node(one) for one in get("anyOf") or ()]
        self.one_of = [Node(one) for one in get("oneOf") or ()]
        inverse = get("not")
        self.not_: Node | None = Node(inverse) if isinstance(inverse, dict) else None

    def below(self, key: str) -> Node | None:
        """Return the node of a key of this object."""
        return self.properties.get(key) or self.additional

    @property
    def types(self) -> tuple[str, ...]:
        """Return the types that a value may have; empty where it may be anything."""
        if self.int_or_string:
            return ("integer", "string")
        return (self.type,) if self.type else ()
