"""Seats are few, users take turns, and who would wait too long is told to come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from orlop.apiserver import ApiServer, ServerOptions
from orlop.apiserver.request.dispatch import Dispatcher
from orlop.apiserver.request.http import seconds
from orlop.apiserver.request.priority_and_fairness import FlowControl, SeatLimits, Seats
from orlop.errors import TooManyRequests
from orlop.jwt import SigningKey
from orlop.pki import ADMIN_USER
from orlop.store import Store
from tests.apiserver.conftest import Site

MAPS = "/api/v1/namespaces/default/configmaps"


async def sit(seats: Seats, user: str, log: list[str], *, until: asyncio.Event | None = None):
    async with seats.seat(user):
        log.append(user)
        if until is not None:
            await until.wait()


async def rounds(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_crowd_does_not_run_before_the_next_users_turn() -> None:
    seats, log = Seats("readOnly", SeatLimits(seats=2, of_one=2)), []
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(sit(seats, "crowd", log))
        group.create_task(sit(seats, "one", log))
    assert len(log) == 21
    assert log.index("one") <= 4


async def test_users_take_turns() -> None:
    seats, log, door = Seats("readOnly", SeatLimits(seats=1, of_one=1)), [], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(sit(seats, "first", log, until=door))
        await rounds()
        for user in "aaabbc":
            group.create_task(sit(seats, user, log))
        await rounds()
        door.set()
    assert log == ["first", "a", "b", "c", "a", "b", "a"]


async def test_one_user_never_has_all_seats() -> None:
    seats, log, door = Seats("readOnly", SeatLimits(seats=4, of_one=2)), [], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for user in ("a", "a", "a", "a", "b"):
            group.create_task(sit(seats, user, log, until=door))
        await rounds()
        assert sorted(log) == ["a", "a", "b"]
        door.set()
    assert sorted(log) == ["a", "a", "a", "a", "b"]


async def test_who_waits_behind_too_many_is_told_to_come_back() -> None:
    seats, door = Seats("readOnly", SeatLimits(seats=1, of_one=1, queued=2)), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(sit(seats, "a", [], until=door))
        await rounds()
        with pytest.raises(TooManyRequests, match="try again later"):
            await sit(seats, "a", [])
        other = group.create_task(sit(seats, "b", [], until=door))  # their queue is their own
        await rounds()
        assert not other.done()
        door.set()


async def test_who_waits_too_long_is_told_to_come_back_and_leaves_no_trace() -> None:
    seats, log = Seats("readOnly", SeatLimits(seats=1, of_one=1, patience=0.05)), []
    door = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(sit(seats, "a", log, until=door))
        await rounds()
        with pytest.raises(TooManyRequests):
            await sit(seats, "b", log)
        door.set()
    await sit(seats, "b", log)
    assert log == ["a", "b"]


@pytest.mark.parametrize("is_served", [False, True])
async def test_who_gives_up_waiting_takes_no_seat_along(is_served) -> None:
    seats, log, door = Seats("readOnly", SeatLimits(seats=1, of_one=1)), [], asyncio.Event()
    first = asyncio.create_task(sit(seats, "a", log, until=door))
    await rounds()
    waiting = asyncio.create_task(sit(seats, "b", log))
    await rounds()
    if is_served:  # the seat and the end come in one moment
        door.set()
        for _ in range(10):
            if not seats._taken.get("b"):
                await asyncio.sleep(0)
    waiting.cancel()
    door.set()
    await asyncio.wait([first, waiting])
    async with asyncio.timeout(1):
        await sit(seats, "c", log)
    await rounds()
    assert (seats._total, seats._taken, seats._queues) == (0, {}, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("30s", 30), ("1m30s", 90), ("500ms", 0.5), ("1.5h", 5400), ("x", 0), ("30", 0)],
)
def test_durations_are_read_as_go_writes_them(text, expected) -> None:
    assert seconds(text) == expected


@asynccontextmanager
async def served(site: Site, options: ServerOptions) -> AsyncIterator[Site]:
    """A second server over the site's store."""
    tls, schema = (
        site.authority.server_context(site.authority.apiserver),
        site.server.registry.schema,
    )
    server = ApiServer(site.store, tls=tls, schema=schema, options=options)
    port = await server.start("127.0.0.1", 0)
    yield Site(server, site.store, port, site.authority, site.folder)
    await server.stop()


