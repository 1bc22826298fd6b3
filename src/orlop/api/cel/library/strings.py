"""Functions of strings: CEL's own, cel-go's extensions, and Kubernetes' find and findAll.

Part of the library. Positions count code points. What makes more of what it is given than there was
pays for it before it begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...patterns import Pattern, PatternError, compiled
from ..errors import CelError
from ..frames import charge
from ..values import Duration, Timestamp, is_number, number_text
from .conversions import to_string

_VERB = re.compile(r"%(?:\.(\d+))?([a-zA-Z%])")
_LONGEST = 10_000_000  # characters an expression may make
_WORK_A_STEP = 1000  # of what a search costs, see `patterns`
_MOST_PLACES = 1000  # of a number that is formatted


def _text(value: Any) -> str:
    if type(value) is not str:
        raise CelError("no such overload")
    return value


def _regex(pattern: Any, text: str) -> Pattern:
    """Return a compiled expression, once a search of the text with it has been paid for."""
    try:
        regex = compiled(_text(pattern))
    except PatternError as error:
        raise CelError(str(error)) from error
    charge(1 + regex.work(text) // _WORK_A_STEP)
    return regex


def matches(text: Any, pattern: Any) -> bool:
    return _regex(pattern, _text(text)).matches(text)


def find(text: Any, pattern: Any) -> str:
    return _regex(pattern, _text(text)).find(text) or ""


def find_all(text: Any, pattern: Any, limit: int = -1) -> list[str]:
    return _regex(pattern, _text(text)).find_all(text, limit if limit >= 0 else None)


def _position(text: str, at: Any) -> int:
    if type(at) is not int:
        raise CelError("no such overload")
    if not 0 <= at <= len(text):
        raise CelError(f"index out of range: {at}")
    return at


def index_of(text: Any, part: Any, start: Any = 0) -> int:
    return _text(text).find(_text(part), _position(text, start))


def last_index_of(text: Any, part: Any, end: Any = None) -> int:
    if end is None:
        return _text(text).rfind(_text(part))
    return _text(text).rfind(_text(part), 0, _position(text, end) + len(part))


def _char_at(text: Any, at: Any) -> str:
    return _text(text)[_position(text, at) : at + 1]


def _substring(text: Any, start: Any, end: Any = None) -> str:
    first = _position(_text(text), start)
    last = len(text) if end is None else _position(text, end)
    if first > last:
        raise CelError(f"invalid substring range. start: {first}, end: {last}")
    return str(text[first:last])


def _replace(text: Any, old: Any, new: Any, limit: int = -1) -> str:
    pieces = _text(text).count(_text(old)) if limit < 0 else limit
    if len(text) + pieces * len(_text(new)) > _LONGEST:
        raise CelError("the result of replace is too long")
    return str(text.replace(old, new, limit))


def _split(text: Any, separator: Any, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if limit == 1:
        return [_text(text)]
    if not _text(separator):
        letters = list(_text(text))
        return letters if limit < 0 else [*letters[: limit - 1], "".join(letters[limit - 1 :])]
    return _text(text).split(separator, limit - 1 if limit > 0 else -1)


def _join(items: Any, separator: Any = "") -> str:
    if type(items) is not list:
        raise CelError("no such overload")
    total = sum(len(_text(item)) for item in items) + len(_text(separator)) * len(items)
    charge(total // 10)
    return str(separator.join(items))


def _ascii(change: Callable[[str], str]) -> Callable[[Any], str]:
    return lambda text: "".join(change(c) if c.isascii() else c for c in _text(text))


def _format(text: Any, values: Any) -> str:
    """Write `"%s is %d".format(["a", 1])`. As cel-go's strings extension."""
    left = list(values)

    def fill(match: re.Match[str]) -> str:
        precision, verb = match.groups()
        if verb == "%":
            return "%"
        if not left:
            raise CelError("index 0 out of range")
        return _filled(verb, left.pop(0), int(precision[-9:]) if precision else 6)

    return _VERB.sub(fill, _text(text))


def _filled(verb: str, value: Any, precision: int) -> str:
    if precision > _MOST_PLACES:
        raise CelError(f"could not format a value with more than {_MOST_PLACES} decimal places")
    if verb == "s":
        return _shown(value)
    if verb in ("d", "b", "o", "x", "X") and is_number(value) and type(value) is not float:
        return format(int(value), verb)
    if verb in ("x", "X") and type(value) in (str, bytes):
        data = value.encode() if type(value) is str else value
        return str(data.hex() if verb == "x" else data.hex().upper())
    if verb in ("f", "e") and is_number(value):
        return format(float(value), f".{precision}{verb}")
    raise CelError(f"could not format a value with %{verb}")


def _shown(value: Any) -> str:
    charge(1 + len(value) // 10 if type(value) in (str, bytes) else 1)
    match value:
        case None:
            return "null"
        case float():
            return number_text(value)
        case list():
            return "[" + ", ".join(_shown(item) for item in value) + "]"
        case dict():
            return "{" + ", ".join(f"{_shown(k)}: {_shown(v)}" for k, v in value.items()) + "}"
        case Timestamp() | Duration():
            return str(value)
    return to_string(value)


METHODS: dict[str, Callable[..., Any]] = {
    "contains": lambda text, part: _text(part) in _text(text),
    "startsWith": lambda text, part: _text(text).startswith(_text(part)),
    "endsWith": lambda text, part: _text(text).endswith(_text(part)),
    "matches": matches,
    "find": find,
    "findAll": find_all,
    "charAt": _char_at,
    "substring": _substring,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "trim": lambda text: _text(text).strip(),
    "lowerAscii": _ascii(str.lower),
    "upperAscii": _ascii(str.upper),
    "reverse": lambda text: _text(text)[::-1],
    "format": _format,
}
