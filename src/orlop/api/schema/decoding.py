"""Decodes a JSON object as upstream's typed decoder would: one walk, compiled once per struct.

Called through `Schema.decode` for every body that comes in. It checks types, drops nulls, unknown
fields and meaningless zeros, and writes quantities and times canonically; what a value means is
validation's business. Compiled to closures since every write of the API server passes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ...errors import BadRequest
from .. import quantity, times
from ..objects import Obj
from .paths import MAX_FINDINGS, Path, parts, text

Decoder = Callable[[str, str, Obj], list[str]]

# Takes a value, where it is, and the list of unknown fields; gives the value to keep.
Walk = Callable[[Any, Path, list[str]], Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_GO_NAMES = {"s": "string", "i": "int32", "l": "int64", "b": "bool", "d": "float64", "y": "[]uint8"}
_STRUCTS = "@*qxtT"
_RANGES = {"i": 2**31, "l": 2**63}


class FieldFacts(Protocol):
    """The facts of a field that matter for decoding."""

    @property
    def spec(self) -> str: ...

    @property
    def pointer(self) -> bool: ...

    @property
    def always(self) -> bool: ...


FieldsOf = Callable[[str], Mapping[str, FieldFacts]]


class _WrongType(Exception):
    """A value somewhere below has a type it must not have; the message is upstream's."""


class _NoStruct(Exception):
    """A value that should be an object is none; the struct above it knows how to say so."""

    def __init__(self, value: Any, path: Path, go_type: str) -> None:
        super().__init__(go_type)
        self.value, self.path, self.go_type = value, path, go_type


def decoder(name: str, fields_of: FieldsOf) -> Decoder:
    """Make a function that decodes objects of this struct in place and returns unknown fields."""
    walk = _Compiler(fields_of).struct(name)

    def decode(version: str, kind: str, obj: Obj) -> list[str]:
        unknown: list[str] = []
        try:
            walk(obj, None, unknown)
        except (_WrongType, _NoStruct) as error:
            raise BadRequest(
                f'{kind} in version "{version}" cannot be handled as a {kind}: {error}'
            ) from error
        return unknown

    return decode


class _Compiler:
    def __init__(self, fields_of: FieldsOf) -> None:
        self._fields_of = fields_of
        self._done: dict[str, Walk] = {}

    def struct(self, name: str) -> Walk:
        if name not in self._done:
            # Structs may contain themselves: the walk exists before its fields are compiled.
            entries: dict[str, tuple[type | None, Walk | None, bool]] = {}
            self._done[name] = _struct_walk(name, entries)
            for field, facts in self._fields_of(name).items():
                zero_vanishes = not facts.pointer and not facts.always
                walk = self.value(facts.spec, f"{name.partition('.')[2]}.")
                if facts.spec[0] in _STRUCTS:
                    zero_vanishes = False  # Go never leaves a struct out
                entries[field] = (_LEAVES.get(facts.spec), walk, zero_vanishes)
        return self._done[name]

    def value(self, spec: str, owner: str) -> Walk:
        match spec[0]:
            case "@":
                return self.struct(spec[1:])
            case "[":
                return _list_walk(self.value(spec[1:], owner), spec, owner)
            case "{":
                return _map_walk(self.value(spec[1:], owner), spec, owner)
            case "q":
                return _quantity
            case "t":
                return _time
            case "T":
                return _micro_time
            case "x":
                return _int_or_string
            case "*":
                return _anything
            case "y":
                return _bytes_walk(owner)
        return _scalar_walk(spec, owner)


# Values of just this Python type need no walk at all.
_LEAVES: dict[str, type] = {"s": str, "b": bool}


def _struct_walk(name: str, entries: dict[str, tuple[type | None, Walk | None, bool]]) -> Walk:
    get = entries.get
    go_type = _go_type(f"@{name}")
    owner = name.partition(".")[2] + "."

    def walk(value: Any, path: Path, unknown: list[str]) -> Any:
        if type(value) is not dict:
            if value is None:
                return {}
            raise _NoStruct(value, path, go_type)
        gone: list[str] = []
        for key, item in value.items():
            entry = get(key)
            if entry is None:
                if len(unknown) < MAX_FINDINGS:
                    unknown.append(text((path, key)))
                gone.append(key)
                continue
            leaf, inner, zero_vanishes = entry
            if type(item) is leaf:
                if zero_vanishes and not item:
                    gone.append(key)
            elif item is None or (zero_vanishes and (item == [] or item == {})):
                gone.append(key)
            elif inner is not None:
                try:
                    new = inner(item, (path, key), unknown)
                except _NoStruct as error:
                    raise _wrong(error.value, error.path, owner, error.go_type) from error
                if new is not item:
                    value[key] = new
                if zero_vanishes and not new:
                    gone.append(key)
        for key in gone:
            del value[key]
        return value

    return walk


