"""Values against schemas: every keyword, in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.crd.structural_schema import ABSENT, Node
from orlop.api.crd.validation import check

NAMED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "n": {"type": "integer", "maximum": 5}},
    },
}
OUT_OF = "in body should be"


def problems(schema: dict[str, Any], value: Any, old: Any = ABSENT) -> list[str]:
    """Of the field `x`."""
    node = Node({"type": "object", "properties": {"x": schema}})
    return [str(error) for error in check(node, {"x": value}, {"x": old} if old else ABSENT)]


STRING = {"type": "string"}
VALID: list[tuple[dict[str, Any], Any]] = [
    (STRING, "a"),
    ({"type": "integer"}, 3),
    ({"type": "integer"}, 3.0),
    ({"type": "number"}, 3),
    ({"type": "number"}, 0.5),
    ({"type": "boolean"}, False),
    ({"type": "string", "nullable": True}, None),
    ({"x-kubernetes-int-or-string": True}, 3),
    ({"x-kubernetes-int-or-string": True}, "3"),
    ({"x-kubernetes-preserve-unknown-fields": True}, {"any": [1]}),
    ({"type": "string", "enum": ["a", "b"]}, "a"),
    ({"type": "integer", "enum": [1, 2]}, 1.0),
    ({"type": "string", "pattern": "^[a-z]+$"}, "abc"),
    ({"type": "string", "pattern": "b"}, "abc"),
    ({"type": "integer", "minimum": 1, "maximum": 3}, 3),
    ({"type": "number", "multipleOf": 0.5}, 1.5),
    ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05Z"),
    ({"type": "string", "format": "unheard-of"}, "anything"),
    ({"type": "string", "format": "ipv4"}, "10.0.0.1"),
    ({"type": "string", "format": "duration"}, "1h30m"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}),
    ({"type": "string", "oneOf": [{"minLength": 3}, {"maxLength": 1}]}, "abc"),
    ({"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "^a"}]}, "abc"),
    ({"type": "string", "allOf": [{"minLength": 1}, {"maxLength": 3}]}, "abc"),
    ({"type": "string", "not": {"enum": ["z"]}}, "abc"),
    (NAMED, [{"name": "a"}, {"name": "b"}]),
]


@pytest.mark.parametrize(("schema", "value"), VALID)
def test_a_right_value_has_no_problems(schema: dict[str, Any], value: Any) -> None:
    assert problems(schema, value) == []


INVALID: list[tuple[dict[str, Any], Any, list[str]]] = [
    (STRING, 3, ['x: Invalid value: "integer": x in body must be of type string: "integer"']),
    (
        {"type": "integer"},
        "a",
        ['x: Invalid value: "string": x in body must be of type integer: "string"'],
    ),
    (
        {"type": "integer"},
        1.5,
        ['x: Invalid value: "number": x in body must be of type integer: "number"'],
    ),
    (
        {"type": "integer"},
        True,
        ['x: Invalid value: "boolean": x in body must be of type integer: "boolean"'],
    ),
    (STRING, None, ['x: Invalid value: "null": x in body must be of type string: "null"']),
    (
        {"x-kubernetes-int-or-string": True},
        [],
        ['x: Invalid value: "array": x in body must be of type integer,string: "array"'],
    ),
    (
        {"type": "string", "enum": ["a", "b"]},
        "c",
        ['x: Unsupported value: "c": supported values: "a", "b"'],
    ),
    (
        {"type": "integer", "enum": [1, 2]},
        3,
        ['x: Unsupported value: 3: supported values: "1", "2"'],
    ),
    (
        {"type": "string", "pattern": "^[a-z]+$"},
        "A",
        ["x: Invalid value: \"A\": x in body should match '^[a-z]+$'"],
    ),
    (
        {"type": "string", "pattern": "^a$"},
        "a\n",
        ["x: Invalid value: \"a\\n\": x in body should match '^a$'"],
    ),
    ({"type": "string", "maxLength": 2}, "abc", ["x: Too long: may not be more than 2 bytes"]),
    (
        {"type": "string", "minLength": 2},
        "a",
        ['x: Invalid value: "a": x in body should be at least 2 chars long'],
    ),
    (
        {"type": "integer", "minimum": 1},
        0,
        [f"x: Invalid value: 0: x {OUT_OF} greater than or equal to 1"],
    ),
    (
        {"type": "integer", "maximum": 3},
        4,
        [f"x: Invalid value: 4: x {OUT_OF} less than or equal to 3"],
    ),
    (
        {"type": "number", "minimum": 1.5, "exclusiveMinimum": True},
        1.5,
        [f"x: Invalid value: 1.5: x {OUT_OF} greater than 1.5"],
    ),
    (
        {"type": "integer", "maximum": 3, "exclusiveMaximum": True},
        3,
        [f"x: Invalid value: 3: x {OUT_OF} less than 3"],
    ),
    (
        {"type": "integer", "multipleOf": 2},
        3,
        [f"x: Invalid value: 3: x {OUT_OF} a multiple of 2"],
    ),
    (
        {"type": "integer", "format": "int32"},
        2**31,
        ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in x'],
    ),
    (
        {"type": "string", "format": "date-time"},
        "today",
        ['x: Invalid value: "today": x in body must be of type date-time: "today"'],
    ),
    (
        {"type": "array", "items": STRING, "maxItems": 1},
        ["a", "b"],
        ["x: Too many: 2: must have at most 1 items"],
    ),
    (
        {"type": "array", "items": STRING, "minItems": 1},
        [],
        ["x: Invalid value: 0: x in body should have at least 1 items"],
    ),
    (
        {"type": "array", "items": STRING},
        ["a", 1],
        ['x[1]: Invalid value: "integer": x[1] in body must be of type string: "integer"'],
    ),
    (
        {"type": "array", "items": STRING},
        [None],
        ['x[0]: Invalid value: "null": x[0] in body must be of type string: "null"'],
    ),
    (
        {"type": "object", "properties": {"a": STRING}, "required": ["a", "b"]},
        {"a": "1"},
        ["x.b: Required value"],
    ),
    (
        {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
        {"a": 1, "b": "2"},
        [
            "x: Too many: 2: must have at most 1 items",
            'x.b: Invalid value: "string": x.b in body must be of type integer: "string"',
        ],
    ),
    (
        {"type": "object", "additionalProperties": STRING, "minProperties": 1},
        {},
        ["x: Invalid value: 0: x in body should have at least 1 properties"],
    ),
    (
        {"type": "string", "oneOf": [{"minLength": 3}, {"pattern": "^b"}]},
        "a",
        [
            '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). '
            "Found none valid",
            'x: Invalid value: "a": x in body should be at least 3 chars long',
        ],
    ),
    (
        {"type": "string", "oneOf": [{"minLength": 1}, {"maxLength": 9}]},
        "a",
        [
            '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives",
        ],
    ),
    (
        {"type": "object", "properties": {"a": STRING}, "anyOf": [{"required": ["a"]}]},
        {},
        [
            '<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)',
            "x.a: Required value",
        ],
    ),
    (
        {"type": "string", "allOf": [{"minLength": 3}]},
        "a",
        [
            'x: Invalid value: "a": x in body should be at least 3 chars long',
            '<nil>: Invalid value: "": "x" must validate all the schemas (allOf)',
        ],
    ),
    (
        {"type": "string", "not": {"enum": ["z"]}},
        "z",
        ['<nil>: Invalid value: "": "x" must not validate the schema (not)'],
    ),
    (
        NAMED,
        [{"name": "a"}, {"name": "b"}, {"name": "a"}],
        ['x[2]: Duplicate value: map[string]interface {}{"name":"a"}'],
    ),
    (
        {"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
        ["a", "b", "a"],
        ['x[2]: Duplicate value: "a"'],
    ),
]


@pytest.mark.parametrize(("schema", "value", "expected"), INVALID)
def test_a_wrong_value_is_told(schema: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert problems(schema, value) == expected


def test_keys_of_a_map_may_come_from_defaults() -> None:
    protocol = {"type": "string", "default": "TCP"}
    properties = {"port": {"type": "integer"}, "protocol": protocol}
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "properties": properties},
    }
    ports = [{"port": 1}, {"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP"}]
    found = problems(schema, ports)
    assert found == ['x[2]: Duplicate value: map[string]interface {}{"port":1, "protocol":"TCP"}']


def test_what_has_not_changed_is_not_judged_anew() -> None:
    limit = {"type": "integer", "maximum": 5}
    assert problems(limit, 9, 9) == []
    assert problems(limit, 8, 9) == ["x: Invalid value: 8: x in body should be less than or equal to 5"]  # noqa: E501  # fmt: skip


def test_items_of_a_map_are_compared_with_their_old_selves() -> None:
    old = [{"name": "a", "n": 9}, {"name": "b", "n": 1}]
    assert problems(NAMED, [{"name": "b", "n": 2}, {"name": "a", "n": 9}], old) == []
    assert problems(NAMED, [{"name": "b", "n": 8}, {"name": "a", "n": 9}], old) == [
        "x[0].n: Invalid value: 8: x[0].n in body should be less than or equal to 5"
    ]


FORMATS = {
    "ipv4": ("10.0.0.1", "10.0.0.256"),
    "ipv6": ("::1", "10.0.0.1"),
    "cidr": ("10.0.0.0/8", "10.0.0.0"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123e4567"),
    "uuid4": ("123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    "email": ("a@b.c", "a.b.c"),
    "hostname": ("a.example.com", "a..example"),
    "uri": ("https://a/b", "a b"),
    "byte": ("aGVsbG8=", "a!"),
    "date": ("2026-01-02", "2026-13-02"),
    "date-time": ("2026-01-02T03:04:05.5+02:00", "2026-01-02"),
    "duration": ("1.5h", "soon"),
    "mac": ("01:23:45:67:89:ab", "01:23"),
    "hexcolor": ("#a0b1c2", "#a0b1"),
    "k8s-short-name": ("a-b", "a.b"),
    "k8s-long-name": ("a.b", "A"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_accept_and_refuse(name: str) -> None:
    good, bad = FORMATS[name]
    assert problems({"type": "string", "format": name}, good) == []
    assert len(problems({"type": "string", "format": name}, bad)) == 1
