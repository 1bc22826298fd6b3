"""Conversions between types, sizes, and optional values.

Part of the library. As the CEL specification's standard definitions and cel-go's optional types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ..errors import CelError
from ..values import (
    NONE,
    Duration,
    Optional,
    Timestamp,
    Type,
    Uint,
    natural,
    number_text,
    some,
    type_name,
    whole,
)

_INT = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?((\d++(\.\d*+)?|\.\d++)([eE][+-]?\d++)?|Inf|Infinity|NaN)", re.I)
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


def size(value: Any) -> int:
    if type(value) in (str, bytes, list, dict):
        return len(value)
    raise CelError("no such overload")


def to_int(value: Any) -> int:
    match value:
        case bool():
            pass
        case int():
            return whole(int(value))
        case float():
            if math.isnan(value) or not -(2**63) < value < 2**63:
                raise CelError("integer overflow")
            return int(value)
        case str():
            if _INT.fullmatch(value):
                return whole(int(value))
            raise CelError(f'strconv.ParseInt: parsing "{value}": invalid syntax')
        case Timestamp(nanos=nanos):
            return nanos // 1_000_000_000
        case Duration(nanos=nanos):
            return nanos
    raise CelError("no such overload")


def to_uint(value: Any) -> Uint:
    if type(value) in (int, Uint):
        return natural(int(value))
    if type(value) is float and math.isfinite(value):
        return natural(int(value)) if value >= 0 else natural(-1)
    if type(value) is str and value.isdecimal():
        return natural(int(value))
    raise CelError("no such overload")


def to_double(value: Any) -> float:
    if type(value) in (int, Uint, float):
        return float(value)
    if type(value) is str:
        if _DOUBLE.fullmatch(value):
            return float(value)
        raise CelError(f'strconv.ParseFloat: parsing "{value}": invalid syntax')
    raise CelError("no such overload")


def to_string(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return number_text(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError as error:
                raise CelError("invalid UTF-8 in bytes, cannot convert to string") from error
        case Timestamp() | Duration():
            return str(value)
    if getattr(value, "cel_type", "") in ("net.IP", "net.CIDR"):
        return str(value)
    raise CelError("no such overload")


def to_bytes(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value.encode()
    raise CelError("no such overload")


def to_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str and value in (*_TRUE, *_FALSE):
        return value in _TRUE
    raise CelError("no such overload")


def _of_non_zero(value: Any) -> Optional:
    is_zero = value is None or (not isinstance(value, Optional) and not value)
    return NONE if is_zero else some(value)


def _optional(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise CelError("no such overload")
    return value


def _value(value: Any) -> Any:
    if not _optional(value).has_value:
        raise CelError("optional.none() dereference")
    return value.held[0]


def _or_value(value: Any, otherwise: Any) -> Any:
    return value.held[0] if _optional(value).has_value else otherwise


def _or(value: Any, otherwise: Any) -> Any:
    return value if _optional(value).has_value else _optional(otherwise)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": size,
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "string": to_string,
    "bytes": to_bytes,
    "bool": to_bool,
    "dyn": lambda value: value,
    "type": lambda value: Type(type_name(value)),
}
METHODS: dict[str, Callable[..., Any]] = {
    "size": size,
    "hasValue": lambda value: _optional(value).has_value,
    "value": _value,
    "orValue": _or_value,
    "or": _or,
}
NAMESPACES: dict[str, Callable[..., Any]] = {
    "optional.of": some,
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": _of_non_zero,
}
