"""The store's promises: one revision counter, optimistic writes, consistent lists, durability."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orlop.api.objects import Key, Obj
from orlop.errors import ConfigError, HomeInUse, Unavailable
from orlop.store import Expired, Limits, RevisionConflict, Store

PODS = "pods"


def pod(name: str, namespace: str = "default", **spec: object) -> tuple[Key, Obj]:
    return Key(namespace, name), {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "state.db")
    yield opened
    await opened.close()


async def create(store: Store, name: str, namespace: str = "default", **spec: object) -> int:
    return (await store.create(PODS, *pod(name, namespace, **spec))).revision


async def test_an_empty_store_is_at_a_revision_that_does_not_mean_any(store: Store) -> None:
    assert store.revision > 0
    assert store.list(PODS).revision == store.revision


async def test_a_created_object_carries_its_revision_and_is_read_back(store: Store) -> None:
    key, obj = pod("a", x=1)
    record = await store.create(PODS, key, obj)
    found = store.get(PODS, key)
    assert found is record
    assert found.decode()["metadata"]["resourceVersion"] == str(record.revision)
    assert "resourceVersion" not in obj["metadata"], "the caller's object is left alone"
    assert store.revision == record.revision == store.changed(PODS)


async def test_every_decode_is_a_copy_of_its_own(store: Store) -> None:
    record = await store.create(PODS, *pod("a", x=1))
    record.decode()["spec"]["x"] = 2
    assert record.decode()["spec"] == {"x": 1}


async def test_creating_a_key_twice_conflicts_even_before_the_first_is_durable(
    store: Store,
) -> None:
    results = await asyncio.gather(
        store.create(PODS, *pod("a", n=1)), store.create(PODS, *pod("a", n=2)),
        return_exceptions=True,
    )  # fmt: skip
    assert not isinstance(results[0], BaseException)
    assert isinstance(results[1], RevisionConflict)
    assert results[1].current is results[0]


async def test_an_update_of_an_old_revision_conflicts_and_changes_nothing(store: Store) -> None:
    first = await create(store, "a", x=1)
    key, obj = pod("a", x=2)
    second = await store.update(PODS, key, obj, expected=first)
    with pytest.raises(RevisionConflict) as conflict:
        await store.update(PODS, *pod("a", x=3), expected=first)
    assert conflict.value.current is second
    found = store.get(PODS, key)
    assert found is not None
    assert found.decode()["spec"] == {"x": 2}


async def test_of_a_hundred_writers_of_one_revision_one_wins(store: Store) -> None:
    first = await create(store, "a")
    writes = [store.update(PODS, *pod("a", n=n), expected=first) for n in range(100)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(result, RevisionConflict) for result in results) == 99


async def test_a_write_may_build_upon_one_that_is_not_durable_yet(store: Store) -> None:
    revision = await create(store, "a", n=0)
    key = Key("default", "a")

    async def add_one() -> None:
        newest = store.newest(PODS, key)
        assert newest is not None
        obj = newest.decode()
        obj["spec"]["n"] += 1
        await store.update(PODS, key, obj, expected=newest.revision)

    await asyncio.gather(*(add_one() for _ in range(50)))
    found = store.get(PODS, key)
    assert found is not None
    assert found.decode()["spec"] == {"n": 50}
    assert found.revision == revision + 50


async def test_readers_see_a_write_only_after_it_is_durable(store: Store, tmp_path: Path) -> None:
    write = asyncio.ensure_future(create(store, "a"))
    await asyncio.sleep(0)
    assert store.get(PODS, Key("default", "a")) is None
    assert store.newest(PODS, Key("default", "a")) is not None
    assert [record.key.name for record in store.list_newest(PODS)] == ["a"]
    assert store.list(PODS).records == []
    await store.settled()
    assert store.get(PODS, Key("default", "a")) is not None
    await write


async def test_a_deleted_object_is_gone_and_its_key_is_free(store: Store) -> None:
    revision = await create(store, "a")
    key, obj = pod("a")
    await store.delete(PODS, key, obj, expected=revision)
    assert store.get(PODS, key) is None
    assert store.list(PODS).records == []
    assert await create(store, "a") > revision + 1


async def test_a_cancelled_writer_does_not_undo_its_write(store: Store) -> None:
    task = asyncio.ensure_future(create(store, "a"))
    await asyncio.sleep(0)
    task.cancel()
    await store.settled()
    assert store.get(PODS, Key("default", "a")) is not None


async def test_lists_are_in_order_of_namespace_and_name(store: Store) -> None:
    for namespace, name in [("b", "a"), ("a", "z"), ("a", "b"), ("a-b", "a"), ("b", "0")]:
        await create(store, name, namespace)
    everything = [tuple(record.key) for record in store.list(PODS).records]
    assert everything == [("a", "b"), ("a", "z"), ("a-b", "a"), ("b", "0"), ("b", "a")]
    assert [record.key.name for record in store.list(PODS, "a").records] == ["b", "z"]
    assert store.count(PODS) == 5


async def test_a_list_can_be_had_as_of_an_earlier_revision(store: Store) -> None:
    first = await create(store, "a", x=1)
    kept = await create(store, "b")
    then = await create(store, "c")
    await store.update(PODS, *pod("a", x=2), expected=first)
    await store.delete(PODS, *pod("b"), expected=kept)
    await create(store, "d")
    earlier = store.list(PODS, at=then)
    assert [record.key.name for record in earlier.records] == ["a", "b", "c"]
    assert earlier.records[0].decode()["spec"] == {"x": 1}
    assert [record.key.name for record in store.list(PODS).records] == ["a", "c", "d"]


async def test_a_list_at_a_revision_no_longer_kept_is_expired(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db", limits=Limits(events=3))
    first = await create(store, "a")
    for n in range(5):
        await create(store, f"b{n}")
    with pytest.raises(Expired, match="too old resource version"):
        store.list(PODS, at=first)
    await store.close()


async def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    revision = await create(store, "a", x=1)
    await store.update(PODS, *pod("a", x=2), expected=revision)
    await create(store, "b")
    await store.delete(PODS, *pod("b"), expected=store.revision)
    await store.create("nodes", Key("", "n1"), {"metadata": {"name": "n1"}})
    last = store.revision
    await store.close()
    again = await Store.open(tmp_path / "state.db")
    assert again.revision == last
    assert [record.decode()["spec"] for record in again.list(PODS).records] == [{"x": 2}]
    assert again.count("nodes") == 1
    events = again.watch(PODS, after=revision).pending()
    assert [event.type for event in events] == ["MODIFIED", "ADDED", "DELETED"]
    assert events[0].previous is not None
    await again.close()


async def test_history_is_compacted_in_the_file_and_expired_stays_expired(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db", limits=Limits(events=10))
    first = revision = await create(store, "a", n=0)
    for n in range(600):
        revision = (await store.update(PODS, *pod("a", n=n), expected=revision)).revision
    await store.close()
    with sqlite3.connect(tmp_path / "state.db") as db:
        assert db.execute("SELECT count(*) FROM revisions").fetchone()[0] <= 12
    db.close()
    again = await Store.open(tmp_path / "state.db", limits=Limits(events=100))
    with pytest.raises(Expired):
        again.watch(PODS, after=first)
    assert len(again.watch(PODS, after=revision - 5).pending()) == 5
    await again.close()


async def test_a_second_opener_is_told_that_the_home_is_in_use(
    store: Store, tmp_path: Path
) -> None:
    with pytest.raises(HomeInUse, match="orlop status"):
        await Store.open(tmp_path / "state.db")


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_text("this is not a database, but a letter of some length" * 50)
    with pytest.raises(ConfigError, match="cannot be opened"):
        await Store.open(path)
    assert path.read_text().startswith("this is not")


async def test_a_file_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.db") as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(ConfigError, match="format 99"):
        await Store.open(tmp_path / "state.db")


async def test_where_wal_cannot_be_had_a_rollback_journal_serves(tmp_path: Path) -> None:
    # SQLite without locks keeps to the rollback journal, as a file system without WAL makes it do.
    store = await Store.open(tmp_path / "state.db", options="nolock=1")
    assert store.journal == "truncate"
    await create(store, "a")
    await store.close()
    again = await Store.open(tmp_path / "state.db")
    assert again.journal == "wal"
    assert again.count(PODS) == 1
    await again.close()


async def test_a_full_disk_fails_the_write_and_all_built_upon_it_and_loses_nothing(
    tmp_path: Path,
) -> None:
    store = await Store.open(tmp_path / "state.db")
    kept = await create(store, "kept")
    pages = store._database._db.execute("PRAGMA page_count").fetchone()[0]
    store._database._db.execute(f"PRAGMA max_page_count={pages}")
    big = store.create(PODS, *pod("big", data="x" * 200_000))
    upon = store.update(PODS, *pod("big", data="y"), expected=store.revision + 1)
    results = await asyncio.gather(big, upon, return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable, Unavailable]
    assert "full" in str(results[0])
    assert store.newest(PODS, Key("default", "big")) is None
    store._database._db.execute("PRAGMA max_page_count=100000")
    after = await create(store, "after")
    assert after > kept
    assert [record.key.name for record in store.list(PODS).records] == ["after", "kept"]
    await store.close()


async def test_a_closed_store_refuses_writes(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    await store.close()
    with pytest.raises(Unavailable, match="shutting down"):
        await create(store, "a")


async def test_a_write_behind_a_fence_fails_and_the_next_one_before_it_does_not(tmp_path) -> None:
    is_ours = True

    def fence() -> None:
        if not is_ours:
            raise HomeInUse("another control plane has moved in")

    store = await Store.open(tmp_path / "state.db", fence=fence)
    key = Key("default", "a")
    await store.create("things", key, {"metadata": {"name": "a"}})
    is_ours = False
    with pytest.raises(Unavailable, match="another control plane has moved in"):
        await store.create("things", Key("default", "b"), {"metadata": {"name": "b"}})
    is_ours = True
    await store.create("things", Key("default", "c"), {"metadata": {"name": "c"}})
    await store.close()
    again = await Store.open(tmp_path / "state.db")
    assert [one.key.name for one in again.list("things").records] == ["a", "c"]
    await again.close()


async def test_a_store_needs_no_locks_where_there_are_none(tmp_path) -> None:
    store = await Store.open(tmp_path / "state.db", options="vfs=unix-none")
    assert store.journal == "wal"
    await store.create("things", Key("default", "a"), {"metadata": {"name": "a"}})
    await store.close()
    again = await Store.open(tmp_path / "state.db", options="vfs=unix-none")
    assert again.count("things") == 1
    await again.close()
