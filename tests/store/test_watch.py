"""Watches: every change once, in order, from any kept revision; slow ones cost nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orlop.api.objects import Key, Obj
from orlop.store import Event, Expired, Limits, Record, Store, Watch

PODS = "pods"


def body(key: Key, **spec: object) -> Obj:
    return {"metadata": {"name": key.name, "namespace": key.namespace}, "spec": spec}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "state.db", limits=Limits(events=50))
    yield opened
    await opened.close()


async def create(store: Store, name: str, namespace: str = "default") -> Record:
    key = Key(namespace, name)
    return await store.create(PODS, key, body(key))


def told(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.type, event.record.key.name) for event in events]


async def test_a_watch_tells_what_happened_after_its_revision(store: Store) -> None:
    first = await create(store, "a")
    second = await create(store, "b")
    watch = store.watch(PODS, after=first.revision)
    await store.delete(PODS, second.key, second.decode(), expected=second.revision)
    events = watch.pending()
    assert told(events) == [("ADDED", "b"), ("DELETED", "b")]
    assert events[1].previous is second
    assert events[1].record.decode()["metadata"]["resourceVersion"] == str(store.revision)
    assert watch.pending() == []


async def test_a_watch_of_a_namespace_hears_of_no_other(store: Store) -> None:
    watch = store.watch(PODS, "mine", after=store.revision)
    await create(store, "a", "theirs")
    await create(store, "b", "mine")
    assert told(watch.pending()) == [("ADDED", "b")]


async def test_a_waiting_watch_wakes_for_its_namespace_only(store: Store) -> None:
    watch = store.watch(PODS, "mine", after=store.revision)
    waiting = asyncio.ensure_future(watch.wait())
    await create(store, "a", "theirs")
    await asyncio.sleep(0)
    assert not waiting.done()
    await create(store, "b", "mine")
    await asyncio.wait_for(waiting, 1)


async def test_a_slow_watch_expires_and_the_others_go_on(store: Store) -> None:
    slow = store.watch(PODS, after=store.revision)
    quick = store.watch(PODS, after=store.revision)
    seen = 0
    for n in range(60):
        await create(store, f"p{n}")
        seen += len(quick.pending())
    assert seen == 60
    with pytest.raises(Expired, match="too old"):
        slow.pending()


async def test_a_watch_from_a_forgotten_revision_is_refused(store: Store) -> None:
    before = store.revision
    for n in range(60):
        await create(store, f"p{n}")
    with pytest.raises(Expired):
        store.watch(PODS, after=before)


async def test_history_is_bounded_by_bytes_too(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "small.db", limits=Limits(size=10_000))
    key = Key("default", "a")
    record = await store.create(PODS, key, body(key, text="x" * 3000))
    for _ in range(10):
        obj = body(key, text="x" * 3000)
        record = await store.update(PODS, key, obj, expected=record.revision)
    kept = store.watch(PODS, after=record.revision - 3).pending()
    assert len(kept) == 3
    with pytest.raises(Expired):
        store.watch(PODS, after=record.revision - 5)
    await store.close()


async def test_closing_a_watch_ends_its_reader(store: Store) -> None:
    watch = store.watch(PODS, after=store.revision)

    async def read() -> list[Event]:
        return [event async for event in watch]

    reader = asyncio.ensure_future(read())
    await create(store, "a")
    await asyncio.sleep(0)
    watch.close()
    assert told(await asyncio.wait_for(reader, 1)) == [("ADDED", "a")]


async def test_closing_the_store_ends_every_watch(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "other.db")
    watch = store.watch(PODS, after=store.revision)
    waiting = asyncio.ensure_future(watch.wait())
    await asyncio.sleep(0)
    await store.close()
    await asyncio.wait_for(waiting, 1)
    assert watch.is_closed


class Mirror:
    """What a client that lists and watches believes to be there."""

    def __init__(self, store: Store) -> None:
        snapshot = store.list(PODS)
        self.state = {record.key: record.data for record in snapshot.records}
        self.watch: Watch = store.watch(PODS, after=snapshot.revision)
        self.last = snapshot.revision

    def follow(self) -> None:
        for event in self.watch.pending():
            assert event.revision > self.last, "revisions never go back, nothing comes twice"
            self.last = event.revision
            if event.type == "DELETED":
                del self.state[event.record.key]
            else:
                assert (event.type == "ADDED") == (event.record.key not in self.state)
                self.state[event.record.key] = event.record.data


steps = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "drop", "look"])))


@given(steps=steps)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_watchers_from_any_revision_rebuild_the_listed_state(
    steps: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = await Store.open(tmp_path_factory.mktemp("s") / "state.db", limits=Limits(events=1000))
    mirrors = [Mirror(store)]
    for name, step in steps:
        key = Key("default", name)
        newest = store.newest(PODS, key)
        if step == "look":
            mirrors.append(Mirror(store))
        elif step == "put" and newest is None:
            await store.create(PODS, key, body(key))
        elif step == "put" and newest is not None:
            await store.update(PODS, key, body(key, at=newest.revision), expected=newest.revision)
        elif newest is not None:
            await store.delete(PODS, key, newest.decode(), expected=newest.revision)
    now = {record.key: record.data for record in store.list(PODS).records}
    for mirror in mirrors:
        mirror.follow()
        assert mirror.state == now
    await store.close()


async def test_a_watch_is_not_woken_for_what_does_not_concern_it(store: Store) -> None:
    watch = store.watch(
        PODS, after=store.revision, concerns=lambda event: event.record.key.name == "mine"
    )
    waiting = asyncio.ensure_future(watch.wait())
    await create(store, "theirs")
    await asyncio.sleep(0)
    assert not waiting.done()
    await create(store, "mine")
    await asyncio.wait_for(waiting, 5)
    assert told(watch.pending()) == [("ADDED", "mine")]


async def test_a_watch_of_a_quiet_corner_outlives_the_history_of_the_rest(store: Store) -> None:
    """It has seen all that concerns it: there is nothing it could have missed."""
    watch = store.watch(PODS, "mine", after=store.revision)
    for number in range(120):
        await create(store, f"n{number}", "theirs")
    await create(store, "a", "mine")
    assert told(watch.pending()) == [("ADDED", "a")]


async def test_a_watch_that_has_not_read_yet_is_not_moved_on(store: Store) -> None:
    first = await create(store, "mine")
    watch = store.watch(
        PODS,
        after=first.revision - 1,
        concerns=lambda event: event.record.key.name == "mine",
    )
    await create(store, "theirs")
    assert ("ADDED", "mine") in told(watch.pending())
