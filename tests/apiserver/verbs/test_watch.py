"""watch over HTTP: types, selectors, bookmarks, initial events, expiry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver.verbs import watch as watch_verb
from orlop.store import Limits

MAPS = "/api/v1/namespaces/default/configmaps"
A = Key("default", "a")


@asynccontextmanager
async def watching(http, query: str, path: str = MAPS, **headers: str) -> AsyncIterator[Any]:
    """A function that returns the next event of a stream."""
    url = f"{http.url}{path}?watch=true&{query}"
    async with http.session.get(url, headers=headers) as response:
        assert response.status == 200, await response.text()

        async def next_event() -> Any:
            async with asyncio.timeout(5):
                line = await response.content.readline()
            return json.loads(line) if line else None

        yield next_event


def told(event: Any) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"].get("name", "")


async def test_changes_are_told_as_they_happen(site, local, http, config_map) -> None:
    async with watching(http, f"resourceVersion={site.store.revision}") as next_event:
        await local.create(kinds.CONFIG_MAP, config_map("a"))
        assert told(await next_event()) == ("ADDED", "a")
        await local.patch(kinds.CONFIG_MAP, A, {"data": {"x": "1"}})
        event = await next_event()
        assert told(event) == ("MODIFIED", "a")
        assert event["object"]["data"]["x"] == "1"
        await local.delete(kinds.CONFIG_MAP, A)
        event = await next_event()
        assert told(event) == ("DELETED", "a")
        assert event["object"]["metadata"]["resourceVersion"] == str(site.store.revision)
        assert event["object"]["data"]["x"] == "1", "a deletion carries the last state"


async def test_a_watch_without_a_revision_begins_with_what_is_there(local, http, config_map):
    await local.create(kinds.CONFIG_MAP, config_map("a"))
    for query in ("", "resourceVersion=0"):
        async with watching(http, query) as next_event:
            assert told(await next_event()) == ("ADDED", "a")


async def test_a_watch_resumes_where_another_ended(local, http, config_map) -> None:
    made = await local.create(kinds.CONFIG_MAP, config_map("a"))
    await local.patch(kinds.CONFIG_MAP, A, {"data": {"x": "1"}})
    await local.delete(kinds.CONFIG_MAP, A)
    revision = made["metadata"]["resourceVersion"]
    async with watching(http, f"resourceVersion={revision}") as next_event:
        assert [(await next_event())["type"] for _ in range(2)] == ["MODIFIED", "DELETED"]


async def test_with_a_selector_objects_come_and_go_by_matching(
    site, local, http, config_map
) -> None:
    query = f"resourceVersion={site.store.revision}&labelSelector=on"
    async with watching(http, query) as next_event:
        await local.create(kinds.CONFIG_MAP, config_map("a"))
        await local.patch(kinds.CONFIG_MAP, A, {"metadata": {"labels": {"on": "1"}}})
        assert told(await next_event()) == ("ADDED", "a")
        await local.patch(kinds.CONFIG_MAP, A, {"data": {"x": "1"}})
        assert told(await next_event()) == ("MODIFIED", "a")
        await local.patch(
            kinds.CONFIG_MAP, A, {"metadata": {"labels": {"on": None}}, "data": {"x": "2"}}
        )
        event = await next_event()
        assert told(event) == ("DELETED", "a")
        assert event["object"]["data"]["x"] == "1", "as it last matched"
        assert event["object"]["metadata"]["resourceVersion"] == str(site.store.revision)
        await local.delete(kinds.CONFIG_MAP, A)
        await local.create(kinds.CONFIG_MAP, config_map("b", labels={"on": "1"}))
        assert told(await next_event()) == ("ADDED", "b")


async def test_one_object_can_be_watched_by_name(site, local, http, config_map) -> None:
    await local.create(kinds.CONFIG_MAP, config_map("a"))
    await local.create(kinds.CONFIG_MAP, config_map("b"))
    async with watching(http, "fieldSelector=metadata.name%3Db") as next_event:
        assert told(await next_event()) == ("ADDED", "b")
    async with watching(http, "", path="/api/v1/watch/namespaces/default/configmaps/b") as next_one:
        assert told(await next_one()) == ("ADDED", "b")


async def test_initial_events_end_with_a_bookmark_of_their_revision(
    site, local, http, config_map
) -> None:
    for name in "ab":
        await local.create(kinds.CONFIG_MAP, config_map(name))
    revision = str(site.store.revision)
    query = (
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        "&resourceVersion="
    )
    async with watching(http, query) as next_event:
        assert [told(await next_event())[1] for _ in range(2)] == ["a", "b"]
        mark = await next_event()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["kind"] == "ConfigMap"
        metadata = mark["object"]["metadata"]
        assert metadata["resourceVersion"] == revision
        assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
        await local.create(kinds.CONFIG_MAP, config_map("c"))
        assert told(await next_event()) == ("ADDED", "c")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("sendInitialEvents=true", 422),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", 422),
        ("resourceVersionMatch=NotOlderThan", 422),
        ("resourceVersion=x", 400),
        ("labelSelector=a+b", 400),
    ],
)
async def test_options_that_make_no_sense_are_refused_before_the_stream(http, query, code) -> None:
    assert (await http("GET", f"{MAPS}?watch=true&{query}")).code == code


async def test_bookmarks_tell_the_revision_when_nothing_happens(
    site, local, http, monkeypatch, pod
) -> None:
    monkeypatch.setattr(watch_verb, "BOOKMARK_EVERY", 0.1)
    query = f"resourceVersion={site.store.revision}&allowWatchBookmarks=true"
    async with watching(http, query) as next_event:
        await local.create(kinds.POD, pod("elsewhere"))
        told = ""
        while told != str(site.store.revision):  # one may have been on its way before
            mark = await next_event()
            assert mark["type"] == "BOOKMARK"
            told = mark["object"]["metadata"]["resourceVersion"]


async def test_a_watch_ends_when_its_time_is_over(http) -> None:
    async with watching(http, "timeoutSeconds=1") as next_event:
        assert await next_event() is None


@pytest.mark.parametrize("limits", [Limits(events=5)])
async def test_a_revision_no_longer_kept_is_an_error_event(
    site, local, http, config_map, limits
) -> None:
    old = site.store.revision
    for n in range(10):
        await local.create(kinds.CONFIG_MAP, config_map(f"m{n}"))
    async with watching(http, f"resourceVersion={old}") as next_event:
        event = await next_event()
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
        assert await next_event() is None
    with pytest.raises(errors.Gone):
        async for _ in local.watch(kinds.CONFIG_MAP, resource_version=str(old)):
            pass


async def test_a_revision_of_the_future_is_an_error_event(site, http) -> None:
    async with watching(http, f"resourceVersion={site.store.revision + 100}") as next_event:
        event = await next_event()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 504)
    assert event["object"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_tables_and_metadata_can_be_watched(site, local, http, config_map) -> None:
    await local.create(kinds.CONFIG_MAP, config_map("a"))
    await local.create(kinds.CONFIG_MAP, config_map("b"))
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    async with watching(http, "", Accept=table) as next_event:
        first, second = await next_event(), await next_event()
        assert first["object"]["kind"] == "Table"
        assert first["object"]["columnDefinitions"]
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][0] == "b"
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    async with watching(http, "", Accept=partial) as next_event:
        event = await next_event()
        assert event["object"]["kind"] == "PartialObjectMetadata"
        assert "data" not in event["object"]


async def test_a_watch_can_be_read_over_websocket(site, local, http, config_map) -> None:
    await local.create(kinds.CONFIG_MAP, config_map("a"))
    url = f"{http.url}{MAPS}?watch=true"
    async with http.session.ws_connect(url) as socket:
        assert told(await socket.receive_json(timeout=5)) == ("ADDED", "a")
        await local.create(kinds.CONFIG_MAP, config_map("b"))
        assert told(await socket.receive_json(timeout=5)) == ("ADDED", "b")
    await no_watches(site)


async def no_watches(site) -> None:
    async with asyncio.timeout(5):
        while site.server.registry.watches:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_watch_whose_client_went_is_forgotten(site, http) -> None:
    async with watching(http, f"resourceVersion={site.store.revision}"):
        await asyncio.sleep(0.05)
        assert len(site.server.registry.watches) == 1
    await no_watches(site)


async def test_stopping_the_server_ends_watches_in_order_and_at_once(site, http) -> None:
    async with watching(http, f"resourceVersion={site.store.revision}") as next_event:
        await asyncio.sleep(0.05)
        async with asyncio.timeout(2):
            await site.server.stop()
        assert await next_event() is None
    with pytest.raises(aiohttp.ClientError):
        await http("GET", "/healthz")


async def test_every_change_is_seen_once_and_in_order_under_many_writers(
    site, local, http, config_map
) -> None:
    """Ten writers over HTTP and in process, a watcher from the start and one from the middle."""
    start = site.store.revision

    async def write(n: int) -> None:
        name = f"w{n}"
        await local.create(kinds.CONFIG_MAP, config_map(name))
        for step in range(20):
            await local.patch(kinds.CONFIG_MAP, Key("default", name), {"data": {"s": str(step)}})
        await http("DELETE", f"{MAPS}/{name}")

    async with watching(http, f"resourceVersion={start}") as next_event:
        await asyncio.gather(*(write(n) for n in range(10)))
        events = [await next_event() for _ in range(10 * 22)]
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert revisions == sorted(set(revisions))
    assert revisions[-1] == site.store.revision
    for n in range(10):
        mine = [event for event in events if told(event)[1] == f"w{n}"]
        assert [event["type"] for event in mine] == ["ADDED", *["MODIFIED"] * 20, "DELETED"]
        steps = [event["object"]["data"].get("s") for event in mine[1:-1]]
        assert steps == [str(step) for step in range(20)]
    middle = revisions[100]
    async with watching(http, f"resourceVersion={middle}") as next_event:
        again = [await next_event() for _ in range(len(events) - 101)]
    assert again == events[101:]
