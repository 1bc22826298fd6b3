"""Sessions with an agent: windows both ways, ends, and what a broken line leaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orlop.kubelet.agents.sessions import AgentSession, SessionFailed
from orlop.wellknown import STREAM_WINDOW


class Line:
    """Remembers what was said and sent."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []
        self.sent: list[tuple[int, bytes]] = []
        self.dropped: list[tuple[int, bool]] = []

    def tell(self, message: dict[str, Any]) -> None:
        self.said.append(message)

    async def send(self, number: int, data: bytes) -> None:
        self.sent.append((number, data))

    def drop(self, number: int, *, tell: bool) -> None:
        self.dropped.append((number, tell))


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
async def session(line: Line) -> AgentSession:
    return AgentSession(line, 7)


async def test_no_more_is_sent_than_the_agent_takes(session, line) -> None:
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(session.main.write(b"x" * (STREAM_WINDOW + 10)))
        await asyncio.sleep(0.01)
        assert sum(len(data) for _, data in line.sent) == STREAM_WINDOW
        assert not writing.done()
        session.on_message({"type": "credit", "stream": 7, "bytes": 100})
    assert sum(len(data) for _, data in line.sent) == STREAM_WINDOW + 10
    assert {number for number, _ in line.sent} == {7}


async def test_credit_is_given_for_what_was_dealt_with(session, line) -> None:
    piece = STREAM_WINDOW // 2
    session.feed(b"a" * piece)
    await session.main.read()
    assert line.said == [], "it is not dealt with before the next is asked for"
    session.feed(b"b")
    await session.main.read()
    assert line.said == [{"type": "credit", "stream": 7, "bytes": piece}]


async def test_an_agent_that_sends_without_credit_speaks_nonsense(session) -> None:
    session.feed(b"a" * STREAM_WINDOW)
    with pytest.raises(ValueError, match="without credit"):
        session.feed(b"b")


async def test_it_opens_ends_and_has_a_code(session, line) -> None:
    session.on_message({"type": "opened", "stream": 7})
    await session.opened()
    session.feed(b"last")
    session.on_message({"type": "eof", "stream": 7})
    session.on_message({"type": "closed", "stream": 7, "error": "", "code": 3})
    assert [await session.main.read(), await session.main.read()] == [b"last", b""]
    assert await session.errors.read() == b""
    assert await session.exit_code() == 3
    session.close()
    assert line.dropped == [(8, False), (7, False)], "the agent knows already"


@pytest.mark.parametrize("how", ["refused", "lost"])
async def test_what_does_not_come_to_be_says_why(session, how) -> None:
    if how == "refused":
        session.on_message({"type": "closed", "stream": 7, "error": "no such thing"})
    else:
        session.lost()
    with pytest.raises(SessionFailed, match=r"no such thing|agent broke"):
        await session.opened()
    with pytest.raises(SessionFailed):
        await session.exit_code()


async def test_a_writer_does_not_wait_for_a_line_that_is_lost(session) -> None:
    async with asyncio.timeout(1), asyncio.TaskGroup() as tasks:
        tasks.create_task(session.main.write(b"x" * 2 * STREAM_WINDOW))
        await asyncio.sleep(0)
        session.lost()


async def test_closing_tells_the_agent_to_end_what_runs(session, line) -> None:
    session.on_message({"type": "opened", "stream": 7})
    session.close()
    assert line.dropped == [(8, False), (7, True)]


async def test_sizes_and_ends_are_told(session, line) -> None:
    session.resize(80, 24)
    session.main.end()
    assert line.said == [
        {"type": "resize", "stream": 7, "width": 80, "height": 24},
        {"type": "eof", "stream": 7},
    ]
