from __future__ import annotations

import asyncio
import os
import signal

import pytest

from orlop.cli.control_plane.tasks import ComponentEnded, until_stopped


async def for_ever(ended: list[str], name: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append(name)


async def at_once() -> None:
    await asyncio.sleep(0)


async def broken() -> None:
    await asyncio.sleep(0)
    raise RuntimeError("no bottom")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_all_of_them_in_order(number):
    ended: list[str] = []
    asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), number)
    await until_stopped({"a": for_ever(ended, "a"), "b": for_ever(ended, "b")})
    assert sorted(ended) == ["a", "b"]


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [(broken, RuntimeError, "no bottom"), (at_once, ComponentEnded, "doomed")],
    ids=["raises", "returns"],
)
async def test_one_that_ends_brings_the_others_down_and_is_named(caplog, task, error, message):
    ended: list[str] = []
    with pytest.raises(ExceptionGroup) as caught:
        await until_stopped({"doomed": task(), "healthy": for_ever(ended, "healthy")})
    (why,) = caught.value.exceptions
    assert isinstance(why, error)
    assert message in str(why)
    assert ended == ["healthy"]
    assert any(record.values["component"] == "doomed" for record in caplog.records)
