"""The shared history: places, eviction, and what the database may forget."""

from __future__ import annotations

import pytest

from orlop.api.objects import Key
from orlop.store.history import History, Limits
from orlop.store.record import ADDED, DELETED, MODIFIED, Event, Record


def record(revision: int, size: int = 10) -> Record:
    return Record(revision, Key("default", "a"), b"x" * size)


def changes(history: History, first: int, last: int) -> list[int]:
    """One object changed at every revision; what may be forgotten on the way."""
    forgotten: list[int] = []
    for revision in range(first, last + 1):
        previous = record(revision - 1) if revision > 1 else None
        kind = MODIFIED if previous else ADDED
        forgotten += history.append(Event(kind, record(revision), previous))
    return forgotten


def revisions(events: list[Event]) -> list[int]:
    return [event.revision for event in events]


def test_what_is_after_a_revision_is_found_by_place() -> None:
    history = History(Limits())
    changes(history, 1, 5)
    assert revisions(history.since(history.place_after(3))) == [4, 5]
    assert revisions(history.since(history.place_after(0))) == [1, 2, 3, 4, 5]
    assert history.since(history.place_after(9)) == []
    assert history.place_after(9) == history.end


def test_the_oldest_changes_go_first_and_raise_the_floor() -> None:
    history = History(Limits(events=3))
    place = history.end
    forgotten = changes(history, 1, 7)
    assert history.floor == 4
    assert revisions(history.since(history.place_after(4))) == [5, 6, 7]
    assert not history.has(place)
    assert forgotten == [1, 2, 3], "each evicted change frees what it had replaced"


def test_the_end_of_a_deleted_object_frees_all_of_it() -> None:
    history = History(Limits(events=1))
    history.append(Event(ADDED, record(1), None))
    assert history.append(Event(DELETED, record(2), record(1))) == []
    assert history.append(Event(ADDED, record(3), None)) == [1, 2]


@pytest.mark.parametrize(("size", "kept"), [(100, 5), (1000, 5), (10_000, 2)])
def test_bytes_count_only_where_nothing_else_keeps_them(size: int, kept: int) -> None:
    """Five changes of one object: four former states are the history's alone."""
    history = History(Limits(events=100, size=25_000))
    previous: Record | None = None
    for revision in range(1, 6):
        current = record(revision, size)
        history.append(Event(MODIFIED if previous else ADDED, current, previous))
        previous = current
    assert len(history.since(history.place_after(history.floor))) == kept


def test_places_stay_good_when_the_front_is_cut_off() -> None:
    history = History(Limits(events=10))
    changes(history, 1, 3000)
    place = history.place_after(2995)
    changes(history, 3001, 3004)
    assert history.has(place)
    assert revisions(history.since(place)) == [*range(2996, 3005)]
    assert history.end == 3004
    changes(history, 3005, 5000)
    assert not history.has(place)


def test_it_can_be_walked_backwards() -> None:
    history = History(Limits(events=4))
    changes(history, 1, 8)
    assert [event.revision for event in history.newest_first(6)] == [8, 7]
    assert [event.revision for event in history.newest_first(0)] == [8, 7, 6, 5]
