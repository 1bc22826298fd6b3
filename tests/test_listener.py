"""Who says nothing does not stay, and costs nobody who does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from orlop import pki
from orlop.listener import Listener, Patience


class Echo(asyncio.Protocol):
    """Repeats what it hears; to `it is me` it listens."""

    listener: Listener | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data == b"it is me":
            assert Echo.listener is not None
            Echo.listener.know(self._transport)
        self._transport.write(data)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.ensure(tmp_path_factory.mktemp("pki"), ["localhost", "127.0.0.1"])


@asynccontextmanager
async def listening(authority: pki.Pki, patience: Patience) -> AsyncIterator[int]:
    listener = Listener(Echo, authority.server_context(authority.apiserver), patience)
    Echo.listener = listener
    yield listener.start("127.0.0.1", 0)
    await listener.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_at_all_addresses_both_families_are_taken(authority: pki.Pki, host: str) -> None:
    listener = Listener(Echo, authority.server_context(authority.apiserver))
    port = listener.start("::", 0)
    tls = authority.client_context(authority.admin)
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname="localhost")
    writer.write(b"hello")
    assert await asyncio.wait_for(reader.read(100), 20) == b"hello"
    writer.close()
    await listener.close()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(port: int, tls: ssl.SSLContext | None) -> Streams:
    name = "localhost" if tls is not None else None
    return await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)


async def is_dropped(streams: Streams) -> bool:
    reader, writer = streams
    try:
        return await asyncio.wait_for(reader.read(100), 20) == b""
    except ConnectionError:
        return True
    finally:
        writer.close()


async def answers(streams: Streams, words: bytes) -> bool:
    reader, writer = streams
    writer.write(words)
    return await asyncio.wait_for(reader.read(100), 20) == words


async def test_a_connection_that_never_begins_tls_is_dropped(authority: pki.Pki) -> None:
    async with listening(authority, Patience(handshake=0.3)) as port:
        assert await is_dropped(await connected(port, None))


async def test_a_stranger_that_never_says_who_it_is_is_dropped(authority: pki.Pki) -> None:
    async with listening(authority, Patience(stranger=0.3)) as port:
        streams = await connected(port, authority.client_context())
        assert await answers(streams, b"hello")
        assert await is_dropped(streams)


@pytest.mark.parametrize("has_certificate", [True, False], ids=["certificate", "known"])
async def test_who_is_known_stays(authority: pki.Pki, has_certificate: bool) -> None:
    tls = authority.client_context(authority.admin if has_certificate else None)
    async with listening(authority, Patience(stranger=0.5)) as port:
        streams = await connected(port, tls)
        assert await answers(streams, b"hello" if has_certificate else b"it is me")
        await asyncio.sleep(1)
        assert await answers(streams, b"still here")
        streams[1].close()


async def test_of_too_many_handshakes_the_oldest_makes_room(authority: pki.Pki) -> None:
    async with listening(authority, Patience(handshakes=3)) as port:
        silent = [await connected(port, None) for _ in range(5)]
        streams = await connected(port, authority.client_context(authority.admin))
        assert await answers(streams, b"hello")
        assert await is_dropped(silent[0])
        for _, writer in (*silent, streams):
            writer.close()


async def test_of_too_many_strangers_the_oldest_makes_room(authority: pki.Pki) -> None:
    async with listening(authority, Patience(strangers=2)) as port:
        crowd = [await connected(port, authority.client_context()) for _ in range(3)]
        assert await is_dropped(crowd[0])
        assert await answers(crowd[2], b"hello")
        for _, writer in crowd:
            writer.close()


async def test_what_is_no_tls_at_all_harms_nobody(authority: pki.Pki, tmp_path: Path) -> None:
    async with listening(authority, Patience()) as port:
        garbage = await connected(port, None)
        garbage[1].write(b"GET / HTTP/1.1\r\n\r\n" + bytes(range(256)))
        await is_dropped(garbage)
        streams = await connected(port, authority.client_context(authority.admin))
        assert await answers(streams, b"hello")
        streams[1].close()
