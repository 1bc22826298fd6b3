"""Writes of several managers, one after the other: who owns what, and what the object becomes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.api.managedfields.compare import compare, whole
from orlop.api.managedfields.configuration import fields_of
from orlop.api.managedfields.conflicts import Conflicts
from orlop.api.managedfields.fieldset import intersection, paths
from orlop.errors import BadRequest

from .made_up import SHAPE, applied, bare, objects, owners, updated


def test_applying_creates_and_owns() -> None:
    obj = applied(None, {"scalar": 1, "map": {"a": 1}}, "me")
    assert bare(obj) == {"scalar": 1, "map": {"a": 1}}
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:map": {"f:a": {}}, "f:scalar": {}},
        }
    ]


def test_what_is_no_longer_stated_goes() -> None:
    obj = applied(None, {"scalar": 1, "map": {"a": 1, "b": 1}, "set": [1, 2]}, at=1)
    obj = applied(obj, {"map": {"b": 1}, "set": [2]}, at=2)
    assert bare(obj) == {"map": {"b": 1}, "set": [2]}


def test_what_another_still_claims_stays() -> None:
    obj = applied(None, {"scalar": 1, "map": {"a": 1}}, "one")
    obj = applied(obj, {"scalar": 1}, "two")
    obj = applied(obj, {"map": {"a": 1}}, "one")
    assert bare(obj) == {"scalar": 1, "map": {"a": 1}}
    assert owners(obj) == {"one": {"f:map": {"f:a": {}}}, "two": {"f:scalar": {}}}


def test_what_nobody_owns_stays() -> None:
    obj = applied(None, {"scalar": 1})
    obj["pointer"] = {"x": 1}  # defaulted by the server
    assert bare(applied(obj, {"map": {"a": 1}})) == {"map": {"a": 1}, "pointer": {"x": 1}}


def test_another_value_is_a_conflict_until_forced() -> None:
    obj = applied(None, {"scalar": 1, "map": {"a": 1}}, "one")
    with pytest.raises(Conflicts) as conflicts:
        applied(obj, {"scalar": 2, "map": {"b": 1}}, "two")
    ((entry, fields),) = conflicts.value.held
    assert (entry.manager, fields) == ("one", {"f:scalar": {}})
    obj = applied(obj, {"scalar": 2, "map": {"b": 1}}, "two", force=True)
    assert bare(obj) == {"scalar": 2, "map": {"a": 1, "b": 1}}
    assert owners(obj) == {
        "one": {"f:map": {"f:a": {}}},
        "two": {"f:map": {"f:b": {}}, "f:scalar": {}},
    }


def test_a_manager_that_lost_all_is_forgotten() -> None:
    obj = applied(None, {"scalar": 1}, "one")
    assert list(owners(applied(obj, {"scalar": 2}, "two", force=True))) == ["two"]


def test_an_update_takes_what_it_changes_and_applies_conflict_with_it() -> None:
    obj = applied(None, {"scalar": 1, "map": {"a": 1}}, "one")
    obj = updated(obj, {**obj, "scalar": 5}, "editor", at=1)
    assert owners(obj) == {"one": {"f:map": {"f:a": {}}}, "editor": {"f:scalar": {}}}
    with pytest.raises(Conflicts):
        applied(obj, {"scalar": 1, "map": {"a": 1}}, "one")
    assert bare(applied(obj, {"map": {"a": 1}}, "one"))["scalar"] == 5, "given up, but taken over"


def test_what_an_update_removes_has_no_owner_left() -> None:
    obj = applied(None, {"scalar": 1, "map": {"a": 1}}, "one")
    obj = updated(obj, {"map": {"a": 1}, "metadata": obj["metadata"]}, "editor", at=9)
    assert owners(obj) == {"one": {"f:map": {"f:a": {}}}}


def test_the_same_again_changes_nothing_not_even_the_time() -> None:
    obj = applied(None, {"scalar": 1, "items": [{"name": "p"}]}, at=1)
    assert applied(obj, {"scalar": 1, "items": [{"name": "p"}]}, at=2) == obj
    obj = updated(obj, {**obj, "scalar": 3}, at=3)
    assert updated(obj, dict(obj), at=4) == obj


def test_a_change_moves_the_time_of_its_manager_alone() -> None:
    obj = applied(None, {"scalar": 1}, "one", at=1)
    obj = applied(obj, {"map": {"a": 1}}, "two", at=2)
    obj = applied(obj, {"map": {"a": 2}}, "two", at=3)
    times = {one["manager"]: one["time"][-3:] for one in obj["metadata"]["managedFields"]}
    assert times == {"one": "01Z", "two": "03Z"}


def test_co_owning_what_is_there_has_no_time_of_its_own() -> None:
    obj = applied(applied(None, {"scalar": 1}, "one"), {"scalar": 1}, "two", at=2)
    entries = {one["manager"]: one for one in obj["metadata"]["managedFields"]}
    assert "time" not in entries["two"]
    assert owners(obj) == {"one": {"f:scalar": {}}, "two": {"f:scalar": {}}}


def test_an_object_from_before_gets_a_manager_for_what_it_has() -> None:
    old = {"scalar": 1, "map": {"a": 1}, "metadata": {"uid": "u"}}
    obj = applied(old, {"map": {"b": 1}})
    assert owners(obj)["before-first-apply"]["f:scalar"] == {}
    with pytest.raises(Conflicts):
        applied(old, {"scalar": 2})


def test_updates_of_an_object_without_managers_are_not_tracked() -> None:
    old = {"scalar": 1, "metadata": {"uid": "u"}}
    assert "managedFields" not in updated(old, {"scalar": 2, "metadata": {}})["metadata"]


ENTRY = {
    "manager": "x",
    "operation": "Apply",
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:scalar": {}},
}


@pytest.mark.parametrize(
    ("asked", "managers"),
    [
        ([{}], []),
        ([], ["u"]),
        (None, ["u"]),
        ([ENTRY], ["x"]),
        ([{**ENTRY, "operation": "Guess"}], ["u"]),
        ([{**ENTRY, "fieldsType": "V2"}], ["u"]),
        ([{**ENTRY, "fieldsV1": {"bad": {}}}], ["u"]),
        ("nonsense", ["u"]),
    ],
    ids=str,
)
def test_a_client_may_rewrite_or_reset_managers_but_not_by_accident(asked, managers) -> None:
    old = updated(None, {"scalar": 1})
    new = {"scalar": 1, "metadata": {"managedFields": asked}}
    assert list(owners(updated(old, new))) == managers


def test_entries_of_a_configuration_are_refused() -> None:
    with pytest.raises(BadRequest, match=r"metadata\.managedFields must be nil"):
        applied(None, {"metadata": {"managedFields": []}})


def test_a_writer_without_a_name_is_unknown() -> None:
    assert list(owners(updated(None, {"scalar": 1}, ""))) == ["unknown"]


# Laws, for any objects

managers = st.sampled_from(["one", "two", "three"])


@given(config=objects, at=st.integers(1, 59))
def test_applying_twice_is_applying_once(config, at) -> None:
    once = applied(None, config)
    assert applied(once, config, at=at) == once


@given(config=objects)
def test_applying_nothing_takes_back_what_was_applied(config) -> None:
    obj = applied(applied(None, config), {})
    assert bare(obj) == {}
    assert owners(obj) == {}


@given(one=objects, two=objects)
def test_of_two_appliers_that_differ_one_hears_of_it(one, two) -> None:
    obj = applied(None, one, "one")
    differ = compare(obj, {**obj, **two}, SHAPE)
    stated = intersection(fields_of(one, SHAPE), fields_of(two, SHAPE))
    try:
        both = applied(obj, two, "two")
    except Conflicts as conflicts:
        ((_, fields),) = conflicts.held
        assert set(paths(fields)) <= set(paths(stated))
    else:
        for config in (one, two):
            lost = compare(config, both, SHAPE)
            assert not intersection(fields_of(config, SHAPE), lost.changed)
            assert not intersection(fields_of(config, SHAPE), lost.removed)
        assert not intersection(stated, {k: v for k, v in differ.changed.items() if not v})


@given(one=objects, two=objects)
def test_a_forced_apply_has_what_it_states_and_owns_it(one, two) -> None:
    obj = applied(applied(None, one, "one"), two, "two", force=True)
    assert owners(obj).get("two", {}) == fields_of(two, SHAPE)
    lost = compare(two, obj, SHAPE)
    assert not intersection(fields_of(two, SHAPE), lost.changed)


@given(writes=st.lists(st.tuples(st.booleans(), managers, objects), max_size=6))
def test_whatever_happens_managers_own_only_what_is_there(writes) -> None:
    obj = None
    for at, (is_apply, manager, config) in enumerate(writes):
        if is_apply:
            obj = applied(obj, config, manager, at=at, force=True)
        else:
            metadata = dict((obj or {}).get("metadata", {}), uid="u")
            obj = updated(obj, {**config, "metadata": metadata}, manager, at=at)
    here = set(paths(whole(obj or {}, SHAPE)))
    for fields in owners(obj or {"metadata": {}}).values():
        assert set(paths(fields)) <= here
