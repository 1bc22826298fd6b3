"""Reads request bodies in Kubernetes' protobuf, which Go clients from 0.32 on send and insist on.

Called with the body of a create, update or delete whose Content-Type is
application/vnd.kubernetes.protobuf; answers may always be JSON. The result is the dict the same
object would have been as JSON, within the bounds of `reading`. Field numbers and types come from
the wire table; a field that the table does not know is skipped, as protobuf wants it.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import BadRequest
from . import reading, times
from .objects import Obj
from .schema.model import struct_name
from .wire import Wire, WireField

MAGIC = b"k8s\x00"
_WIRE = Wire()
# Go writes every zero, so there are more fields than values.
_MAX_FIELDS = 4 * reading.MAX_VALUES
# Options whose group and version are those of the object they are about.
_OPTIONS = {"DeleteOptions": "meta_v1.DeleteOptions"}


class _Truncated(ValueError):
    """The bytes end in the middle of a field."""


def is_protobuf(data: bytes) -> bool:
    return data.startswith(MAGIC)


def decode(data: bytes) -> Obj:
    """Decode the object in a body; BadRequest where it is none of ours."""
    if not is_protobuf(data):
        raise BadRequest('expected protobuf that starts with "k8s\\x00", found something else')
    try:
        reader = _Reader()
        api_version, kind, raw = _unwrap(reader, memoryview(data)[len(MAGIC) :])
        obj = reader.message(_message_of(api_version, kind), raw)
        reading.check(obj)
    except (ValueError, TypeError, OverflowError, OSError, struct.error) as error:
        raise BadRequest(f"the body of the request is not valid protobuf: {error}") from error
    return {"apiVersion": api_version, "kind": kind, **obj}


def _unwrap(reader: _Reader, data: memoryview) -> tuple[str, str, memoryview]:
    """Unwrap a runtime.Unknown: the type, then the object's own bytes."""
    api_version, kind, raw = "", "", memoryview(b"")
    for number, _, value in reader.fields(data):
        if number == 1:
            for inner, _, text in reader.fields(value):
                if inner == 1:
                    api_version = _text(text)
                elif inner == 2:
                    kind = _text(text)
        elif number == 2:
            raw = value
    return api_version, kind, raw


def _message_of(api_version: str, kind: str) -> str:
    if kind in _OPTIONS:
        return _OPTIONS[kind]
    group, _, version = api_version.rpartition("/")
    name = struct_name(group, version, kind)
    if not _WIRE.knows(name):
        raise BadRequest(
            f'no kind "{kind}" is known in version "{api_version}" as protobuf: send it as JSON'
        )
    return name


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise _Truncated("it ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than ten bytes")


