"""Informers follow the real API server: lists, watches, expired revisions, lost connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from orlop import errors
from orlop.api.kinds import CONFIG_MAP, NODE, POD, Kind
from orlop.api.objects import Key, labels_of, meta
from orlop.client.api import ObjList, WatchEvent
from orlop.client.informer import Informers
from tests.controllers.world import World, eventually, pod


def config(name: str, **data: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"colour": data.get("c", "")}},
        "data": data,
    }


class Log:
    """What a handler was told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, bool]] = []

    def __call__(self, event: WatchEvent, previous) -> None:
        self.lines.append((event.type, meta(event.object)["name"], previous is not None))


async def test_what_is_there_comes_first_and_then_every_change(cluster: World):
    await cluster.create(CONFIG_MAP, config("a"))
    log = Log()
    async with cluster.running() as informers:
        informer = informers.informer(CONFIG_MAP)
        informer.subscribe(log)
        await informer.synced()
        await cluster.create(CONFIG_MAP, config("b"))
        await cluster.patch(CONFIG_MAP, "a", {"data": {"k": "v"}})
        last = await cluster.api.delete(CONFIG_MAP, Key("default", "b"))

        async def told() -> bool:
            return len(log.lines) > 3

        await eventually(told)
    assert last["status"] == "Success"
    assert log.lines == [
        ("ADDED", "a", False),
        ("ADDED", "b", False),
        ("MODIFIED", "a", True),
        ("DELETED", "b", True),
    ]


async def test_one_kind_has_one_informer_and_one_watch(cluster: World):
    async with cluster.running() as informers:
        first = informers.informer(POD)
        await first.synced()
        assert informers.informer(POD) is first
        assert informers.metadata(POD) is first
        assert len(cluster.server.registry.watches) <= 1


async def test_a_late_subscriber_is_told_what_is_known(cluster: World):
    await cluster.create(CONFIG_MAP, config("a"))
    async with cluster.running() as informers:
        informer = informers.informer(CONFIG_MAP)
        await informer.synced()
        log = Log()
        informer.subscribe(log)
        assert log.lines == [("ADDED", "a", False)]
        informer.unsubscribe(log)
        await informer.seen(await cluster.create(CONFIG_MAP, config("b")))
        assert len(log.lines) == 1


async def test_after_seen_our_own_write_is_in_the_cache(cluster: World):
    async with cluster.running() as informers:
        informer = informers.informer(CONFIG_MAP)
        await informer.synced()
        for number in range(20):
            made = await cluster.create(CONFIG_MAP, config(f"a{number}"))
            await informer.seen(made)
            assert informer.get(Key("default", f"a{number}")) is not None


async def test_after_gone_our_own_deletion_is_in_the_cache(cluster: World):
    async with cluster.running() as informers:
        informer = informers.informer(POD)
        made = await cluster.create(POD, pod("a", nodeName="n1"))
        await informer.seen(made)
        await cluster.api.delete(POD, Key("default", "a"))
        await informer.gone(made)
        assert "deletionTimestamp" in meta(informer.get(Key("default", "a")))


async def test_waiting_for_what_never_comes_ends_with_an_error(cluster: World):
    async with cluster.running() as informers:
        informer = informers.informer(CONFIG_MAP)
        await informer.synced()
        with pytest.raises(errors.Timeout, match="has not seen"):
            await informer.until(lambda: False, "the impossible", timeout=0.05)


async def test_indexes_follow_the_watch(cluster: World):
    async with cluster.running() as informers:
        informer = informers.informer(CONFIG_MAP)
        informer.add_index("colour", lambda obj: [labels_of(obj).get("colour", "")])
        await informer.seen(await cluster.create(CONFIG_MAP, config("a", c="red")))
        assert [meta(one)["name"] for one in informer.by_index("colour", "red")] == ["a"]
        blue = {"metadata": {"labels": {"colour": "blue"}}}
        await informer.seen(await cluster.patch(CONFIG_MAP, "a", blue))
        assert informer.by_index("colour", "red") == []
        assert informer.count_by_index("colour", "blue") == 1


