"""Pruning, nulls and defaults: the shape that a schema gives to an object."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.api.crd import defaulting
from orlop.api.crd.pruning import prune
from orlop.api.crd.structural_schema import Node

Obj = dict[str, Any]
SCHEMA: Obj = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "n": {"type": "integer", "default": 3},
                "may": {"type": "string", "nullable": True, "default": "x"},
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"known": {"type": "object", "properties": {}}},
                },
                "map": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "properties": {"v": {"type": "integer", "default": 1}},
                    },
                },
                "list": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"b": {"type": "boolean",
                                                                     "default": False}}},
                },
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "strict": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
                "nested": {"type": "object", "default": {}, "properties": {
                    "deep": {"type": "integer", "default": 7}}},
            },
        },
    },
}  # fmt: skip
NODE = Node(SCHEMA)


PRUNED: list[tuple[str, Obj, Obj, list[str]]] = [
    ("known", {"a": "x"}, {"a": "x"}, []),
    ("unknown", {"a": "x", "z": 1}, {"a": "x"}, ["spec.z"]),
    ("preserved", {"free": {"z": {"y": 1}}}, {"free": {"z": {"y": 1}}}, []),
    (
        "below what is preserved",
        {"free": {"known": {"z": 1}}},
        {"free": {"known": {}}},
        ["spec.free.known.z"],
    ),
    ("in a map", {"map": {"k": {"v": 1, "z": 2}}}, {"map": {"k": {"v": 1}}}, ["spec.map.k.z"]),
    ("in a list", {"list": [{}, {"z": 2}]}, {"list": [{}, {}]}, ["spec.list[1].z"]),
    (
        "embedded and free",
        {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "z": 1}},
        {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "z": 1}},
        [],
    ),
    (
        "embedded and strict",
        {"strict": {"kind": "Pod", "metadata": {"name": "a"}, "z": 1, "spec": {"q": 1}}},
        {"strict": {"kind": "Pod", "metadata": {"name": "a"}, "spec": {}}},
        ["spec.strict.z", "spec.strict.spec.q"],
    ),
    ("null", {"a": None}, {}, []),
    ("null that may be", {"may": None}, {"may": None}, []),
    ("a value of the wrong type", {"map": "text"}, {"map": "text"}, []),
]


@pytest.mark.parametrize(
    ("spec", "expected", "unknown"), [one[1:] for one in PRUNED], ids=[one[0] for one in PRUNED]
)
def test_what_the_schema_does_not_name_goes(spec: Obj, expected: Obj, unknown: list[str]) -> None:
    obj = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}, "spec": spec}
    found = prune(NODE, obj)
    assert obj["spec"] == expected
    assert sorted(found) == sorted(unknown)
    assert obj["metadata"] == {"name": "a"}


DEFAULTED: list[tuple[str, Obj, Obj]] = [
    ("all that is missing", {}, {"n": 3, "may": "x", "nested": {"deep": 7}}),
    ("nothing that is there", {"n": 0, "may": "", "nested": {"deep": 0}}, {}),
    ("null that may not be", {"n": None}, {"n": 3, "may": "x", "nested": {"deep": 7}}),
    ("not null that may be", {"may": None}, {"n": 3, "may": None, "nested": {"deep": 7}}),
    (
        "below maps and lists",
        {"map": {"k": {}}, "list": [{}, {"b": True}], "n": 1, "may": "", "nested": {"deep": 1}},
        {"map": {"k": {"v": 1}}, "list": [{"b": False}, {"b": True}]},
    ),
]


@pytest.mark.parametrize(
    ("spec", "changed"), [one[1:] for one in DEFAULTED], ids=[one[0] for one in DEFAULTED]
)
def test_defaults_fill(spec: Obj, changed: Obj) -> None:
    obj = {"spec": dict(spec)}
    defaulting.apply(NODE, obj)
    assert obj["spec"] == {**spec, **changed}


def test_an_object_that_is_not_there_is_not_made_for_its_defaults() -> None:
    obj: Obj = {}
    defaulting.apply(NODE, obj)
    assert obj == {}


def test_defaults_are_copies() -> None:
    first: Obj = {"spec": {}}
    second: Obj = {"spec": {}}
    defaulting.apply(NODE, first)
    first["spec"]["nested"]["deep"] = 99
    defaulting.apply(NODE, second)
    assert second["spec"]["nested"] == {"deep": 7}


KEYS = st.sampled_from(["a", "n", "may", "free", "map", "list", "nested", "z", "template"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(KEYS, VALUES))
def test_shaping_twice_is_shaping_once(spec: Obj) -> None:
    obj = {"spec": spec}
    prune(NODE, obj)
    defaulting.apply(NODE, obj)
    once = msgspec.json.encode(obj)
    assert prune(NODE, obj) == []
    defaulting.apply(NODE, obj)
    assert msgspec.json.encode(obj) == once
