"""Reads what a plain word of YAML means: a number, a truth value, nothing, or just text.

Read by the builder of documents. As Go's yaml packages have it, through which kubectl reads
manifests: of YAML 1.1 there are octal, hexadecimal and binary integers and underscores between
digits; numbers to the base of 60, and times, are text. Every number is read in linear time.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

_TAG = "tag:yaml.org,2002:"
_TRUE = ("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
}
_NO_NUMBERS = {
    f"{sign}.{word}" for sign in ("", "+", "-") for word in ("inf", "Inf", "INF")
} | {".nan", ".NaN", ".NAN"}  # fmt: skip
_DIGITS = "+-.0123456789"
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)"
    r"|(?P<dec>0|[1-9][0-9]*))"
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_LONGEST = 66  # of an integer of 64 bits, with its sign and base
_LEAST, _MOST = -(2**63), 2**64 - 1


def plain(text: str) -> Any:
    """Return the value of a word without quotes or tag; ValueError where JSON has none."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _DIGITS:
        return text
    if text in _NO_NUMBERS:
        raise ValueError(f"{text} is no number that JSON has")
    return _number(text)


def _number(text: str) -> Any:
    """Read an integer of 64 bits, else a double, else text."""
    digits = text.replace("_", "")
    match = _INTEGER.fullmatch(digits)
    if match is not None and len(digits) <= _LONGEST:
        base = str(match.lastgroup)
        value = int(match["sign"] + match[base], _BASES[base])
        if _LEAST <= value <= _MOST:
            return value
    if _FLOAT.fullmatch(digits):
        found = float(digits)
        if abs(found) != float("inf"):
            return found
    return text


def tagged(tag: str, text: str) -> Any:
    """Return the value of a tagged scalar; ValueError where it is not that, or JSON has none."""
    read = _TAGGED.get(tag.removeprefix(_TAG)) if tag.startswith(_TAG) else None
    if tag == "!":
        return text
    if read is None:
        raise ValueError(f"the tag {tag[:100]!r} means nothing in JSON: leave it out")
    return read(text)


def _of_type(*types: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = plain(text)
        if type(value) not in types:
            raise ValueError(f"{text[:100]!r} is not of the type that its tag says")
        return value

    return read


def _double(text: str) -> float:
    return float(_of_type(int, float)(text))


def _decoded(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except (binascii.Error, ValueError):
        raise ValueError("a value tagged !!binary holds no text in base64") from None


_TAGGED: dict[str, Callable[[str], Any]] = {
    "str": str,
    "timestamp": str,
    "int": _of_type(int),
    "float": _double,
    "bool": _of_type(bool),
    "null": _of_type(type(None)),
    "binary": _decoded,
}
