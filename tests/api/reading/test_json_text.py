"""JSON of strangers: what it may be, and what its numbers become."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.api.reading import OutOfBounds, decode_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_what_is_written_is_read(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert decode_json(text) == value
        assert decode_json(text.encode()) == value


@given(st.binary(max_size=60) | st.text('[]{}",:1e-\\u ', max_size=60))
def test_garbage_is_a_value_error_and_nothing_else(data: bytes | str) -> None:
    try:
        decode_json(data)
    except ValueError:
        pass


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("-9223372036854775809", -(2.0**63)),
        ('{"a":[1' + "0" * 30 + "]}", {"a": [1e30]}),
        ('"' + "1" * 30 + '"', "1" * 30),
    ],
)
def test_what_no_integer_can_hold_is_a_double(text: str, value: Any) -> None:
    found = decode_json(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["1" + "0" * 400, "1e999", "[" * 100_000, '{"a":' * 300])
def test_what_is_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"out of|nested|truncated|double"):
        decode_json(text)


def test_values_are_counted_before_any_is_made() -> None:
    with pytest.raises(OutOfBounds, match="values"):
        decode_json("[" + "{}," * 1_000_000 + "{}]")
    commas = "," * 1_000_000
    assert decode_json(json.dumps({"a": commas, "b": '"' + commas})) == {
        "a": commas, "b": '"' + commas
    }  # fmt: skip
