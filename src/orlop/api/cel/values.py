"""The values of expressions that JSON does not have, and what equality and order mean for all.

Used by the compiler and the functions. null, bool, int, double, string, bytes, list and map are
Python's own; a bool is no number here. As the CEL specification: numbers of different types compare
by value, other values of different types are unequal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .errors import CelError
from .frames import charge

NANO = 1_000_000_000
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
_FIRST, _LAST = -62_135_596_800 * NANO, 253_402_300_800 * NANO  # the years 1 to 9999


class Uint(int):
    """An unsigned integer: `1u`."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    nanos: int

    def __str__(self) -> str:
        seconds, rest = divmod(abs(self.nanos), NANO)
        text = f"{seconds}.{rest:09d}".rstrip("0").rstrip(".")
        return f"{'-' if self.nanos < 0 else ''}{text}s"


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    nanos: int  # since 1970, UTC

    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.nanos // NANO, UTC)

    def __str__(self) -> str:
        fraction = f".{self.nanos % NANO:09d}".rstrip("0").rstrip(".")
        return self.moment().strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def timestamp(nanos: int) -> Timestamp:
    if not _FIRST <= nanos < _LAST:
        raise CelError("timestamp overflow")
    return Timestamp(nanos)


def duration(nanos: int) -> Duration:
    if not INT_MIN <= nanos <= INT_MAX:
        raise CelError("duration overflow")
    return Duration(nanos)


@dataclass(frozen=True, slots=True)
class Type:
    """The value of `type(x)`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be there; `held` is a list of one or none, so that null can be held."""

    held: tuple[Any, ...] = ()

    @property
    def has_value(self) -> bool:
        return bool(self.held)


class Lazy:
    """A holder whose fields are made when they are asked for, such as the variables of a policy."""

    cel_type = "map"

    def cel_has(self, name: str) -> bool:
        raise NotImplementedError

    def cel_get(self, name: str) -> Any:
        raise NotImplementedError


NONE = Optional()


def some(value: Any) -> Optional:
    return Optional((value,))


_TYPES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Type: "type",
    Optional: "optional_type",
}


def type_name(value: Any) -> str:
    return str(_TYPES.get(type(value)) or getattr(value, "cel_type", type(value).__name__))


def is_number(value: Any) -> bool:
    return type(value) in (int, float, Uint)


def equal(left: Any, right: Any) -> bool:
    if is_number(left) and is_number(right):
        return bool(left == right)
    if isinstance(left, list | dict):
        charge(1 + len(left) // 2)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        if len(left) != len(right):
            return False
        return all(
            (found := lookup(right, key)) is not _MISSING and equal(value, found)
            for key, value in left.items()
        )
    return type(left) is type(right) and bool(left == right)


_MISSING: Any = object()


def lookup(mapping: dict[Any, Any], key: Any) -> Any:
    """Return the value under a key, or `_MISSING`. `true` is no key of `{1: x}`."""
    found = mapping.get(key, _MISSING)
    if found is _MISSING or type(key) is str:
        return found
    charge(1 + len(mapping) // 4)
    if any(type(one) is bool for one in mapping) or type(key) is bool:
        same = [item for one, item in mapping.items() if equal(one, key)]
        return same[0] if same else _MISSING
    return found


def is_missing(value: Any) -> bool:
    return value is _MISSING


_ORDERED = (str, bytes, bool, Duration, Timestamp)


def less(left: Any, right: Any) -> bool:
    if is_number(left) and is_number(right):
        return bool(left < right)
    if type(left) is type(right) and type(left) in _ORDERED:
        return bool(left < right)
    raise CelError("no such overload")


def at_most(left: Any, right: Any) -> bool:
    if is_number(left) and is_number(right):
        return bool(left <= right)
    return not less(right, left)


def whole(value: int) -> int:
    """Return an int that fits into its 64 bits; CelError for others."""
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def natural(value: int) -> Uint:
    if not 0 <= value < 2**64:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def number_text(value: float) -> str:
    """Write a double as Go does."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)
