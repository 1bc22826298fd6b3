"""What changed between two objects."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given

from orlop.api.managedfields.compare import compare, whole
from orlop.api.managedfields.fieldset import intersection, paths

from .made_up import SHAPE, objects

CASES = {
    "nothing": ({"scalar": 1}, {"scalar": 1}, {}, {}),
    "a scalar": ({"scalar": 1}, {"scalar": 2}, {"f:scalar": {}}, {}),
    "a new scalar": ({}, {"scalar": 2}, {"f:scalar": {}}, {}),
    "a scalar gone": ({"scalar": 1}, {}, {}, {"f:scalar": {}}),
    "an atomic list": ({"atomic": [1]}, {"atomic": [1, 2]}, {"f:atomic": {}}, {}),
    "an entry of a map": (
        {"map": {"a": 1, "b": 1}},
        {"map": {"a": 2, "c": 1}},
        {"f:map": {"f:a": {}, "f:c": {}}},
        {"f:map": {"f:b": {}}},
    ),
    "a whole map": ({}, {"map": {"a": 1}}, {"f:map": {".": {}, "f:a": {}}}, {}),
    "a map emptied": ({"map": {"a": 1}}, {"map": {}}, {}, {"f:map": {"f:a": {}}}),
    "an item by its keys": (
        {"items": [{"name": "p", "value": 1}]},
        {"items": [{"name": "p", "port": 80, "value": 2}]},
        {"f:items": {'k:{"name":"p","port":80}': {"f:port": {}, "f:value": {}}}},
        {},
    ),
    "a new item": (
        {"items": [{"name": "p"}]},
        {"items": [{"name": "q"}, {"name": "p"}]},
        {"f:items": {'k:{"name":"q","port":80}': {".": {}, "f:name": {}}}},
        {},
    ),
    "an item gone": (
        {"items": [{"name": "p", "port": 1}, {"name": "p"}]},
        {"items": [{"name": "p"}]},
        {},
        {"f:items": {'k:{"name":"p","port":1}': {".": {}, "f:name": {}, "f:port": {}}}},
    ),
    "items in another order": (
        {"items": [{"name": "p"}, {"name": "q"}]},
        {"items": [{"name": "q"}, {"name": "p"}]},
        {},
        {},
    ),
    "members of a set": (
        {"set": ["a", "b"]},
        {"set": ["b", "c"]},
        {"f:set": {'v:"c"': {}}},
        {"f:set": {'v:"a"': {}}},
    ),
    "a pointer to a struct owns itself": (
        {},
        {"pointer": {"x": 1}},
        {"f:pointer": {".": {}, "f:x": {}}},
        {},
    ),
    "a struct that Go always has does not": (
        {},
        {"implied": {"x": 1}},
        {"f:implied": {"f:x": {}}},
        {},
    ),
    "nor when it goes": ({"implied": {"x": 1}}, {}, {}, {"f:implied": {"f:x": {}}}),
    "nor when it is empty": ({}, {"implied": {}}, {}, {}),
    "what has no schema": (
        {"any": {"a": {"b": 1}, "c": [1]}},
        {"any": {"a": {"b": 2}, "c": [2]}},
        {"f:any": {"f:a": {"f:b": {}}, "f:c": {}}},
        {},
    ),
    "what changes its type": (
        {"any": {"a": {"b": 1}}},
        {"any": {"a": 1}},
        {"f:any": {"f:a": {}}},
        {"f:any": {"f:a": {"f:b": {}}}},
    ),
    "and back": (
        {"any": {"a": 1}},
        {"any": {"a": {"b": 1}}},
        {"f:any": {"f:a": {".": {}, "f:b": {}}}},
        {},
    ),
    "unknown fields": ({"unknown": 1}, {"unknown": 2, "other": 1}, {}, {}),
    "an item without its key": ({"items": [{}]}, {"items": [{"port": 1}]}, {"f:items": {}}, {}),
    "a key that comes twice": (
        {"items": [{"name": "p", "value": 1}]},
        {"items": [{"name": "p", "value": 1}, {"name": "p", "value": 2}]},
        {"f:items": {'k:{"name":"p","port":80}': {}}},
        {"f:items": {'k:{"name":"p","port":80}': {".": {}, "f:name": {}, "f:value": {}}}},
    ),
    "a key that came twice": (
        {"items": [{"name": "p", "value": 1}, {"name": "p", "value": 2}]},
        {"items": [{"name": "p", "value": 2}]},
        {"f:items": {'k:{"name":"p","port":80}': {".": {}, "f:name": {}, "f:value": {}}}},
        {},
    ),
    "a wrong type": ({"map": {"a": 1}}, {"map": [1]}, {"f:map": {}}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_changes_are_found(case: str) -> None:
    old, new, changed, removed = CASES[case]
    assert compare(old, new, SHAPE) == (changed, removed)


@given(one=objects)
def test_nothing_changes_from_an_object_to_itself(one) -> None:
    assert compare(one, copy.deepcopy(one), SHAPE) == ({}, {})


@given(one=objects, other=objects)
def test_changes_are_of_the_new_and_removals_of_the_old(one, other) -> None:
    changed, removed = compare(one, other, SHAPE)
    assert not intersection(changed, removed)
    assert set(paths(changed)) <= set(paths(whole(other, SHAPE)))
    assert set(paths(removed)) <= set(paths(whole(one, SHAPE)))


@given(one=objects, other=objects)
def test_what_one_way_removes_the_other_way_adds(one, other) -> None:
    there, back = compare(one, other, SHAPE), compare(other, one, SHAPE)
    assert set(paths(there.removed)) <= set(paths(back.changed))
    assert set(paths(back.removed)) <= set(paths(there.changed))


@given(one=objects, other=objects)
def test_comparing_changes_neither(one, other) -> None:
    before = copy.deepcopy((one, other))
    compare(one, other, SHAPE)
    assert (one, other) == before
