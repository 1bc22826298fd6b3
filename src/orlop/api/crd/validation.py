"""Checks a custom resource's values against its schema, in upstream's words.

Called for every write, after defaulting. The texts and the order are those of kube-openapi's
validation, which tools show and people search for. A part that has not changed since it was stored
is not judged anew: a schema that got stricter must not stop a finalizer from going.
"""

from __future__ import annotations

import json
from time import thread_time
from typing import Any

from ..patterns import PatternError, TooMuchWork, compiled
from ..validation.errors import Errors, FieldError, bad_value, clipped, required, too_long, too_many
from .structural_schema import ABSENT, Node, enum_key

_NOWHERE = "<nil>"  # as Go shows an error that has no field
_SECONDS = 1.0  # of CPU, for one object
_LOOK = 500  # values between looks at the clock
_WORK_A_STEP = 10_000  # of what matching a pattern costs
_LONGEST_PATH = 10_000
_MOST_ERRORS = 1000  # that are looked for
_MOST_SHOWN = 100  # values of an enum, in each of them
_TOO_MUCH = (
    "checking the object against its schema takes too long: make its lists, or the texts that "
    "have a pattern, smaller"
)
_INTEGERS = {"int32": 2**31, "int64": 2**63}
BLOCKING = (
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
)  # fmt: skip


def check(node: Node, value: Any, old: Any = ABSENT) -> Errors:
    """Check a whole object; `old` is what is stored, where there is something."""
    errors: Errors = []
    try:
        _Checker(errors, _Effort()).value(node, value, "", old)
    except _TooMuch:
        errors.append(bad_value(_NOWHERE, "", _TOO_MUCH))
    return errors


class _TooMuch(Exception):
    """The object takes more steps than there are for one."""


