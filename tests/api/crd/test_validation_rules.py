"""x-kubernetes-validations: what rules refuse, how they say it, and what they cost."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.crd.structural_schema import ABSENT, Node
from orlop.api.crd.validation_rules import Rules, field_path, seen_by_cel

Obj = dict[str, Any]


def failures(schema: Obj, value: Any, old: Any = ABSENT) -> list[str]:
    """Of the field `spec`."""
    node = Node({"type": "object", "properties": {"spec": schema}})
    former = {"spec": old} if old is not ABSENT else ABSENT
    return [str(error) for error in Rules(node).check({"spec": value}, former)]


def ruled(**rule: Any) -> Obj:
    properties = {"min": {"type": "integer"}, "max": {"type": "integer"}}
    return {"type": "object", "properties": properties, "x-kubernetes-validations": [rule]}


ORDER = "self.min <= self.max"
CASES: list[tuple[str, Obj, Any, list[str]]] = [
    ("it holds", ruled(rule=ORDER), {"min": 1, "max": 2}, []),
    (
        "without a message",
        ruled(rule=ORDER),
        {"min": 3, "max": 2},
        [f'spec: Invalid value: "object": failed rule: {ORDER}'],
    ),
    (
        "with a message",
        ruled(rule=ORDER, message="min over max"),
        {"min": 3, "max": 2},
        ['spec: Invalid value: "object": min over max'],
    ),
    (
        "with an expression",
        ruled(
            rule=ORDER, message="m", messageExpression="'%d over %d'.format([self.min, self.max])"
        ),
        {"min": 3, "max": 2},
        ['spec: Invalid value: "object": 3 over 2'],
    ),
    (
        "with an expression that fails",
        ruled(rule=ORDER, message="m", messageExpression="string(self.missing)"),
        {"min": 3, "max": 2},
        ['spec: Invalid value: "object": m'],
    ),
    (
        "with an expression of several lines",
        ruled(rule=ORDER, message="m", messageExpression="'a\\nb'"),
        {"min": 3, "max": 2},
        ['spec: Invalid value: "object": m'],
    ),
    (
        "with a field and a reason",
        ruled(rule=ORDER, message="m", reason="FieldValueForbidden", fieldPath=".min"),
        {"min": 3, "max": 2},
        ["spec.min: Forbidden: m"],
    ),
    (
        "required",
        ruled(rule="has(self.min)", message="m", reason="FieldValueRequired", fieldPath=".min"),
        {},
        ["spec.min: Required value: m"],
    ),
    (
        "duplicate",
        ruled(rule="false", reason="FieldValueDuplicate"),
        {},
        ['spec: Duplicate value: "object"'],
    ),
    (
        "no value",
        ruled(rule=ORDER),
        {"min": 3},
        [f'spec: Invalid value: "object": no such key: max evaluating rule: {ORDER}'],
    ),
    (
        "of items",
        {
            "type": "array",
            "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'b'"}]},
        },
        ["a", "b"],
        ["spec[1]: Invalid value: \"string\": failed rule: self != 'b'"],
    ),
    (
        "of values of a map",
        {
            "type": "object",
            "additionalProperties": {
                "type": "integer",
                "x-kubernetes-validations": [{"rule": "self > 0", "message": "m"}],
            },
        },
        {"k": 0},
        ['spec[k]: Invalid value: "integer": m'],
    ),
]


@pytest.mark.parametrize(
    ("schema", "value", "expected"), [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
def test_a_rule_is_told_as_it_wishes(schema: Obj, value: Any, expected: list[str]) -> None:
    assert failures(schema, value) == expected


IMMUTABLE = {"rule": "self == oldSelf", "message": "is immutable"}


def test_a_rule_about_a_change_needs_an_old_value() -> None:
    schema = {"type": "string", "x-kubernetes-validations": [IMMUTABLE]}
    assert failures(schema, "a") == []
    assert failures(schema, "a", "a") == []
    assert failures(schema, "b", "a") == ['spec: Invalid value: "string": is immutable']


def test_items_of_a_map_have_old_selves_and_those_of_other_lists_do_not() -> None:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "shrinks"}],
    }
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    old = [{"name": "a", "v": 5}, {"name": "b", "v": 1}]
    new = [{"name": "b", "v": 2}, {"name": "a", "v": 4}, {"name": "c", "v": 0}]
    schema = {"type": "array", "items": item}
    assert failures({**schema, **keyed}, new, old) == ['spec[1]: Invalid value: "object": shrinks']
    assert failures(schema, new, old) == []


def test_with_optional_old_self_a_rule_sees_creation_too() -> None:
    rule = {
        "rule": "oldSelf.hasValue() || self == 'first'",
        "optionalOldSelf": True,
        "message": "m",
    }
    schema = {"type": "string", "x-kubernetes-validations": [rule]}
    assert failures(schema, "first") == []
    assert failures(schema, "other") == ['spec: Invalid value: "string": m']
    assert failures(schema, "other", "first") == []


def test_what_has_not_changed_is_not_judged_by_a_newer_rule() -> None:
    schema = ruled(rule="false", message="m")
    assert failures(schema, {"min": 1}, {"min": 1}) == []
    assert failures(schema, {"min": 2}, {"min": 1}) == ['spec: Invalid value: "object": m']


def test_null_is_not_asked() -> None:
    schema = {"type": "string", "nullable": True, "x-kubernetes-validations": [{"rule": "false"}]}
    assert failures(schema, None) == []


def test_a_rule_that_costs_too_much_ends_all_rules() -> None:
    slow = {"rule": "self.all(a, self.all(b, self.all(c, self.all(d, true))))"}
    schema = {
        "type": "array",
        "items": {"type": "integer"},
        "x-kubernetes-validations": [slow, {"rule": "false"}],
    }
    first, last = failures(schema, list(range(60)))
    assert "call cost exceeds limit" in first
    assert "running out of cost budget, no further validation rules will be run" in last


SEEN: list[tuple[Obj, Any, str]] = [
    (
        {"type": "string", "format": "date-time"},
        "2026-01-02T03:04:05Z",
        "self.getFullYear() == 2026",
    ),
    ({"type": "string", "format": "date"}, "2026-01-02", "self.getDate() == 2"),
    ({"type": "string", "format": "duration"}, "1h", "self == duration('60m')"),
    ({"type": "string", "format": "byte"}, "YQ==", "self == b'a'"),
    ({"type": "number"}, 3, "self / 2.0 == 1.5"),
    ({"type": "integer"}, 3.0, "self % 2 == 1"),
    ({"x-kubernetes-int-or-string": True}, "50%", "type(self) == string && self.endsWith('%')"),
    ({"x-kubernetes-int-or-string": True}, 50, "type(self) == int && self > 1"),
]


@pytest.mark.parametrize(("schema", "value", "rule"), SEEN)
def test_an_expression_sees_the_value_of_its_type(schema: Obj, value: Any, rule: str) -> None:
    assert failures({**schema, "x-kubernetes-validations": [{"rule": rule}]}, value) == []


def test_what_needs_no_other_view_is_not_copied() -> None:
    node = Node({"type": "object", "properties": {"a": {"type": "string"}}})
    value = {"a": "x"}
    assert seen_by_cel(node, value) is value


@pytest.mark.parametrize(
    ("text", "path"), [("", ""), (".a.b", ".a.b"), (".a['b.c']", ".a[b.c]"), (".a[0]", ".a[0]")]
)
def test_a_field_path_is_written_as_errors_write_it(text: str, path: str) -> None:
    assert field_path(text) == path


def test_what_is_no_field_path_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected \[ or \."):
        field_path("a.b")