async def test_a_metadata_informer_keeps_no_data(cluster: World):
    await cluster.create(CONFIG_MAP, config("a", large="x" * 1000))
    async with cluster.running() as informers:
        informer = informers.metadata(CONFIG_MAP)
        await informer.synced()
        kept = informer.get(Key("default", "a"))
        assert set(kept) == {"apiVersion", "kind", "metadata"}
        assert "managedFields" not in kept["metadata"]


async def test_a_handler_that_fails_does_not_blind_the_others(cluster: World, caplog):
    log = Log()
    async with cluster.running() as informers:
        informer = informers.informer(CONFIG_MAP)
        informer.subscribe(lambda event, previous: 1 / 0)
        informer.subscribe(log)
        await informer.seen(await cluster.create(CONFIG_MAP, config("a")))
    assert log.lines == [("ADDED", "a", False)]
    assert "handler failed" in caplog.text


async def test_an_informer_asked_for_later_is_started_too(cluster: World):
    async with cluster.running() as informers:
        await informers.informer(POD).synced()
        await informers.informer(NODE).synced()
        await informers.synced()


async def test_a_kind_that_is_not_served_is_empty_and_blocks_nobody(cluster: World):
    unknown = Kind("example.com", "v1", "Ghost", "ghosts", True)
    async with cluster.running() as informers:
        informer = informers.informer(unknown)
        await asyncio.wait_for(informer.synced(), 2)
        assert informer.list() == []


class Flaky:
    """An API whose watches fail as told: what a real server does only under duress."""

    def __init__(self, api) -> None:
        self._api = api
        self.failures: list[Exception] = []
        self.cut = asyncio.Event()
        self.lists = 0

    async def list(self, kind, namespace="", **options) -> ObjList:
        self.lists += 1
        return await self._api.list(kind, namespace, **options)

    async def watch(self, kind, namespace="", **options) -> AsyncIterator[WatchEvent]:
        if self.failures:
            raise self.failures.pop(0)
        async for event in self._api.watch(kind, namespace, **options):
            if self.cut.is_set():
                self.cut.clear()
                return
            yield event


async def _follow(api) -> tuple[Informers, asyncio.Task[None]]:
    informers = Informers(api)
    task = asyncio.ensure_future(informers.run())
    return informers, task


async def test_an_expired_revision_means_to_list_again_and_tell_only_the_difference(cluster: World):
    api = Flaky(cluster.api)
    api.failures = [errors.Gone("too old resource version")]
    await cluster.create(CONFIG_MAP, config("a"))
    informers, task = await _follow(api)
    log = Log()
    informer = informers.informer(CONFIG_MAP)
    informer.subscribe(log)
    await informer.seen(await cluster.create(CONFIG_MAP, config("b")))
    assert api.lists == 2
    assert sorted(log.lines) == [("ADDED", "a", False), ("ADDED", "b", False)]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_watch_that_ends_goes_on_where_it_was_without_a_list(cluster: World):
    api = Flaky(cluster.api)
    informers, task = await _follow(api)
    informer = informers.informer(CONFIG_MAP)
    log = Log()
    informer.subscribe(log)
    await informer.seen(await cluster.create(CONFIG_MAP, config("a")))
    api.cut.set()
    await informer.seen(await cluster.create(CONFIG_MAP, config("b")))
    assert api.lists == 1
    assert [name for _, name, _ in log.lines] == ["a", "b"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_was_deleted_and_made_anew_unseen_is_told_as_both(cluster: World):
    api = Flaky(cluster.api)
    informers, task = await _follow(api)
    informer = informers.informer(CONFIG_MAP)
    await informer.seen(await cluster.create(CONFIG_MAP, config("a")))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await cluster.api.delete(CONFIG_MAP, Key("default", "a"))
    made = await cluster.create(CONFIG_MAP, config("a"))
    log = Log()
    informer.subscribe(log)
    log.lines.clear()
    api.failures = [errors.Gone("too old resource version")]
    task = asyncio.ensure_future(informers.run())
    await informer.seen(made)
    assert [line[0] for line in log.lines] == ["DELETED", "ADDED"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
