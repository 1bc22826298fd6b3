"""JSON patches: operations, and what is answered to those that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.patch import json
from orlop.errors import ApiError, BadRequest, Invalid


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": 1}, [], {"a": 1}),
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        (
            {"a": {"x": 1}},
            [{"op": "copy", "from": "/a", "path": "/b"}],
            {"a": {"x": 1}, "b": {"x": 1}},
        ),
        (
            {"a": 1},
            [{"op": "test", "path": "/a", "value": 1}, {"op": "replace", "path": "/a", "value": 2}],
            {"a": 2},
        ),
        (
            {"m": {"a/b": 1, "c~d": 2}},
            [{"op": "remove", "path": "/m/a~1b"}, {"op": "remove", "path": "/m/c~0d"}],
            {"m": {}},
        ),
    ],
)
def test_operations(target: dict[str, Any], patch: list[Any], result: dict[str, Any]) -> None:
    assert json.apply(target, patch) == result


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "remove", "path": "/missing"}],
        [{"op": "replace", "path": "/missing", "value": 1}],
        [{"op": "test", "path": "/a", "value": 2}],
        [{"op": "add", "path": "/a/b/c", "value": 1}],
        [{"op": "add", "path": "/list/7", "value": 1}],
        [{"op": "replace", "path": "", "value": 1}],
    ],
)
def test_what_does_not_fit_the_object_is_invalid(patch: list[Any]) -> None:
    with pytest.raises(Invalid):
        json.apply({"a": 1, "list": []}, patch)


def test_a_failed_operation_is_told_in_upstreams_words() -> None:
    with pytest.raises(
        Invalid, match="the server rejected our request due to an error in our request"
    ):
        json.apply({"a": 1}, [{"op": "test", "path": "/a", "value": 2}])


@pytest.mark.parametrize(
    "patch",
    [
        {},
        "text",
        [{"op": "explode", "path": "/a"}],
        [{"path": "/a", "value": 1}],
        [{"op": "add", "path": "/a"}],
        [{"op": "add", "value": 1}],
    ],
)
def test_what_is_no_patch_is_a_bad_request(patch: object) -> None:
    with pytest.raises(BadRequest):
        json.apply({"a": 1}, patch)


def test_a_patch_has_a_limit() -> None:
    operations = [{"op": "test", "path": "/a", "value": 1}] * (json.MAX_OPERATIONS + 1)
    with pytest.raises(BadRequest, match="maximum operations"):
        json.apply({"a": 1}, operations)


@pytest.mark.parametrize("source", [{}, {"from": None}, {"from": 1}, {"from": ["a"]}])
def test_a_copy_from_nowhere_is_refused(source):
    with pytest.raises(ApiError):
        json.apply({"a": 1}, [{"op": "copy", "path": "/b", **source}])
