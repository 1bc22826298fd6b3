"""Sessions are kept for the next request, and never taken from one that is under way."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from orlop.apiserver.proxy.sessions import Sessions


@pytest.fixture
async def sessions() -> AsyncIterator[Sessions[str]]:
    made: Sessions[str] = Sessions(2)
    yield made
    await made.close()


async def opened(sessions: Sessions[str], key: str) -> aiohttp.ClientSession:
    async with sessions.use(key, aiohttp.ClientSession) as session:
        return session


async def test_the_next_request_has_the_same_session(sessions: Sessions[str]) -> None:
    assert await opened(sessions, "a") is await opened(sessions, "a")


async def test_the_one_used_longest_ago_is_closed_when_there_are_too_many(
    sessions: Sessions[str],
) -> None:
    first, second = await opened(sessions, "a"), await opened(sessions, "b")
    await opened(sessions, "a")
    third = await opened(sessions, "c")
    assert [one.closed for one in (first, second, third)] == [False, True, False]


async def test_one_in_use_stays_open_until_it_is_not(sessions: Sessions[str]) -> None:
    async with sessions.use("a", aiohttp.ClientSession) as busy:
        for key in "bcd":
            await opened(sessions, key)
        assert not busy.closed
        assert sessions.get("a") is busy
    await opened(sessions, "e")
    await opened(sessions, "f")
    assert busy.closed
    assert sessions.get("a") is None


async def test_all_are_closed_at_the_end(sessions: Sessions[str]) -> None:
    found = [await opened(sessions, key) for key in "ab"]
    await sessions.close()
    assert all(one.closed for one in found)
