"""Merge patches: the examples of RFC 7396, and what is no patch."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.patch import merge
from orlop.errors import BadRequest


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "text"}, {"a": {"b": 1, "c": None}}, {"a": {"b": 1}}),
        ({"a": 1}, {"missing": None}, {"a": 1}),
    ],
)
def test_merging(target: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]) -> None:
    assert merge.apply(target, patch) == result


@pytest.mark.parametrize("patch", [[], "text", 1, None])
def test_what_is_no_object_is_refused(patch: object) -> None:
    with pytest.raises(BadRequest, match="must be a JSON object"):
        merge.apply({}, patch)
