"""Members of a gang wait for each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from orlop.engine import Gang, Submission
from orlop.engine.gang_barrier import Muster
from orlop.errors import WaitingForGang


def member(name: str, peers: set[str], size: int = 3, key: str = "g", room: str = "") -> Submission:
    pod = {"metadata": {"namespace": "default", "name": name, "uid": name}}
    gang = Gang(key, "default/g", size, frozenset({name, *peers}), room)
    return Submission(pod, Path("/pods") / name, (), "main", gang)


def names(found: list[Submission]) -> list[str]:
    return [one.pod["metadata"]["name"] for one in found]


def test_the_last_to_come_gets_them_all_in_the_order_of_their_names():
    muster = Muster()
    peers = {"w-2", "w-10", "w-9"}
    for name in ("w-10", "w-2"):
        with pytest.raises(WaitingForGang):
            muster.add(member(name, peers))
    assert names(muster.add(member("w-9", peers))) == ["w-2", "w-9", "w-10"]


def test_the_words_count_those_that_are_there():
    muster = Muster()
    with pytest.raises(WaitingForGang, match=r"1 of 3 members of gang default/g are there"):
        muster.add(member("a", set()))
    with pytest.raises(WaitingForGang, match="2 of 3 members"):
        muster.add(member("b", {"a"}))
    with pytest.raises(WaitingForGang, match="2 of 3 members"):
        muster.add(member("b", {"a"}))  # the same one again


def test_who_was_deleted_meanwhile_does_not_count():
    muster = Muster()
    for name in ("a", "b"):
        with pytest.raises(WaitingForGang):
            muster.add(member(name, {"a", "b"}))
    with pytest.raises(WaitingForGang, match="2 of 3"):
        muster.add(member("c", {"b"}))
    assert names(muster.add(member("d", {"b", "c"}))) == ["b", "c", "d"]


def test_gangs_do_not_mix():
    muster = Muster()
    with pytest.raises(WaitingForGang):
        muster.add(member("a", {"b"}, size=2))
    with pytest.raises(WaitingForGang, match="1 of 2"):
        muster.add(member("b", {"a"}, size=2, key="other"))


def test_the_largest_size_that_a_member_names_holds():
    muster = Muster()
    with pytest.raises(WaitingForGang, match="1 of 3"):
        muster.add(member("a", {"b"}, size=3))
    with pytest.raises(WaitingForGang, match="2 of 3"):
        muster.add(member("b", {"a"}, size=2))


def test_who_comes_later_does_not_stand_in_for_who_starts_first():
    """It starts with them where it is there already, and is never enough on its own."""
    muster = Muster()
    room = '[{"spec":{"containers":[{}]}}]'
    every = {"launcher", "w-0", "w-1"}
    with pytest.raises(WaitingForGang, match="1 of 3 members"):
        muster.add(member("launcher", every, size=3))
    with pytest.raises(WaitingForGang, match="1 of 2 members"):
        muster.add(member("w-0", every, size=2, room=room))
    found = muster.add(member("w-1", every, size=2, room=room))
    assert names(found) == ["launcher", "w-0", "w-1"]


def test_who_is_discarded_need_not_wait_any_more():
    muster = Muster()
    first = member("a", {"b"}, size=2)
    with pytest.raises(WaitingForGang):
        muster.add(first)
    muster.discard(first)
    with pytest.raises(WaitingForGang, match="1 of 2"):
        muster.add(member("b", {"a"}, size=2))
