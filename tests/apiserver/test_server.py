"""The server's life: starting, stopping, and clients that behave badly."""

from __future__ import annotations

import asyncio
import errno
import json
import ssl
from pathlib import Path

import aiohttp
import pytest

from orlop import errors
from orlop.api import kinds
from orlop.apiserver import ApiServer
from orlop.apiserver.server import keep_running, load_schema
from orlop.store import Limits, Store

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_a_port_that_is_taken_is_said_so_and_another_can_be_tried(site, tmp_path) -> None:
    store = await Store.open(tmp_path / "second.db")
    tls = site.authority.server_context(site.authority.apiserver)
    server = ApiServer(store, tls=tls, schema=site.server.registry.schema)
    with pytest.raises(OSError, match="in use") as taken:
        await server.start("127.0.0.1", site.port)
    assert taken.value.errno == errno.EADDRINUSE
    assert await server.start("127.0.0.1", 0) != site.port
    await server.stop()
    await store.close()


async def test_stopping_twice_is_harmless(site) -> None:
    await site.server.stop()
    await site.server.stop()


async def test_what_was_acknowledged_is_there_after_a_restart(site, tmp_path, config_map) -> None:
    local = site.server.client("x", ["system:masters"])
    made = await local.create(kinds.CONFIG_MAP, config_map("a"))
    await site.server.stop()
    await site.store.close()
    store = await Store.open(site.store.path)
    server = ApiServer(store, schema=site.server.registry.schema)
    await server.prepare()
    again = server.client("x", ["system:masters"])
    assert (await again.list(kinds.CONFIG_MAP)).items == [made]
    revision = made["metadata"]["resourceVersion"]
    events = again.watch(kinds.CONFIG_MAP, resource_version=str(int(revision) - 1))
    assert (await anext(events)).object == made
    await events.aclose()  # type: ignore[attr-defined]
    await server.stop()
    await store.close()


async def test_a_server_that_stops_ends_every_write_it_has_acknowledged(site, config_map) -> None:
    """Some are refused while it stops; but each that was answered with 201 is there afterwards."""

    async def write(http, name: str) -> str:
        path = "/api/v1/namespaces/default/configmaps"
        try:
            reply = await http("POST", path, config_map(name))
        except aiohttp.ClientError:
            return ""
        return name if reply.code == 201 else ""

    async with site.http() as http:
        await http("GET", "/readyz")
        writing = [asyncio.create_task(write(http, f"n{number}")) for number in range(200)]
        await asyncio.wait(writing, return_when=asyncio.FIRST_COMPLETED)
        await site.server.stop()
        acknowledged = {name for name in await asyncio.gather(*writing) if name}
    assert acknowledged
    kept = {record.key.name for record in site.store.list("configmaps", "default").records}
    assert acknowledged <= kept


async def test_writes_after_the_end_are_refused(site, config_map) -> None:
    local = site.server.client("x", ["system:masters"])
    await site.server.stop()
    await site.store.close()
    with pytest.raises(errors.Unavailable, match="shutting down"):
        await local.create(kinds.CONFIG_MAP, config_map("a"))


def test_the_schema_is_built_once_and_kept(tmp_path: Path) -> None:
    first = load_schema(tmp_path / "state.db")
    assert first.is_fresh
    second = load_schema(tmp_path / "state.db")
    assert not second.is_fresh
    assert second.names() == first.names()
    (tmp_path / "state.schema").write_bytes(b"rubbish")
    assert load_schema(tmp_path / "state.db").is_fresh


class Slow:
    """A client that asks for a watch and then does not read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def watch(cls, site, tls: ssl.SSLContext) -> Slow:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", site.port, ssl=tls, limit=1 << 10
        )
        path = f"{MAPS}?watch=true&resourceVersion={site.store.revision}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert b"200 OK" in await reader.readline()
        return cls(reader, writer)

    async def rest(self) -> bytes:
        chunks = []
        while chunk := await self.reader.read(1 << 20):
            chunks.append(chunk)
            if chunk.endswith(b"0\r\n\r\n"):
                break
        self.writer.close()
        return b"".join(chunks)


@pytest.mark.parametrize("limits", [Limits(events=50)])
async def test_a_client_that_does_not_read_costs_only_itself(
    site, http, local, config_map, limits
) -> None:
    """It falls behind the history and is told to list again; the others see everything."""
    slow = await Slow.watch(site, site.tls())
    url = f"{http.url}{MAPS}?watch=true&resourceVersion={site.store.revision}"
    seen = 0
    async with http.session.get(url, read_bufsize=1 << 22) as quick, asyncio.timeout(30):
        for n in range(300):
            await local.create(kinds.CONFIG_MAP, config_map(f"m{n}", {"x": "y" * 50_000}))
            event = json.loads(await quick.content.readline())
            assert event["object"]["metadata"]["name"] == f"m{n}"
            seen += 1
    assert seen == 300
    async with asyncio.timeout(10):
        rest = await slow.rest()
    assert b'"type":"ERROR"' in rest
    assert b'"reason":"Expired"' in rest


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"BREW /api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["version", "binary", "length", "long", "method"],
)
async def test_nonsense_on_the_wire_is_answered_and_harms_nobody(
    site, http, request_bytes, caplog
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=site.tls())
    writer.write(request_bytes)
    async with asyncio.timeout(5):
        line = await reader.readline()
    assert line.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), line
    writer.close()
    assert (await http("GET", "/healthz")).code == 200


async def test_a_hundred_connections_at_once_are_served(site) -> None:
    async with site.http() as many:
        replies = await asyncio.gather(*(many("GET", "/api/v1/namespaces") for _ in range(100)))
    assert {reply.code for reply in replies} == {200}


async def test_a_part_that_breaks_is_begun_again() -> None:
    begun = 0
    is_well = asyncio.Event()

    async def part() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise ValueError("a case nobody thought of")
        is_well.set()
        await asyncio.sleep(3600)

    task = asyncio.create_task(keep_running("test", part, pause=0.0))
    async with asyncio.timeout(10):
        await is_well.wait()
    task.cancel()
    assert begun == 3


async def test_a_body_that_is_not_the_gzip_it_says_is_refused(http) -> None:
    """Not an error of ours, with its story in the log for everybody who sends one."""
    path = "/api/v1/namespaces/default/configmaps"
    reply = await http(
        "POST", path, b"{}", Content_Encoding="gzip", Content_Type="application/json"
    )
    assert (reply.code, reply.json["reason"]) == (415, "UnsupportedMediaType")
    assert "Content-Encoding 'gzip'" in reply.json["message"]
