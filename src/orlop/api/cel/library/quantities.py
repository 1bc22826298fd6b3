"""Kubernetes' quantity(): amounts such as 500m and 1.5Gi that can be compared and summed.

Part of the library. As apiserver/pkg/cel/library/quantity.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...quantity import NANO, QuantityError
from ...quantity import Quantity as Amount
from ...quantity import parse as parse_amount
from ..errors import CelError
from .versions import Version


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    amount: Amount
    cel_type = "kubernetes.Quantity"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.amount.nanos == other.amount.nanos

    def __hash__(self) -> int:
        return hash(self.amount.nanos)


def _quantity(text: Any) -> Quantity:
    if type(text) is not str:
        raise CelError("no such overload")
    try:
        return Quantity(parse_amount(text))
    except QuantityError as error:
        raise CelError(str(error)) from error


def _is_quantity(text: Any) -> bool:
    try:
        _quantity(text)
    except CelError:
        if type(text) is not str:
            raise
        return False
    return True


def _nanos(value: Any) -> int:
    if type(value) is int:
        return value * NANO
    if not isinstance(value, Quantity):
        raise CelError("no such overload")
    return value.amount.nanos


def _as_integer(value: Any) -> int:
    whole, rest = divmod(_nanos(value), NANO)
    if rest or not -(2**63) <= whole < 2**63:
        raise CelError("cannot convert value to integer")
    return whole


def _is_integer(value: Any) -> bool:
    whole, rest = divmod(_nanos(value), NANO)
    return not rest and -(2**63) <= whole < 2**63


def _sum(left: Any, right: Any, sign: int) -> Quantity:
    form = left.amount.form if isinstance(left, Quantity) else ""
    return Quantity(Amount(_nanos(left) + sign * _nanos(right), form))


def _compare(left: Any, right: Any) -> int:
    """Compare quantities, or versions, whose methods have the same names."""
    if isinstance(left, Version) and isinstance(right, Version):
        return (left > right) - (left < right)
    one, other = _nanos(left), _nanos(right)
    return (one > other) - (one < other)


FUNCTIONS: dict[str, Callable[..., Any]] = {"quantity": _quantity, "isQuantity": _is_quantity}
METHODS: dict[str, Callable[..., Any]] = {
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: _nanos(value) / NANO,
    "sign": lambda value: (_nanos(value) > 0) - (_nanos(value) < 0),
    "add": lambda left, right: _sum(left, right, 1),
    "sub": lambda left, right: _sum(left, right, -1),
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "compareTo": _compare,
}