class _Reader:
    """One body. It counts fields, those that nobody knows too, and how deep it is."""

    def __init__(self) -> None:
        self._left = _MAX_FIELDS
        self._depth = 0

    def fields(self, data: memoryview) -> Iterator[tuple[int, int, Any]]:
        """Yield number, wire type and raw value of each field."""
        at, end = 0, len(data)
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise reading.OutOfBounds(f"it has more than {_MAX_FIELDS} fields")
            tag, at = _varint(data, at)
            wire_type = tag & 7
            if wire_type == 0:
                value, at = _varint(data, at)
                yield tag >> 3, wire_type, value
                continue
            size = 8 if wire_type == 1 else 4
            if wire_type == 2:
                size, at = _varint(data, at)
            elif wire_type not in (1, 5):
                raise ValueError(f"wire type {wire_type} is not used by Kubernetes")
            if at + size > end:
                raise _Truncated(f"a field says {size} bytes, {end - at} are left")
            yield tag >> 3, wire_type, data[at : at + size]
            at += size

    def message(self, name: str, data: memoryview) -> Obj:
        self._depth += 1
        if self._depth > reading.MAX_DEPTH:
            raise reading.OutOfBounds(f"it is nested more than {reading.MAX_DEPTH} levels deep")
        known = _WIRE.message(name)
        obj: Obj = {}
        for number, wire_type, raw in self.fields(data):
            field = known.get(number)
            if field is not None:
                self._field(obj, field, wire_type, raw)
        self._depth -= 1
        return obj

    def _field(self, obj: Obj, field: WireField, wire_type: int, raw: Any) -> None:
        if field.inline:
            obj |= self.message(field.spec[1:], raw)
        elif field.spec[0] == "[":
            items = obj.setdefault(field.name, [])
            items += self._list_items(field.spec[1:], wire_type, raw)
        elif field.spec[0] == "{":
            key, value = self._map_entry(field.spec[1:], raw)
            obj.setdefault(field.name, {})[key] = value
        else:
            value = self._value(field.spec, raw)
            if _is_said(field, value):
                obj[field.name] = value

    def _list_items(self, spec: str, wire_type: int, raw: Any) -> list[Any]:
        if wire_type != 2 or spec not in "ilb":
            return [self._value(spec, raw)]
        items, at = [], 0
        while at < len(raw):  # packed, as proto3 writes lists of numbers
            self._left -= 1
            if self._left < 0:
                raise reading.OutOfBounds(f"it has more than {_MAX_FIELDS} fields")
            number, at = _varint(raw, at)
            items.append(self._value(spec, number))
        return items

    def _map_entry(self, spec: str, raw: memoryview) -> tuple[str, Any]:
        key, value = "", [] if spec[0] == "[" else _ZEROS.get(spec[0], {})
        for number, _, part in self.fields(raw):
            if number == 1:
                key = _text(part)
            elif number == 2:
                value = self._value(spec, part)
        return key, value

    def _value(self, spec: str, raw: Any) -> Any:
        if spec in _EITHER:
            first, last, zero = _EITHER[spec]
            found = self.message(spec[1:], raw)
            return found[first] if first in found else found.get(last, zero)
        if spec[0] == "@":
            return self.message(spec[1:], raw)
        if spec[0] == "[":  # a map's value that is a list: a message with just that list
            return [self._value(spec[1:], item) for n, _, item in self.fields(raw) if n == 1]
        if spec in _SCALARS:
            return _SCALARS[spec](raw)
        return _SMALL[spec]({number: value for number, _, value in self.fields(raw)})


def _is_said(field: WireField, value: Any) -> bool:
    """Return whether a value counts.

    Zeros are always on the wire; they mean something where Go has a pointer.
    """
    if value is None:
        return False
    return field.pointer or field.always or bool(value) or field.spec in _EITHER


_ZEROS: dict[str, Any] = {"s": "", "y": "", "q": "0", "i": 0, "l": 0, "b": False}


# Messages that are one of their fields to JSON: the first that is there, else the last.
_EITHER = {
    "@apiextensions_v1.JSONSchemaPropsOrArray": ("schema", "jSONSchemas", []),
    "@apiextensions_v1.JSONSchemaPropsOrBool": ("schema", "allows", False),
    "@apiextensions_v1.JSONSchemaPropsOrStringArray": ("schema", "property", []),
}


def _text(raw: memoryview) -> str:
    return str(raw, "utf-8")


def _integer(raw: int) -> int:
    return raw - (1 << 64) if raw >> 63 else raw


def _double(raw: memoryview) -> float:
    value: float = struct.unpack("<d", raw)[0]
    return value


def _quantity(found: dict[int, Any]) -> str:
    return (_text(found[1]) if 1 in found else "0") or "0"


def _int_or_string(found: dict[int, Any]) -> int | str:
    if found.get(1, 0) == 1:
        return _text(found.get(3, memoryview(b"")))
    return _integer(found.get(2, 0))


def _moment(found: dict[int, Any]) -> float | None:
    """Read a time from seconds and nanoseconds; no bytes at all are Go's zero time."""
    if not found:
        return None
    return float(_integer(found.get(1, 0))) + _integer(found.get(2, 0)) / 1e9


def _time(found: dict[int, Any]) -> str | None:
    moment = _moment(found)
    return None if moment is None else times.rfc3339(moment)


def _micro_time(found: dict[int, Any]) -> str | None:
    moment = _moment(found)
    return None if moment is None else times.rfc3339_micro(moment)


def _json(found: dict[int, Any]) -> Any:
    return reading.decode_json(bytes(found[1])) if found.get(1) else None


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "s": _text,
    "i": _integer,
    "l": _integer,
    "b": bool,
    "d": _double,
    "y": lambda raw: base64.b64encode(raw).decode(),
}
# Messages that are one value to JSON, by the numbers of their fields.
_SMALL: dict[str, Callable[[dict[int, Any]], Any]] = {
    "q": _quantity,
    "x": _int_or_string,
    "t": _time,
    "T": _micro_time,
    "*": _json,
}
