"""What a client hears of fields that are unknown or given twice."""

from __future__ import annotations

import pytest

from orlop.api import kinds
from orlop.api.schema import strict


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        (b'{"a": 1}', []),
        (b'{"a": 1, "a": 2}', ["a"]),
        (b'{"spec": {"replicas": 1, "replicas": 2}}', ["spec.replicas"]),
        (
            b'{"spec": {"containers": [{"name": "a"}, {"name": "b", "name": "c", "name": "d"}]}}',
            ["spec.containers[1].name"],
        ),
        (b'{"a": {"x": 1, "x": 2}, "b": {"y": 1, "y": 2}}', ["a.x", "b.y"]),
        (b'{"a": {"x": 1}, "a": {"x": 2}}', ["a"]),
        (b"[]", []),
    ],
)
def test_keys_given_twice_are_found_where_they_are(body: bytes, paths: list[str]) -> None:
    assert strict.duplicate_fields(body) == paths


def test_what_is_no_json_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"Expecting|double quotes"):
        strict.duplicate_fields(b"{nonsense}")


def test_warnings_name_each_field() -> None:
    assert strict.warnings(["spec.x"], ["spec.y"]) == [
        'unknown field "spec.x"',
        'duplicate field "spec.y"',
    ]
    assert strict.warnings([]) == []


def test_strict_clients_are_refused_with_all_of_them() -> None:
    error = strict.strict_error(kinds.DEPLOYMENT, ["spec.x", "spec.z"], ["spec.y"])
    assert error.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: '
        'unknown field "spec.x", unknown field "spec.z", duplicate field "spec.y"'
    )
    assert error.status()["code"] == 400