def _list_walk(inner: Walk, spec: str, owner: str) -> Walk:
    go_type = _go_type(spec)
    element = _LEAVES.get(spec[1:])

    def walk(value: Any, path: Path, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise _wrong(value, path, owner, go_type)
        for index, item in enumerate(value):
            if type(item) is not element:
                new = inner(item, (path, index), unknown)
                if new is not item:
                    value[index] = new
        return value

    return walk


def _map_walk(inner: Walk, spec: str, owner: str) -> Walk:
    go_type = _go_type(spec)
    element = _LEAVES.get(spec[1:])

    def walk(value: Any, path: Path, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _wrong(value, path, owner, go_type)
        for key, item in value.items():
            if type(item) is not element:
                # A key of a map is no field: messages leave it out.
                new = inner(item, (path, (key,)), unknown)
                if new is not item:
                    value[key] = new
        return value

    return walk


def _scalar_walk(spec: str, owner: str) -> Walk:
    go_type = _GO_NAMES[spec]
    wanted: tuple[type, ...] = {"s": (str,), "b": (bool,), "d": (int, float)}.get(spec, (int,))
    zero: Any = {"s": "", "b": False}.get(spec, 0)
    limit = _RANGES.get(spec)

    def walk(value: Any, path: Path, unknown: list[str]) -> Any:
        if type(value) not in wanted:
            if value is None:
                return zero
            raise _wrong(value, path, owner, go_type)
        if limit is not None and not -limit <= value < limit:
            raise _wrong(value, path, owner, go_type)
        return value

    return walk


def _bytes_walk(owner: str) -> Walk:
    def walk(value: Any, path: Path, unknown: list[str]) -> Any:
        if value is None:
            return ""
        if type(value) is not str:
            raise _wrong(value, path, owner, "[]uint8")
        text = (
            value.replace("\n", "").replace("\r", "") if "\n" in value or "\r" in value else value
        )
        if len(text) % 4 or not _BASE64.fullmatch(text):
            raise _WrongType(f"illegal base64 data at input byte {_first_bad_byte(text)}")
        return text

    return walk


def _first_bad_byte(text: str) -> int:
    match = re.match(r"[A-Za-z0-9+/]*={0,2}", text)
    good = match.end() if match else 0
    return good if good < len(text) else len(text) - len(text) % 4


def _quantity(value: Any, path: Path, unknown: list[str]) -> Any:
    if value is None:
        return "0"
    try:
        return quantity.canonical(value)
    except quantity.QuantityError as error:
        raise _WrongType(str(error)) from error


def _time(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is str and _TIME.fullmatch(value):
        return value
    return _parsed_time(value, times.canonical, "2006-01-02T15:04:05Z07:00")


def _micro_time(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is str and _MICRO_TIME.fullmatch(value):
        return value
    return _parsed_time(value, times.canonical_micro, "2006-01-02T15:04:05.000000Z07:00")


def _parsed_time(value: Any, canonical: Callable[[str], str], layout: str) -> Any:
    if value is None:
        return None
    if type(value) is not str:
        raise _WrongType(f"json: cannot unmarshal {_json_type(value)} into Go value of type string")
    try:
        return canonical(value)
    except ValueError as error:
        raise _WrongType(
            f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"'
        ) from error


def _int_or_string(value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is int or type(value) is str:
        return value
    if value is None:
        return 0
    raise _WrongType(f"json: cannot unmarshal {_json_type(value)} into Go value of type int32")


def _anything(value: Any, path: Path, unknown: list[str]) -> Any:
    return value


def _wrong(value: Any, path: Path, owner: str, go_type: str) -> _WrongType:
    found = _json_type(value)
    if isinstance(value, float | int) and go_type in ("int32", "int64"):
        found = f"number {value}"
    field = ".".join(part for part in parts(path) if isinstance(part, str))
    if not field:
        return _WrongType(f"json: cannot unmarshal {found} into Go value of type {go_type}")
    return _WrongType(
        f"json: cannot unmarshal {found} into Go struct field {owner}{field} of type {go_type}"
    )


def _json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _go_type(spec: str) -> str:
    """Write `[@core_v1.Container` as Go programmers do: []v1.Container."""
    if spec[0] == "[":
        return "[]" + _go_type(spec[1:])
    if spec[0] == "{":
        return "map[string]" + _go_type(spec[1:])
    if spec[0] == "@":
        module, _, name = spec[1:].partition(".")
        return f"{module.rpartition('_')[2]}.{name}"
    special = {"q": "resource.Quantity", "x": "intstr.IntOrString", "t": "v1.Time"}
    return _GO_NAMES.get(spec) or special.get(spec, "interface {}")
