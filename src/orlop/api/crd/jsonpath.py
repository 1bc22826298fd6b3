"""The part of JSONPath that definitions use: columns, scale paths, selectable fields.

Parsed when a definition is compiled; a ValueError says what is wrong with a path. It knows fields,
quoted names, indexes, slices, `[*]` and filters by comparison; expressions of `kubectl -o jsonpath`
such as range are not part of it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from ..reading import decode_json

Step = Callable[[Any], Iterator[Any]]
_NAME = re.compile(r"(?:[^.\[\]\\'\"\s()]|\\.)+")
_SLICE = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(-?\d*))?")
_SIGN = re.compile(r"==|!=|<=|>=|<|>|=|!")
_LONGEST = 1024  # characters of a path
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JsonPath:
    """A compiled path such as `.status.conditions[?(@.type=="Ready")].status`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = _steps(text)

    def find(self, obj: Any) -> list[Any]:
        """Return everything the path leads to, in order; nothing where it leads nowhere."""
        found = [obj]
        for step in self._steps:
            found = [inner for value in found for inner in step(value)]
        return found

    def first(self, obj: Any) -> Any:
        """Return the first value, None where there is none."""
        return next(iter(self.find(obj)), None)


def _steps(text: str) -> list[Step]:
    if len(text) > _LONGEST:
        raise ValueError(f"a JSONPath may have at most {_LONGEST} characters, not {len(text)}")
    rest = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if rest and rest[0] not in ".[":
        raise ValueError(f"{text!r} is no JSONPath: it must begin with a dot")
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        if rest[at] == "[":
            end = _closing(rest, at)
            steps.append(_bracket(rest[at + 1 : end].strip()))
            at = end + 1
            continue
        at += 1  # the dot
        if at == len(rest) and not steps:
            break  # a lone dot is the object itself
        if at < len(rest) and rest[at] == "[":
            continue
        match = _NAME.match(rest, at)
        if match is None:
            raise ValueError(f"{text!r} is no JSONPath: a name was expected at {at}")
        name = re.sub(r"\\(.)", r"\1", match[0])
        steps.append(_every if name == "*" else _field(name))
        at = match.end()
    return steps


def _closing(text: str, start: int) -> int:
    quote = ""
    for at in range(start + 1, len(text)):
        if quote:
            quote = "" if text[at] == quote and text[at - 1] != "\\" else quote
        elif text[at] in "'\"":
            quote = text[at]
        elif text[at] == "]":
            return at
    raise ValueError(f"{text!r} is no JSONPath: a bracket is not closed")


def _bracket(inside: str) -> Step:
    if inside == "*":
        return _every
    if inside[:1] in ("'", '"') and inside[-1:] == inside[:1] and len(inside) > 1:
        return _field(re.sub(r"\\(.)", r"\1", inside[1:-1]))
    if inside.startswith("?"):
        return _filter(inside)
    match = _SLICE.fullmatch(inside)
    if match is None or not inside:
        raise ValueError(f"[{inside}] is neither an index, a name, a slice nor a filter")
    return _index(inside, match)


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _index(inside: str, match: re.Match[str]) -> Step:
    if ":" not in inside:
        at = int(inside)

        def one(value: Any) -> Iterator[Any]:
            if isinstance(value, list) and -len(value) <= at < len(value):
                yield value[at]

        return one
    parts = [int(part) if part else None for part in match.groups()]
    chosen = slice(*parts)

    def some(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[chosen]

    return some


def _comparison(inside: str) -> tuple[str, str, str]:
    """Split `?(@.type == "Ready")` into its parts; sign and right are empty in `?(@.type)`."""
    words = inside.removeprefix("?(").removesuffix(")").strip()
    match = _SIGN.search(words)
    left, sign = (words[: match.start()], match[0]) if match else (words, "")
    right = words[match.end() :].strip() if match else ""
    is_whole = inside.startswith("?(") and inside.endswith(")") and left.startswith("@")
    if not is_whole or (sign and (sign not in _COMPARE or not right)):
        raise ValueError(f"[{inside}] is no filter such as [?(@.type=='Ready')]")
    return left.rstrip(), sign, right


def _filter(inside: str) -> Step:
    left, sign, right = _comparison(inside)
    path = _steps(left[1:])
    wanted = _literal(right) if sign else None
    compare = _COMPARE.get(sign)

    def matches(item: Any) -> bool:
        found = [item]
        for step in path:
            found = [inner for value in found for inner in step(value)]
        if compare is None:
            return bool(found)
        try:
            return any(compare(value, wanted) for value in found)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if matches(item))

    return step


def _literal(text: str) -> Any:
    if text[:1] == "'" and text[-1:] == "'":
        return text[1:-1]
    try:
        return decode_json(text)
    except ValueError:
        raise ValueError(f"{text} is no value to compare with") from None
