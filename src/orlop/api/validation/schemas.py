"""Checks whether a schema is structural: what a definition may say of its objects.

Called for each version of a definition. As apiextensions' schema/validation.go: types everywhere,
no forbidden words, value rules below allOf and its like say nothing of structure; and its defaults
and CEL rules must hold by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import thread_time
from typing import Any

from ..crd.pruning import prune
from ..crd.structural_schema import Node
from ..crd.validation import check
from ..crd.validation_rules import field_path, rule_problems
from ..objects import Obj
from ..patterns import PatternError, compiled
from .errors import Errors, FieldError, bad_value, forbidden, not_supported, required

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_FORBIDDEN = ("$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
_SECONDS = 1.0  # of CPU, for the patterns of one version
_JUNCTORS = ("allOf", "anyOf", "oneOf")
# What value rules below allOf and its like may not carry.
_STRUCTURE = (
    "type", "default", "nullable", "additionalProperties", "description", "title",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)  # fmt: skip
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_REASONS = (
    "FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden", "FieldValueDuplicate",
)  # fmt: skip


def structural_problems(field: str, schema: Obj) -> Errors:
    errors: Errors = []
    if schema.get("type") != "object":
        shown, detail = schema.get("type") or "", "must be object at the root"
        errors.append(bad_value(f"{field}.type", shown, detail) if shown else
                      required(f"{field}.type", "must not be empty at the root"))  # fmt: skip
    if schema.get("nullable"):
        errors.append(forbidden(f"{field}.nullable", "nullable cannot be true at the root"))
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    extra = set(metadata.get("properties") or {}) - {"name", "generateName"}
    if extra:
        detail = "must not specify anything other than name and generateName, but metadata is "
        place = f"{field}.properties[metadata]"
        errors.append(forbidden(place, f"{detail}implicitly specified"))
    return errors + _Sound(field, schema).errors


class _Sound:
    """The check of a schema and all below it.

    1. Each place by itself, and what is below allOf and its like.
    2. Rules, against a schema that is sound itself, which is read into nodes but once.
    """

    def __init__(self, field: str, schema: Obj) -> None:
        self.errors: Errors = []
        self._until = thread_time() + _SECONDS
        self._ruled: list[tuple[str, Obj, tuple[str, ...]]] = []
        try:
            self._schema(field, schema, ())
        except _TooMuch as error:
            why = "the patterns before it took too long to compile: make them smaller"
            self.errors.append(forbidden(str(error), why))
        if not self.errors and self._ruled:
            root = Node(schema)
            for place, below, steps in self._ruled:
                self.errors += _rules(place, below, _node_at(root, steps), is_root=not steps)

    def _schema(self, field: str, schema: Obj, steps: tuple[str, ...]) -> None:
        self.errors += _own(field, schema)
        for place, one in _judging(field, schema):
            if one.get("pattern"):
                self._pattern(f"{place}.pattern", one["pattern"])
        for place, below in _below(field, schema):
            self._schema(place, below, (*steps, place.removeprefix(field)))
        self.errors += _junctors(field, schema)
        if schema.get("x-kubernetes-validations"):
            self._ruled.append((field, schema, steps))

    def _pattern(self, field: str, pattern: str) -> None:
        """Compile a pattern: one that takes a minute is as bad as one that cannot be compiled."""
        if thread_time() > self._until:
            raise _TooMuch(field)
        try:
            compiled(pattern)
        except PatternError as error:
            why = f"must be a valid regular expression, but isn't: {error}"
            self.errors.append(bad_value(field, pattern, why))


class _TooMuch(Exception):
    """The schema has taken all the time that one version may take."""


def _node_at(root: Node, steps: tuple[str, ...]) -> Node:
    """Return the node of a place that `_below` has named step by step."""
    node = root
    for step in steps:
        name = step.removeprefix(".properties[").removesuffix("]")
        is_property = step.startswith(".properties[")
        found = node.properties[name] if is_property else getattr(node, _PARTS[step])
        assert found is not None
        node = found
    return node


_PARTS = {".items": "items", ".additionalProperties": "additional"}


def rules_length(schema: Obj) -> int:
    """Return how many characters its rules have, all of which must be compiled."""
    own = [
        str(rule.get(name) or "")
        for rule in schema.get("x-kubernetes-validations") or ()
        for name in ("rule", "messageExpression")
    ]
    return sum(map(len, own)) + sum(rules_length(below) for _, below in _below("", schema))


def _below(field: str, schema: Obj) -> Iterator[tuple[str, Obj]]:
    for name, one in (schema.get("properties") or {}).items():
        yield f"{field}.properties[{name}]", one
    for name in ("items", "additionalProperties"):
        one = schema.get(name)
        if isinstance(one, dict):
            yield f"{field}.{name}", one


def _judging(field: str, schema: Obj) -> Iterator[tuple[str, Obj]]:
    """Yield a schema, and all that is in its allOf, anyOf, oneOf and not."""
    yield field, schema
    inner = [
        (f"{field}.{name}[{index}]", one)
        for name in _JUNCTORS
        for index, one in enumerate(schema.get(name) or ())
    ]
    if isinstance(schema.get("not"), dict):
        inner.append((f"{field}.not", schema["not"]))
    for place, one in inner:
        yield from _judging(place, one)
        for below, other in _below(place, one):
            yield from _judging(below, other)


def _own(field: str, schema: Obj) -> Iterator[FieldError]:
    kind = schema.get("type")
    is_free = schema.get("x-kubernetes-int-or-string")
    if is_free and kind:
        detail = "must be empty if x-kubernetes-int-or-string is true"
        yield forbidden(f"{field}.type", detail)
    elif not kind and not is_free and not schema.get("x-kubernetes-preserve-unknown-fields"):
        yield required(f"{field}.type", "must not be empty for specified object fields")
    elif kind and kind not in _TYPES:
        yield not_supported(f"{field}.type", kind, _TYPES)
    for name in _FORBIDDEN:
        if schema.get(name):
            yield forbidden(f"{field}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{field}.uniqueItems", detail)
    if schema.get("properties") and schema.get("additionalProperties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{field}.additionalProperties", detail)
    if schema.get("additionalProperties") is False:
        detail = "additionalProperties cannot be set to false"
        yield forbidden(f"{field}.additionalProperties", detail)
    if kind == "array" and not isinstance(schema.get("items"), dict):
        if isinstance(schema.get("items"), list):
            yield forbidden(f"{field}.items", "items must be a schema object and not an array")
        else:
            yield required(f"{field}.items", "must be specified")
    yield from _values(field, schema)
    yield from _extensions(field, schema)


def _values(field: str, schema: Obj) -> Iterator[FieldError]:
    if schema.get("multipleOf") == 0:
        yield bad_value(f"{field}.multipleOf", 0, "must not be zero")


def _extensions(field: str, schema: Obj) -> Iterator[FieldError]:
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    if preserve is False:
        detail = "must be true or undefined"
        yield bad_value(f"{field}.x-kubernetes-preserve-unknown-fields", False, detail)
    if schema.get("x-kubernetes-embedded-resource"):
        if schema.get("type") != "object":
            detail = "must be object if x-kubernetes-embedded-resource is true"
            yield bad_value(f"{field}.type", schema.get("type") or "", detail)
        if not schema.get("properties") and not preserve:
            detail = "must not be empty if x-kubernetes-embedded-resource is true without "
            place = f"{field}.properties"
            yield required(place, f"{detail}x-kubernetes-preserve-unknown-fields")
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None and map_type not in ("granular", "atomic"):
        yield not_supported(f"{field}.x-kubernetes-map-type", map_type, ("granular", "atomic"))
    yield from _list_type(field, schema)


def _list_type(field: str, schema: Obj) -> Iterator[FieldError]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    place = f"{field}.x-kubernetes-list-type"
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield not_supported(place, list_type, ("atomic", "set", "map"))
    if list_type is not None and schema.get("type") != "array":
        kind = schema.get("type") or ""
        yield bad_value(
            f"{field}.type", kind, "must be array if x-kubernetes-list-type is specified"
        )
    place = f"{field}.x-kubernetes-list-map-keys"
    if list_type != "map":
        if keys:
            yield forbidden(place, "must be empty if x-kubernetes-list-type is not map")
        return
    if not keys:
        yield required(place, "must not be empty if x-kubernetes-list-type is map")
    items = schema.get("items") or {}
    for key in keys or ():
        known = (items.get("properties") or {}).get(key)
        if known is None:
            detail = "entries must all be names of item properties"
            yield bad_value(place, key, detail)
        elif known.get("type") in ("array", "object"):
            where = f"{field}.items.properties[{key}].type"
            yield bad_value(where, known["type"], "must be a scalar type if parent array's x-kubernetes-list-type is map")  # noqa: E501  # fmt: skip
        elif key not in (items.get("required") or ()) and "default" not in known:
            where = f"{field}.items.properties[{key}].default"
            detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or "
            yield required(where, f"{detail}be a required property")


def _junctors(field: str, schema: Obj) -> Errors:
    errors: Errors = []
    is_free = schema.get("x-kubernetes-int-or-string")
    for name in _JUNCTORS:
        for index, one in enumerate(schema.get(name) or ()):
            if is_free and (one in _INT_OR_STRING or one.get("anyOf") == _INT_OR_STRING):
                continue
            errors += _value_rules(f"{field}.{name}[{index}]", one, schema)
    inverse = schema.get("not")
    if isinstance(inverse, dict):
        errors += _value_rules(f"{field}.not", inverse, schema)
    return errors


def _value_rules(field: str, schema: Obj, structure: Any) -> Errors:
    """Check what is below allOf and its like: it may name just what was specified outside."""
    errors: Errors = []
    for name in _STRUCTURE:
        if schema.get(name):
            errors.append(forbidden(f"{field}.{name}", "must be empty to be structural"))
    if schema.get("x-kubernetes-validations"):
        place = f"{field}.x-kubernetes-validations"
        errors.append(forbidden(place, "must be empty to be structural"))
    for name, below in _below(field, schema):
        outer = _outer(structure, name.removeprefix(field))
        if outer is None:
            errors.append(required(_place(name, field), "because it is defined in " + name))
        else:
            errors += _value_rules(name, below, outer)
    for name in _JUNCTORS:
        for index, one in enumerate(schema.get(name) or ()):
            errors += _value_rules(f"{field}.{name}[{index}]", one, structure)
    inverse = schema.get("not")
    if isinstance(inverse, dict):
        errors += _value_rules(f"{field}.not", inverse, structure)
    return errors


def _outer(structure: Any, step: str) -> Any:
    if step.startswith(".properties["):
        name = step.removeprefix(".properties[").removesuffix("]")
        found = (structure.get("properties") or {}).get(name)
        additional = structure.get("additionalProperties")
        if found is None and isinstance(additional, dict):
            return additional
        if found is None and structure.get("x-kubernetes-preserve-unknown-fields"):
            return structure
        return found
    return structure.get(step.removeprefix("."))


def _place(inner: str, field: str) -> str:
    parent = re.sub(r"\.(allOf|anyOf|oneOf)\[\d+\]$|\.not$", "", field)
    return parent + inner.removeprefix(field)


def _rules(field: str, schema: Obj, node: Node, *, is_root: bool) -> Errors:
    place = f"{field}.x-kubernetes-validations"
    errors: Errors = []
    for index, rule in enumerate(schema["x-kubernetes-validations"]):
        errors += _rule(f"{place}[{index}]", rule)
        errors += [
            bad_value(f"{place}[{index}].{name}", rule[name], why)
            for name, why in rule_problems(rule, node, is_root=is_root)
        ]
    return errors


def _rule(field: str, rule: Obj) -> Iterator[FieldError]:
    if not (rule.get("rule") or "").strip():
        yield required(f"{field}.rule", "rule is not specified")
    message = rule.get("message")
    if message is not None and not message.strip():
        yield bad_value(f"{field}.message", message, "message must be non-empty if specified")
    elif message and "\n" in message.strip():
        yield bad_value(f"{field}.message", message, "message must not contain line breaks")
    elif not message and "\n" in (rule.get("rule") or "").strip():
        yield required(f"{field}.message", "message must be specified if rule contains line breaks")
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{field}.reason", reason, _REASONS)
    try:
        field_path(rule.get("fieldPath") or "")
    except ValueError as error:
        why = f"fieldPath must be a valid path: {error}"
        yield bad_value(f"{field}.fieldPath", rule["fieldPath"], why)


def default_problems(field: str, schema: Obj) -> Errors:
    """Check that defaults are what their own schema allows, and nothing that would be pruned."""
    node = Node(schema)
    return _defaults(field, schema, node) if node.has_defaults else []


def _defaults(field: str, schema: Obj, node: Node) -> Errors:
    errors: Errors = []
    if "default" in schema:
        default = schema["default"]
        if isinstance(default, dict) and prune(node, default, is_resource=node.embedded):
            errors.append(bad_value(f"{field}.default", default, "must not have unknown fields"))
        errors += [
            FieldError(one.reason, f"{field}.default{_inside(one.field)}", one.message)
            for one in check(node, default)
        ]
    for place, below in _below(field, schema):
        inner = _node_at(node, (place.removeprefix(field),))
        if inner.has_defaults:
            errors += _defaults(place, below, inner)
    return errors


def _inside(field: str) -> str:
    if field in ("", "<nil>"):
        return ""
    return field if field.startswith("[") else f".{field}"