class _Effort:
    """The time that is left for one object: a schema may ask a lot of things of each value."""

    def __init__(self) -> None:
        self._steps = 0
        self._until = thread_time() + _SECONDS

    def spend(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > _LOOK:
            self._steps = 0
            if thread_time() > self._until:
                raise _TooMuch


def _best(failures: list[Errors]) -> Errors:
    """Return the errors of the alternative that came nearest."""
    return min(failures, key=lambda errors: len(errors))


class _Checker:
    def __init__(self, errors: Errors, effort: _Effort) -> None:
        self._errors = errors
        self._effort = effort

    def _found(self, node: Node, value: Any, path: str) -> Errors:
        errors: Errors = []
        _Checker(errors, self._effort).value(node, value, path, ABSENT)
        return errors

    def value(self, node: Node, value: Any, path: str, old: Any) -> None:
        self._effort.spend()
        if len(self._errors) >= _MOST_ERRORS:
            return
        if len(path) > _LONGEST_PATH:  # which would be written once more for all that is below
            self._errors.append(bad_value(f"{path[:100]}...", "", "its name is too long"))
            return
        if old is not ABSENT and value == old and type(value) is type(old):
            return
        if value is None:
            if node.types and not node.nullable:
                self._wrong_type(node, "null", path)
            return
        self._type(node, value, path)
        self._combinations(node, value, path)
        if type(value) is str:
            self._string(node, value, path)
        elif type(value) in (int, float):
            self._number(node, value, path)
        elif type(value) is list:
            self._list(node, value, path, old)
        if node.enum is not None and enum_key(value) not in node.enum_keys:
            self._errors.append(_unsupported(path, value, node.enum))
        if type(value) is dict:
            self._object(node, value, path, old)

    def _add(self, path: str, value: Any, text: str) -> None:
        self._errors.append(bad_value(path or _NOWHERE, value, f"{path} in body {text}"))

    def _wrong_type(self, node: Node, found: str, path: str) -> None:
        wanted = ",".join(node.types)
        self._errors.append(type_error(path, found, f"must be of type {wanted}", found))

    def _type(self, node: Node, value: Any, path: str) -> None:
        types = node.types
        found = json_type(value)
        if not types or found in types:
            return
        is_whole = type(value) is float and value.is_integer()
        if (found == "integer" and "number" in types) or (is_whole and "integer" in types):
            return
        self._wrong_type(node, found, path)

    def _combinations(self, node: Node, value: Any, path: str) -> None:
        if node.any_of:
            failures = [self._found(one, value, path) for one in node.any_of]
            if all(failures):
                self._nowhere(f'"{path}" must validate at least one schema (anyOf)')
                self._errors += _best(failures)
        if node.one_of:
            failures = [self._found(one, value, path) for one in node.one_of]
            valid = sum(not one for one in failures)
            if valid != 1:
                many = f"Found {valid} valid alternatives" if valid else "Found none valid"
                self._nowhere(f'"{path}" must validate one and only one schema (oneOf). {many}')
                self._errors += _best(failures)
        if node.all_of:
            failures = [self._found(one, value, path) for one in node.all_of]
            if any(failures):
                self._errors += [error for one in failures for error in one]
                self._nowhere(f'"{path}" must validate all the schemas (allOf)')
        if node.not_ is not None and not self._found(node.not_, value, path):
            self._nowhere(f'"{path}" must not validate the schema (not)')

    def _nowhere(self, text: str) -> None:
        self._errors.append(bad_value(_NOWHERE, "", text))

    def _string(self, node: Node, value: str, path: str) -> None:
        if node.max_length is not None and len(value) > node.max_length:
            self._errors.append(too_long(path, node.max_length))
        if node.min_length is not None and len(value) < node.min_length:
            self._add(path, value, f"should be at least {node.min_length} chars long")
        if node.pattern and not self._matches(node.pattern, value):
            self._add(path, value, f"should match '{node.pattern}'")
        if node.format_check is not None and not node.format_check(value):
            wrong = f"must be of type {node.format}"
            self._errors.append(type_error(path, value, wrong, value))

    def _matches(self, pattern: str, value: str) -> bool:
        """Return whether the pattern matches.

        What was kept before expressions were Go's may not be one: then nothing matches it.
        """
        try:
            regex = compiled(pattern)
            self._effort.spend(1 + regex.work(value) // _WORK_A_STEP)
            return regex.matches(value)
        except PatternError:
            return False
        except TooMuchWork:
            raise _TooMuch from None

    def _number(self, node: Node, value: float, path: str) -> None:
        limit = _INTEGERS.get(node.format)
        if limit is not None and node.type == "integer" and not -limit <= value < limit:
            wrong = f"Checked value must be of type integer with format {node.format} in {path}"
            self._nowhere(wrong)
        if node.multiple_of is not None and value % node.multiple_of != 0:
            self._add(path, value, f"should be a multiple of {_number(node.multiple_of)}")
        most, least = node.maximum, node.minimum
        if most is not None and (value > most or (node.exclusive_max and value == most)):
            than = "less than" if node.exclusive_max else "less than or equal to"
            self._add(path, value, f"should be {than} {_number(most)}")
        if least is not None and (value < least or (node.exclusive_min and value == least)):
            than = "greater than" if node.exclusive_min else "greater than or equal to"
            self._add(path, value, f"should be {than} {_number(least)}")

    def _list(self, node: Node, value: list[Any], path: str, old: Any) -> None:
        if node.items is not None:
            former = correlated(node, old)
            for index, item in enumerate(value):
                before = former(item) if former is not None else ABSENT
                self.value(node.items, item, f"{path}[{index}]", before)
        if node.min_items is not None and len(value) < node.min_items:
            self._add(path, len(value), f"should have at least {node.min_items} items")
        if node.max_items is not None and len(value) > node.max_items:
            self._errors.append(too_many(path, len(value), node.max_items))
        if node.list_type in ("set", "map"):
            self._errors += _duplicates(node, value, path)

    def _object(self, node: Node, value: dict[str, Any], path: str, old: Any) -> None:
        count = len(value)
        if node.min_properties is not None and count < node.min_properties:
            self._add(path, count, f"should have at least {node.min_properties} properties")
        if node.max_properties is not None and count > node.max_properties:
            self._errors.append(too_many(path, count, node.max_properties))
        for name in node.required:
            if name not in value:
                self._errors.append(required(f"{path}.{name}" if path else name))
        former = old if type(old) is dict else {}
        for name, item in value.items():
            below = node.properties.get(name) or node.additional
            if below is not None:
                inner = f"{path}.{name}" if path else name
                self.value(below, item, inner, former.get(name, ABSENT))


def type_error(path: str, value: Any, text: str, found: str) -> FieldError:
    shown, found = clipped(json.dumps(value, ensure_ascii=False)), clipped(json.dumps(found))
    message = f"Invalid value: {shown}: {path} in body {text}: {found}"
    return FieldError("FieldValueTypeInvalid", path or _NOWHERE, message)


def _unsupported(path: str, value: Any, values: list[Any]) -> FieldError:
    texts = [one if isinstance(one, str) else json.dumps(one) for one in values[:_MOST_SHOWN]]
    supported = ", ".join(json.dumps(one, ensure_ascii=False) for one in texts)
    shown = clipped(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    message = f"Unsupported value: {shown}: supported values: {supported}"
    return FieldError("FieldValueNotSupported", path or _NOWHERE, message)


def json_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) and not value.is_integer() else str(int(value))


def key_of_item(node: Node, item: Any) -> Any:
    """Return what tells an item of a map or a set from the others, as something hashable."""
    if node.list_type == "set":
        return json.dumps(item, sort_keys=True)
    if type(item) is not dict:
        return None
    items = node.items
    keys = {}
    for name in node.map_keys:
        default = items.properties[name].default if items and name in items.properties else ABSENT
        held = item.get(name, default)
        if held is not ABSENT:
            keys[name] = held
    return json.dumps(keys, sort_keys=True)


def correlated(node: Node, old: Any) -> Any:
    """Make a function from an item of the new list to its old self; None where there is none."""
    if type(old) is not list or node.list_type != "map":
        return None
    former = {key_of_item(node, item): item for item in old}
    return lambda item: former.get(key_of_item(node, item), ABSENT)


def _duplicates(node: Node, value: list[Any], path: str) -> Errors:
    errors: Errors = []
    seen: set[Any] = set()
    for index, item in enumerate(value):
        key = key_of_item(node, item)
        if key is None:
            continue
        if key in seen:
            shown = item if node.list_type == "set" else json.loads(key)
            message = f"Duplicate value: {go_value(shown)}"
            errors.append(FieldError("FieldValueDuplicate", f"{path}[{index}]", message))
        seen.add(key)
    return errors


def go_value(value: Any) -> str:
    """Write a value as Go's %#v does."""
    match value:
        case dict():
            pairs = ", ".join(f"{json.dumps(k)}:{go_value(v)}" for k, v in sorted(value.items()))
            return f"map[string]interface {{}}{{{pairs}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(go_value(item) for item in value)}}}"
        case None:
            return "interface {}(nil)"
    return json.dumps(value, ensure_ascii=False)
