"""The operators: arithmetic in 64 bits, comparison, logic that forgives an error it does not need.

Used by the compiler. The lazy ones get closures, because they may not need all of them; the strict
ones get values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .errors import CelError
from .frames import Eval, Frame
from .values import (
    Duration,
    Optional,
    Timestamp,
    Uint,
    at_most,
    duration,
    equal,
    is_missing,
    less,
    lookup,
    natural,
    timestamp,
    whole,
)


def _or(left: Eval, right: Eval) -> Eval:
    return _logic(left, right, decides=True)


def _and(left: Eval, right: Eval) -> Eval:
    return _logic(left, right, decides=False)


def _logic(left: Eval, right: Eval, *, decides: bool) -> Eval:
    """Make `&&` or `||`: one side that decides is enough, even if the other has no value."""

    def run(frame: Frame) -> Any:
        frame.spend()
        try:
            first = _boolean(left(frame))
        except CelError:
            if _boolean(right(frame)) is decides:
                return decides
            raise
        return decides if first is decides else _boolean(right(frame))

    return run


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise CelError("no such overload")
    return value


def _conditional(condition: Eval, yes: Eval, no: Eval) -> Eval:
    def run(frame: Frame) -> Any:
        frame.spend()
        return yes(frame) if _boolean(condition(frame)) else no(frame)

    return run


def _add(left: Any, right: Any) -> Any:
    match left, right:
        case Timestamp(), Duration():
            return timestamp(left.nanos + right.nanos)
        case Duration(), Timestamp():
            return timestamp(left.nanos + right.nanos)
        case Duration(), Duration():
            return duration(left.nanos + right.nanos)
    if type(left) is type(right):
        if type(left) in (str, bytes, list):
            return left + right
        return _arithmetic(left, right, lambda a, b: a + b)
    raise CelError("no such overload")


def _subtract(left: Any, right: Any) -> Any:
    match left, right:
        case Timestamp(), Timestamp():
            return duration(left.nanos - right.nanos)
        case Timestamp(), Duration():
            return timestamp(left.nanos - right.nanos)
        case Duration(), Duration():
            return duration(left.nanos - right.nanos)
    return _arithmetic(left, right, lambda a, b: a - b)


def _arithmetic(left: Any, right: Any, operation: Callable[[Any, Any], Any]) -> Any:
    if type(left) is not type(right):
        raise CelError("no such overload")
    if type(left) is int:
        return whole(operation(left, right))
    if type(left) is float:
        return operation(left, right)
    if type(left) is Uint:
        return natural(operation(int(left), int(right)))
    raise CelError("no such overload")


def _multiply(left: Any, right: Any) -> Any:
    return _arithmetic(left, right, lambda a, b: a * b)


def _divide(left: Any, right: Any) -> Any:
    if type(left) is float and type(right) is float:
        if right != 0.0:
            return left / right
        if left == 0.0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    if type(right) in (int, Uint) and right == 0:
        raise CelError("division by zero")
    return _arithmetic(left, right, _truncated)


def _truncated(left: int, right: int) -> int:
    """Divide towards zero, as Go does."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _modulo(left: Any, right: Any) -> Any:
    if type(left) is float:
        raise CelError("no such overload")
    if type(right) in (int, Uint) and right == 0:
        raise CelError("modulus by zero")
    return _arithmetic(left, right, lambda a, b: a - b * _truncated(a, b))


def _negate(value: Any) -> Any:
    if type(value) is int:
        return whole(-value)
    if type(value) is float:
        return -value
    raise CelError("no such overload")


def _in(value: Any, holder: Any) -> bool:
    if type(holder) is dict:
        return not is_missing(lookup(holder, value)) if _is_key(value) else False
    if type(holder) is list:
        return any(equal(value, one) for one in holder)
    raise CelError("no such overload")


def _is_key(value: Any) -> bool:
    return isinstance(value, str | int | float)


def index(value: Any, key: Any) -> Any:
    if isinstance(value, Optional):
        return Optional((index(value.held[0], key),)) if value.has_value else value
    if type(value) is dict:
        found = lookup(value, key) if _is_key(key) else None
        if not _is_key(key) or is_missing(found):
            raise CelError(f"no such key: {key}")
        return found
    if type(value) is not list or type(key) is bool or not isinstance(key, int | float):
        raise CelError("no such overload")
    if key != int(key):
        raise CelError(f"unsupported index value {key}")
    if not 0 <= key < len(value):
        raise CelError(f"index out of bounds: {int(key)}")
    return value[int(key)]


LAZY: dict[str, Callable[..., Eval]] = {"_||_": _or, "_&&_": _and, "_?_:_": _conditional}
STRICT: dict[str, Callable[..., Any]] = {
    "_==_": equal,
    "_!=_": lambda left, right: not equal(left, right),
    "_<_": less,
    "_<=_": at_most,
    "_>_": lambda left, right: less(right, left),
    "_>=_": lambda left, right: at_most(right, left),
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "_in_": _in,
    "!_": lambda value: not _boolean(value),
    "-_": _negate,
}
