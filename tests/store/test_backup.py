"""A copy of the state is of one moment, and a state that comes back never repeats a revision."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orlop.api.objects import Key
from orlop.errors import Unavailable
from orlop.store import Expired, Store
from orlop.store.sqlite import Database

THINGS = "things"


async def write(store: Store, name: str, value: int) -> None:
    key = Key("default", name)
    obj = {"metadata": {"name": name}, "v": value}
    there = store.newest(THINGS, key)
    if there is None:
        await store.create(THINGS, key, obj)
    else:
        await store.update(THINGS, key, obj, expected=there.revision)


def values(store: Store) -> dict[str, int]:
    return {one.key.name: one.decode()["v"] for one in store.list(THINGS).records}


async def test_a_copy_is_of_one_moment_while_writes_go_on(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    is_over = False

    async def count_both() -> None:
        """`a` is always written before `b`: no moment shows a `b` that is ahead."""
        number = 0
        while not is_over:
            number += 1
            await write(store, "a", number)
            await write(store, "b", number)

    counting = asyncio.create_task(count_both())
    await asyncio.sleep(0.1)
    for number in range(5):
        await store.backup(tmp_path / f"copy{number}")
    is_over = True
    await counting
    await store.close()
    seen = []
    for number in range(5):
        copy = await Store.open(tmp_path / f"copy{number}")
        found = values(copy)
        assert found["a"] - found["b"] in (0, 1)
        seen.append(found["a"])
        await copy.close()
    assert seen == sorted(seen)


async def test_what_was_acknowledged_is_in_the_copy(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    await write(store, "a", 1)
    await store.backup(tmp_path / "copy")
    await write(store, "a", 2)
    await store.close()
    copy = await Store.open(tmp_path / "copy")
    assert values(copy) == {"a": 1}
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    await copy.close()


async def test_a_copy_that_cannot_be_written_is_said_and_harms_nothing(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    with pytest.raises(Exception, match="nowhere"):
        await store.backup(tmp_path / "nowhere" / "copy")
    await write(store, "a", 1)
    await store.close()
    with pytest.raises(Unavailable):
        await store.backup(tmp_path / "copy")


async def test_a_state_that_comes_back_leaps_ahead_and_forgets_its_history(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    for number in range(3):
        await write(store, "a", number)
        await write(store, "gone", number)
    there = store.get(THINGS, Key("default", "gone"))
    assert there is not None
    await store.delete(THINGS, there.key, there.decode(), expected=there.revision)
    seen = store.revision
    await store.close()
    database = Database(tmp_path / "state.db")
    newest = database.begin_anew(1000)
    database.close()
    assert newest == seen + 1000

    store = await Store.open(tmp_path / "state.db")
    assert values(store) == {"a": 2}
    assert store.revision == newest
    with pytest.raises(Expired):
        store.watch(THINGS, after=seen)
    watch = store.watch(THINGS, after=store.revision)
    await write(store, "b", 1)
    assert store.revision > newest
    assert [event.record.key.name for event in watch.pending()] == ["b"]
    await store.close()
    again = await Store.open(tmp_path / "state.db")
    assert values(again) == {"a": 2, "b": 1}
    await again.close()
