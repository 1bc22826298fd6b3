"""Sets of fields behave as sets of paths do."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.api.managedfields import fieldset
from orlop.api.managedfields.fieldset import difference, has, intersection, of_paths, paths, union

elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
sets = st.lists(st.lists(elements, min_size=1, max_size=3).map(tuple), max_size=6).map(of_paths)

OPERATIONS = {
    "union": (union, set.union),
    "difference": (difference, set.difference),
    "intersection": (intersection, set.intersection),
}


@pytest.mark.parametrize("name", OPERATIONS)
@given(one=sets, other=sets)
def test_operations_are_those_of_sets(name, one, other) -> None:
    ours, pythons = OPERATIONS[name]
    before = copy.deepcopy((one, other))
    result = ours(one, other)
    assert set(paths(result)) == pythons(set(paths(one)), set(paths(other)))
    assert (one, other) == before, "sets are shared and never change"


@given(one=sets, other=sets)
def test_a_set_has_one_form(one, other) -> None:
    for result in (union(one, other), difference(one, other), intersection(one, other)):
        assert result == of_paths(list(paths(result)))
        assert fieldset.is_valid(result)


@given(one=sets, other=sets)
def test_what_does_not_change_is_shared(one, other) -> None:
    if difference(one, other) == one:
        assert difference(one, other) is one


@given(one=sets, path=st.lists(elements, min_size=1, max_size=3).map(tuple))
def test_membership_is_that_of_the_path_itself(one, path) -> None:
    assert has(one, path) == (path in set(paths(one)))


def test_members_are_written_in_order_with_themselves_first() -> None:
    fields = of_paths([("f:b",), ("f:a", "f:z"), ("f:a", "f:c"), ("f:a",)])
    assert list(fields) == ["f:a", "f:b"]
    assert list(fields["f:a"]) == [".", "f:c", "f:z"]
    assert fields == {"f:a": {".": {}, "f:c": {}, "f:z": {}}, "f:b": {}}


@pytest.mark.parametrize(
    ("fields", "is_valid"),
    [
        ({}, True),
        ({"f:a": {"f:b": {}}}, True),
        ({'k:{"a":1}': {".": {}}}, True),
        ({'v:"a"': {}, "i:0": {}}, True),
        ({"a": {}}, False),
        ({"f:a": {".": {"f:b": {}}}}, False),
        ({"k:{": {}}, False),
        ({"k:[]": {}}, False),
        ({"k:{}": {}}, False),
        ({"i:x": {}}, False),
        ({"f:a": 1}, False),
        ([], False),
    ],
)
def test_only_fields_v1_is_valid(fields, is_valid: bool) -> None:
    assert fieldset.is_valid(fields) is is_valid
