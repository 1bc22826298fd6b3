"""JSON of strangers. Numbers are as in Go: what no integer of 64 bits can hold becomes a double.

The parser is msgspec's, which bounds its own recursion by the interpreter's. The number of values
is estimated before it runs, because a million empty objects are two megabytes of text and a hundred
of memory; then depth and number are checked exactly.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from .bounds import MAX_VALUES, OutOfBounds, check, too_deep, too_many

# Runs to the end where a text is not closed: else each quote after it would be tried anew.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
_LONG = re.compile(rb"\d{19}")  # fewer digits always fit
_LEAST, _MOST = -(2**63), 2**64 - 1


def decode_json(data: bytes | str, *, values: int = MAX_VALUES) -> Any:
    """Decode a text; ValueError where it is no JSON, or out of bounds."""
    encoded = data.encode() if isinstance(data, str) else data
    # Empty lists and objects are counted twice.
    if _estimate(encoded) > 2 * values and _estimate(_TEXT.sub(b"", encoded)) > 2 * values:
        raise too_many(values)
    try:
        value = msgspec.json.decode(encoded)
    except RecursionError:
        raise too_deep() from None
    check(value, values=values)
    return _in_64_bits(value) if _LONG.search(encoded) else value


def _estimate(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{") + 1


def _in_64_bits(value: Any) -> Any:
    """Turn larger integers into doubles; the depth is known to be bounded."""
    if type(value) is dict:
        for key, item in value.items():
            value[key] = _in_64_bits(item)
    elif type(value) is list:
        for index, item in enumerate(value):
            value[index] = _in_64_bits(item)
    elif type(value) is int and not _LEAST <= value <= _MOST:
        try:
            return float(value)
        except OverflowError:
            raise OutOfBounds("one of its numbers is out of the range of a double") from None
    return value