async def test_a_request_that_takes_too_long_is_ended(http, site, monkeypatch) -> None:
    async def forever(self, request, info, user, kind):
        await asyncio.sleep(60)

    monkeypatch.setattr(Dispatcher, "serve", forever)
    async with served(site, ServerOptions(request_timeout=0.1)) as hasty, hasty.http() as client:
        reply = await client("GET", f"{MAPS}/a")
    assert (reply.code, reply.json["reason"]) == (504, "Timeout")
    assert (await http("GET", f"{MAPS}/a?timeout=100ms")).code == 504


async def test_a_body_that_never_ends_is_not_waited_for(site) -> None:
    async with served(site, ServerOptions(request_timeout=0.2)) as hasty:
        reader, writer = await asyncio.open_connection("127.0.0.1", hasty.port, ssl=site.tls())
        head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        async with asyncio.timeout(5):
            assert b"504" in await reader.readline()
        writer.close()


@pytest.fixture
async def narrow(tmp_path, authority, schema):
    """A server with hardly any seats."""
    store = await Store.open(tmp_path / "narrow.db")
    limits = SeatLimits(seats=2, of_one=1, queued=1, patience=0.3)
    tls = authority.server_context(authority.apiserver)
    key = SigningKey.from_pem(authority.service_account_key)
    options = ServerOptions(flow_control=FlowControl(*[limits] * 4))
    server = ApiServer(store, tls=tls, schema=schema, signing_key=key, options=options)
    port = await server.start("127.0.0.1", 0)
    yield Site(server, store, port, authority, tmp_path)
    await server.stop()
    await store.close()


async def post_slowly(site):
    """A write that sends no body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=site.tls())
    head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 100\r\n\r\n".encode())
    await writer.drain()
    await asyncio.sleep(0.1)
    return reader, writer


async def test_a_user_at_their_limit_gets_429_and_others_are_served(narrow, config_map) -> None:
    seat = narrow.server.flow_control.of("POST").seat(ADMIN_USER)
    async with narrow.http() as admin, narrow.http("eve", ("system:masters",)) as eve:
        async with seat:
            reply = await admin("POST", MAPS, config_map("a"))
            assert (reply.code, reply.json["reason"]) == (429, "TooManyRequests")
            assert reply.headers["Retry-After"] == "1"
            assert (await eve("POST", MAPS, config_map("a"))).code == 201
            assert (await admin("GET", MAPS)).code == 200  # reads have seats of their own
            assert (await admin("GET", "/healthz")).code == 200
        await asyncio.sleep(0.1)
        assert (await admin("POST", MAPS, config_map("b"))).code == 201


async def test_a_body_that_is_late_keeps_no_seat_of_a_write(narrow, config_map) -> None:
    _, writer = await post_slowly(narrow)
    async with narrow.http() as admin, narrow.http("eve", ("system:masters",)) as eve:
        assert (await admin("POST", MAPS, config_map("a"))).code == 201
        reader, another = await post_slowly(narrow)
        assert b"429" in await reader.readline(), "of those that wait, one user has so many"
        another.close()
        writer.close()
        await asyncio.sleep(0.1)
        assert (await eve("POST", MAPS, config_map("b"))).code == 201


async def test_watches_keep_no_seat(narrow) -> None:
    async with narrow.http() as admin:
        path = f"{MAPS}?watch=1&timeoutSeconds=1"
        watches = [asyncio.ensure_future(admin("GET", path)) for _ in range(5)]
        codes = [(await watch).code for watch in watches]
        assert codes.count(200) >= 1
        watch = asyncio.ensure_future(admin("GET", path))
        await asyncio.sleep(0.2)
        assert (await admin("GET", MAPS)).code == 200
        assert (await watch).code == 200


async def test_a_connection_that_never_asks_is_closed(site) -> None:
    async with served(site, ServerOptions(keepalive=0.2)) as hasty:
        reader, writer = await asyncio.open_connection("127.0.0.1", hasty.port, ssl=site.tls())
        writer.write(b"GET /healthz HT")  # and no more
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()
