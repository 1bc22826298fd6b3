"""Functions of lists: Kubernetes' isSorted, sum, min, max, indexOf, and cel-go's sets.

Part of the library. Durations can be summed as numbers can; the sum of nothing is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from ..errors import CelError
from ..frames import charge
from ..operators import STRICT
from ..values import at_most, equal, less


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise CelError("no such overload")
    return value


def _is_sorted(items: Any) -> bool:
    items = _list(items)
    return all(at_most(items[at], items[at + 1]) for at in range(len(items) - 1))


def _sum(items: Any) -> Any:
    if any(type(item) in (str, bytes, list) for item in _list(items)):
        raise CelError("no such overload")
    return reduce(STRICT["_+_"], items) if items else 0


def _least(items: Any) -> Any:
    if not _list(items):
        raise CelError("min called on empty list")
    return reduce(lambda left, right: right if less(right, left) else left, items)


def _greatest(items: Any) -> Any:
    if not _list(items):
        raise CelError("max called on empty list")
    return reduce(lambda left, right: right if less(left, right) else left, items)


def index_of(items: Any, wanted: Any) -> int:
    return next((at for at, item in enumerate(_list(items)) if equal(item, wanted)), -1)


def last_index_of(items: Any, wanted: Any) -> int:
    found = [at for at, item in enumerate(_list(items)) if equal(item, wanted)]
    return found[-1] if found else -1


def _has(items: list[Any], wanted: Any) -> bool:
    charge(1 + len(items) // 4)
    return any(equal(item, wanted) for item in items)


def _contains(whole: Any, part: Any) -> bool:
    return all(_has(_list(whole), item) for item in _list(part))


def _slice(items: Any, start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(_list(items)):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def _distinct(items: Any) -> list[Any]:
    out: list[Any] = []
    for item in _list(items):
        if not _has(out, item):
            out.append(item)
    return out


def _flatten(items: Any, depth: int = 1) -> list[Any]:
    out: list[Any] = []
    charge(1 + len(_list(items)))
    for item in items:
        if type(item) is list and depth > 0:
            out += _flatten(item, depth - 1)
        else:
            out.append(item)
    return out


METHODS: dict[str, Callable[..., Any]] = {
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": _least,
    "max": _greatest,
    "slice": _slice,
    "distinct": _distinct,
    "flatten": _flatten,
}
NAMESPACES: dict[str, Callable[..., Any]] = {
    "sets.contains": _contains,
    "sets.equivalent": lambda left, right: _contains(left, right) and _contains(right, left),
    "sets.intersects": lambda left, right: any(_has(_list(left), item) for item in _list(right)),
}
