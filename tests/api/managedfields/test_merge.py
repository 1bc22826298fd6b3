"""A configuration laid over an object, and fields taken out again."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given

from orlop.api.managedfields.compare import compare, whole
from orlop.api.managedfields.configuration import fields_of
from orlop.api.managedfields.fieldset import has, intersection, paths, union
from orlop.api.managedfields.merge import merge
from orlop.api.managedfields.remove import given_up, remove

from .made_up import SHAPE, objects


def named(names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ("", "ab", "ab"),
        ("ab", "", "ab"),
        ("ab", "ba", "ba"),
        ("abc", "b", "abc"),
        ("abc", "xb", "axbc"),
        ("abc", "bx", "abcx"),
        ("abc", "cxa", "bcxa"),
        ("ab", "xyz", "abxyz"),
        ("abcd", "db", "acdb"),
    ],
)
def test_lists_keep_the_configurations_order(live: str, config: str, merged: str) -> None:
    found = merge({"items": named(live)}, {"items": named(config)}, SHAPE)["items"]
    assert "".join(item["name"] for item in found) == merged


def test_duplicates_in_the_live_list_stay() -> None:
    live = [{"name": "a", "value": 1}, {"name": "a", "value": 2}, {"name": "b"}]
    found = merge({"items": live}, {"items": [{"name": "b", "value": 3}]}, SHAPE)
    assert found["items"] == [*live[:2], {"name": "b", "value": 3}]


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ({"map": {"a": 1}}, {"map": None}, {"map": {"a": 1}}),
        ({"items": [{"name": "p"}]}, {"items": None}, {"items": [{"name": "p"}]}),
        ({"scalar": 1}, {"scalar": None}, {"scalar": None}),
        ({"atomic": {"a": 1}}, {"atomic": {"b": 1}}, {"atomic": {"b": 1}}),
        ({"set": ["a", "b"]}, {"set": ["c", "a"]}, {"set": ["c", "a", "b"]}),
        ({"any": {"a": {"b": 1}}}, {"any": {"a": {"c": 1}}}, {"any": {"a": {"b": 1, "c": 1}}}),
        ({"map": {"a": 1}}, {"map": {}}, {"map": {"a": 1}}),
    ],
)
def test_values_merge_by_their_shape(live, config, merged) -> None:
    assert merge(live, config, SHAPE) == merged


@given(live=objects, config=objects)
def test_all_that_is_stated_is_so_afterwards(live, config) -> None:
    merged = merge(live, config, SHAPE)
    changes = compare(config, merged, SHAPE)
    lost = union(changes.changed, changes.removed)
    assert not intersection(fields_of(config, SHAPE), lost)


@given(live=objects, config=objects)
def test_merging_removes_nothing_and_changes_no_input(live, config) -> None:
    before = copy.deepcopy((live, config))
    merged = merge(live, config, SHAPE)
    removed = compare(live, merged, SHAPE).removed
    assert set(removed) <= {"f:any"}, "but what was an object and is one no more"
    assert (live, config) == before


@given(live=objects, config=objects)
def test_merging_twice_is_merging_once(live, config) -> None:
    once = merge(live, config, SHAPE)
    assert merge(once, config, SHAPE) == once


@given(one=objects)
def test_nothing_is_the_neutral_element(one) -> None:
    assert merge({}, one, SHAPE) == one
    assert merge(one, {}, SHAPE) == one


@given(one=objects, other=objects)
def test_what_is_removed_is_gone_and_the_rest_is_not(one, other) -> None:
    dropped = intersection(whole(one, SHAPE), whole(other, SHAPE))
    left = remove(one, dropped, SHAPE)
    assert not intersection(whole(left, SHAPE), dropped)
    assert compare(one, left, SHAPE).changed == {}


@given(one=objects, claimed=objects)
def test_what_is_claimed_is_never_given_up(one, claimed) -> None:
    last, held = fields_of(one, SHAPE), fields_of(claimed, SHAPE)
    dropped = given_up(last, held, SHAPE)
    assert not any(has(dropped, path) for path in paths(held))
    assert given_up(last, last, SHAPE) == {}


def test_an_element_goes_whole_though_others_own_a_part() -> None:
    last = fields_of({"items": [{"name": "p", "value": 1}]}, SHAPE)
    others = {"f:items": {'k:{"name":"p","port":80}': {"f:value": {}}}}
    dropped = given_up(last, others, SHAPE)
    assert remove({"items": [{"name": "p", "value": 2}]}, dropped, SHAPE) == {"items": []}


def test_a_struct_stays_while_others_own_a_part() -> None:
    last = fields_of({"pointer": {"x": 1}}, SHAPE)
    dropped = given_up(last, {"f:pointer": {"f:y": {}}}, SHAPE)
    assert remove({"pointer": {"x": 1, "y": 2}}, dropped, SHAPE) == {"pointer": {"y": 2}}
    assert given_up(last, {}, SHAPE) == {"f:pointer": {}}, "with nobody else it goes whole"


def test_members_of_sets_and_entries_of_maps_go_one_by_one() -> None:
    obj = {"set": ["a", "b"], "map": {"x": 1, "y": 2}}
    dropped = {"f:set": {'v:"a"': {}}, "f:map": {"f:x": {}}}
    assert remove(obj, dropped, SHAPE) == {"set": ["b"], "map": {"y": 2}}
