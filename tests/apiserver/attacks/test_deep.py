"""The deepest object there may be, through everything that walks an object.

Recursion of ours is bounded by the interpreter at a thousand calls; this is what shows that 200
levels are within it everywhere, whatever the kind.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from orlop.api.reading import MAX_DEPTH
from tests.apiserver.attacks.target import Target
from tests.apiserver.attacks.test_expressions import TEXT, Thing, _nested

ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
MERGE, JSON = "application/merge-patch+json", "application/json-patch+json"


def _in_objects(levels: int, end: Any = "z") -> Any:
    for _ in range(levels):
        end = {"a": end}
    return end


def _in_lists(levels: int, end: Any = "z") -> Any:
    for _ in range(levels):
        end = [end]
    return end


def _mixed(levels: int, end: Any = "z") -> Any:
    for _ in range(levels // 2):
        end = [{"a": end}]
    return end


# What patches wrap around a value, and managed fields around its names, are levels, too.
DEEPEST = MAX_DEPTH - 8


@pytest.mark.parametrize("make", [_in_objects, _in_lists, _mixed])
def test_an_object_of_any_shape(target: Target, make: Any) -> None:
    with Thing(target, ANYTHING) as thing, target.unharmed():
        codes = _through_everything(target, thing, make(DEEPEST), make(DEEPEST, "y"))
    assert codes == EXPECTED


@pytest.mark.parametrize("levels", [MAX_DEPTH - 5, MAX_DEPTH - 3, MAX_DEPTH - 1, MAX_DEPTH])
def test_at_the_bound_itself_nothing_breaks(target: Target, levels: int) -> None:
    with Thing(target, ANYTHING) as thing, target.unharmed():
        x, other = _in_objects(levels), _in_objects(levels, "y")
        codes = _through_everything(target, thing, x, other)
    assert [code for code in codes.values() if code >= 500] == []


def test_an_object_whose_schema_is_as_deep(target: Target) -> None:
    """A level of the object is two of its definition, which has eight of its own."""
    levels = (MAX_DEPTH - 12) // 2
    schema = _nested(levels, TEXT)
    with Thing(target, schema) as thing, target.unharmed():
        x, other = _in_objects(levels), _in_objects(levels, "y")
        assert _through_everything(target, thing, x, other) == EXPECTED
        wrong = thing.with_x(_in_objects(levels, 1), "wrong")
        assert wrong.code == 422
        unknown = thing.with_x(_in_objects(levels - 1, {"b": 1}), "unknown")
        assert unknown.code == 201
        described = target.ask("GET", "/openapi/v3/apis/example.org/v1", who="admin")
        assert described.code == 200
        assert target.ask("GET", "/openapi/v2", who="admin").code == 200


def test_lists_with_keys_and_rules_at_every_level(target: Target) -> None:
    """Four levels of a definition for two of the object."""
    schema: dict[str, Any] = {"type": "object", "properties": {"k": TEXT}}
    value: Any = {"k": "z"}
    for _ in range(40):
        items = {"type": "object", "required": ["k"], "properties": {"k": TEXT, "a": schema}}
        schema = {
            "type": "array", "items": items, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "x-kubernetes-validations": [{"rule": "self.all(one, one.k != oldSelf[0].k || true)"},
                                         {"rule": "self.all(one, one.k != '')"}],
        }  # fmt: skip
        value = [{"k": "b", "a": value}]
    other = json.loads(json.dumps(value).replace('"z"', '"y"'))
    with Thing(target, schema) as thing, target.unharmed():
        assert _through_everything(target, thing, value, other) == EXPECTED


def _through_everything(target: Target, thing: Thing, x: Any, other: Any) -> dict[str, int]:
    path = f"{thing.path}/a"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    operations = [{"op": "test", "path": "/x", "value": x},
                  {"op": "replace", "path": "/x", "value": other}]  # fmt: skip
    return {
        "create": thing.with_x(x).code,
        "get": target.ask("GET", path, who="admin").code,
        "yaml": target.ask("GET", thing.path, who="admin", Accept="application/yaml").code,
        "table": target.ask("GET", thing.path, who="admin", Accept=table).code,
        "update": thing.updated(x=other).code,
        "merge": target.ask("PATCH", path, {"x": x}, MERGE, who="admin").code,
        "json": target.ask("PATCH", path, operations, JSON, who="admin").code,
        "conflict": thing.applied("one", x).code,
        "force": thing.applied("two", x, "&force=true").code,
        "yaml body": thing.applied("three", x, "&force=true", as_yaml=True).code,
        "less": thing.applied("two", None).code,
        "delete": target.ask("DELETE", path, who="admin").code,
    }


EXPECTED = dict.fromkeys(
    ("get", "yaml", "table", "update", "merge", "json", "force", "yaml body", "less", "delete"), 200
) | {"create": 201, "conflict": 409}
