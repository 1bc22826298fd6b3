"""Which fields a configuration owns, and what is no configuration."""

from __future__ import annotations

import pytest
from hypothesis import given

from orlop.api.managedfields.compare import whole
from orlop.api.managedfields.configuration import NotTyped, fields_of
from orlop.api.managedfields.fieldset import paths
from orlop.api.managedfields.shapes import Leaf, Struct
from orlop.api.quantity import canonical

from .made_up import SHAPE, objects

OWNED = {
    "a scalar": ({"scalar": 1}, {"f:scalar": {}}),
    "entries of maps, not the map": ({"map": {"a": 1}}, {"f:map": {"f:a": {}}}),
    "an empty map": ({"map": {}}, {"f:map": {}}),
    "a null": ({"items": None}, {"f:items": {}}),
    "an empty list: nothing": ({"items": []}, {}),
    "a struct's fields, not the struct": ({"pointer": {"x": 1}}, {"f:pointer": {"f:x": {}}}),
    "an element and its fields, by defaulted keys": (
        {"items": [{"name": "p"}]},
        {"f:items": {'k:{"name":"p","port":80}': {".": {}, "f:name": {}}}},
    ),
    "members of a set": ({"set": [1, "a"]}, {"f:set": {'v:"a"': {}, "v:1": {}}}),
    "entries of what has no schema": (
        {"any": {"a": {"b": [1]}}},
        {"f:any": {"f:a": {".": {}, "f:b": {}}}},
    ),
}


@pytest.mark.parametrize("case", OWNED)
def test_a_configuration_owns(case: str) -> None:
    config, fields = OWNED[case]
    assert fields_of(config, SHAPE) == fields


REFUSED = {
    "unknown": ({"colour": 1}, ".colour: field not declared in schema"),
    "below": ({"pointer": {"z": 1}}, ".pointer.z: field not declared in schema"),
    "in an element": (
        {"items": [{"name": "p", "x": 1}]},
        '.items[name="p",port=80].x: field not declared in schema',
    ),
    "twice": (
        {"items": [{"name": "p"}, {"name": "p", "port": 80}]},
        '.items: duplicate entries for key [name="p",port=80]',
    ),
    "twice in a set": ({"set": ["a", "a"]}, '.set: duplicate entries for key [="a"]'),
    "no key": (
        {"items": [{"value": 1}]},
        '.items: element 0: associative list with keys has an element that omits key field "name" '
        "(and doesn't have default value)",
    ),
    "no map": ({"items": ["p"]}, ".items: element 0: associative list with keys may not have "
               "non-map elements"),
    "null": ({"items": [None]}, ".items: element 0: associative list with keys may not have "
             "a null element"),
    "text for a map": ({"map": "x"}, ".map: expected map, got string"),
    "map for a list": ({"items": {"a": 1}}, ".items: expected list, got map"),
    "map in a set": (
        {"set": [{}]},
        ".set: element 0: associative list without keys has an element that's a map type",
    ),
    "several": (
        {"a": 1, "map": True},
        "errors:\n  .a: field not declared in schema\n  .map: expected map, got boolean",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_upstreams_words(case: str) -> None:
    config, text = REFUSED[case]
    with pytest.raises(NotTyped) as error:
        fields_of(config, SHAPE)
    assert str(error.value) == text


def test_values_are_brought_into_their_kept_form() -> None:
    config = {"cpu": "1000m", "bad": "x", "none": None}
    shape = Struct(dict.fromkeys(config, Leaf(canonical)))
    fields_of(config, shape)
    assert config == {"cpu": "1", "bad": "x", "none": None}


@given(one=objects)
def test_a_configuration_owns_no_more_than_the_object_has(one) -> None:
    assert set(paths(fields_of(one, SHAPE))) <= set(paths(whole(one, SHAPE)))
