"""Entries of metadata.managedFields."""

from __future__ import annotations

import pytest

from orlop.api.managedfields import entries
from orlop.api.managedfields.entries import ANCIENT, APPLY, MAX_UPDATERS, UPDATE, Entry


def entry(manager: str, **changes) -> Entry:
    values = {
        "manager": manager,
        "operation": UPDATE,
        "api_version": "v1",
        "subresource": "",
        "time": "2026-01-01T00:00:00Z",
        "fields": {f"f:{manager}": {}},
    }
    return Entry(**(values | changes))


def names(raw) -> list[str]:
    return [one["manager"] for one in raw]


def test_entries_come_back_as_they_were() -> None:
    raw = entries.encode([entry("a", subresource="status"), entry("b", operation=APPLY, time="")])
    assert entries.encode(entries.decode(raw)) == raw
    assert "time" not in raw[0]
    assert raw[1]["subresource"] == "status"


def test_appliers_come_first_then_the_oldest() -> None:
    made = [
        entry("late", time="2026-01-03T00:00:00Z"),
        entry("b"),
        entry("a"),
        entry("applier", operation=APPLY, time="2026-01-09T00:00:00Z"),
    ]
    assert names(entries.encode(made)) == ["applier", "a", "b", "late"]


def test_managers_of_nothing_are_left_out() -> None:
    assert entries.encode([entry("a", fields={})]) == []


def test_an_applier_is_one_in_all_versions_an_updater_is_not() -> None:
    old, new = ({"api_version": version} for version in ("v1beta1", "v1"))
    assert (
        entry("a", operation=APPLY, **old).identity == entry("a", operation=APPLY, **new).identity
    )
    assert entry("a", **old).identity != entry("a", **new).identity
    assert entry("a").identity != entry("a", subresource="status").identity


@pytest.mark.parametrize("raw", [{}, "x", [1], [{}], [{"operation": "Update"}]])
def test_what_are_no_entries_is_told_apart_from_none(raw) -> None:
    assert entries.decode(raw) is None
    assert entries.decode(None) == []


def test_ten_updaters_are_kept_and_older_ones_become_one() -> None:
    made = [entry(f"m{n:02}", time=f"2026-01-{n + 1:02}T00:00:00Z") for n in range(13)]
    applier = entry("applier", operation=APPLY)
    kept = entries.capped([*reversed(made), applier])
    by_name = {one.manager: one for one in kept}
    assert len(kept) == MAX_UPDATERS + 1
    assert by_name[ANCIENT].fields == {f"f:m{n:02}": {} for n in range(4)}
    assert by_name[ANCIENT].time == made[3].time, "the youngest of those that were merged"
    assert "applier" in by_name
    assert "m04" in by_name


def test_updaters_of_different_versions_are_not_merged() -> None:
    made = [entry(f"m{n:02}", api_version=f"v{n}") for n in range(11)]
    assert entries.capped(made) == made


def test_times_do_not_make_a_difference_nor_does_their_order() -> None:
    one = [entry("a", time="2026-01-02T00:00:00Z"), entry("b")]
    other = [entry("a"), entry("b", time="2026-01-05T00:00:00Z")]
    assert entries.encode(one) != entries.encode(other)
    assert entries.without_times(entries.encode(one)) == entries.without_times(
        entries.encode(other)
    )
    assert entries.without_times(None) == []
