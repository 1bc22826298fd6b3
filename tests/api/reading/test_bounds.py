"""How deep and how wide plain data may be, whatever it came from."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.reading import MAX_DEPTH, MAX_VALUES, OutOfBounds, check


def nested(levels: int, *, in_lists: bool) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if in_lists else {"a": value}
    return value


@pytest.mark.parametrize("in_lists", [True, False])
def test_depth_has_a_bound(in_lists: bool) -> None:
    check(nested(MAX_DEPTH, in_lists=in_lists))
    for levels in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(OutOfBounds, match="nested more than 200 levels deep: make it flatter"):
            check(nested(levels, in_lists=in_lists))


@pytest.mark.parametrize("value", [None, 1, "a", [], {}, [1], {"a": {"b": [None]}}])
def test_what_is_small_is_within(value: Any) -> None:
    check(value)


def test_the_number_of_values_has_a_bound() -> None:
    check([0] * (MAX_VALUES - 1))
    check({str(n): 0 for n in range(MAX_VALUES - 1)})
    with pytest.raises(OutOfBounds, match="more than 100000 values: split it into several objects"):
        check([0] * MAX_VALUES)
    check([0] * MAX_VALUES, values=MAX_VALUES + 1)


def test_what_is_there_twice_counts_twice() -> None:
    value: Any = [1, 1]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(OutOfBounds, match="values"):
        check(value)
