"""A log that goes on in other files, read while it does."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from orlop.agent.container.logs import LogFile, LogReader, Room
from orlop.kubelet.server.log_files import LogFiles
from orlop.kubelet.server.logs import LogOptions, read_log

SMALL = Room(2000, 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs/c/0.log"


def filled(path: Path, count: int, room: Room = SMALL) -> LogFile:
    log = LogFile(str(path), room)
    for number in range(count):
        log.feed("stdout", b"%d\n" % number)
    return log


class Over:
    """A run that has ended, whose agent is gone."""

    def is_over(self) -> bool:
        return True

    def open(self, offset: int, *, follow: bool) -> None:
        return None


async def shown(path: Path, feed: object = None, **options: object) -> list[int]:
    text = b""
    async for data in read_log(path, LogOptions(**options), feed or Over()):  # type: ignore[arg-type]
        text += data
    return [int(line) for line in text.split()]


async def test_all_that_is_kept_is_shown(path):
    filled(path, 500).close()
    found = await shown(path)
    assert found == list(range(found[0], 500))
    assert len(LogFiles(path).starts()) == 3


@pytest.mark.parametrize("count", [0, 1, 39, 60, 100, 10_000])
async def test_a_tail_reaches_over_files(path, count):
    filled(path, 500).close()
    whole = await shown(path)
    assert await shown(path, tail_lines=count) == (whole[-count:] if count else [])


async def test_one_file_of_an_agent_before_this_one_is_shown_as_ever(path):
    filled(path, 50, Room(0, 5)).close()
    assert os.listdir(path.parent) == ["0.log"]
    assert await shown(path) == list(range(50))


class Stream:
    """What an agent sends, as agents.LogStream shows it."""

    def __init__(self, path: Path, offset: int, agent: Agent) -> None:
        self._reader: LogReader | None = None
        self._agent, self.is_complete = agent, False
        try:
            self._reader = LogReader(str(path), offset, lambda: not agent.over)
        except OSError:
            pass

    async def read(self) -> bytes:
        while self._reader is not None and random.random() > self._agent.breaks:
            try:
                data = self._reader.read()
            except OSError:
                return b""
            if data is None:
                self.is_complete = True
                return b""
            if data:
                return data
            await asyncio.sleep(0.001)
        return b""

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


class Agent:
    """Breaks now and then, and is away now and then."""

    def __init__(self, path: Path, breaks: float, away: float) -> None:
        self._path, self.breaks, self._away, self.over = path, breaks, away, False

    def is_over(self) -> bool:
        return self.over

    def open(self, offset: int, *, follow: bool) -> Stream | None:
        return None if random.random() < self._away else Stream(self._path, offset, self)


@pytest.mark.parametrize(
    ("breaks", "away"), [(0.0, 0.0), (0.3, 0.0), (0.3, 0.5), (0.0, 1.0)],
    ids=["whole", "breaks", "comes and goes", "never"],
)  # fmt: skip
async def test_who_follows_sees_every_line_once_whatever_becomes_of_the_line(
    path, monkeypatch, breaks, away
):
    monkeypatch.setattr("orlop.kubelet.server.logs.FILE_POLL", 0.001)
    log, agent = filled(path, 1), Agent(path, breaks, away)

    async def write() -> None:
        for number in range(1, 3000):
            log.feed("stdout", b"%d\n" % number)
            if number % 10 == 0:
                await asyncio.sleep(0.002)
        log.close()
        agent.over = True

    writing = asyncio.ensure_future(write())
    async with asyncio.timeout(60):
        found = await shown(path, agent, follow=True)
    await writing
    assert found == list(range(3000))


async def test_who_is_too_slow_goes_on_with_what_is_left(path, monkeypatch):
    monkeypatch.setattr("orlop.kubelet.server.logs.FILE_POLL", 0.001)
    log, agent = filled(path, 1), Agent(path, 0.0, 0.0)
    found = b""
    async for data in read_log(path, LogOptions(follow=True), agent):  # type: ignore[arg-type]
        found += data
        if not agent.over:
            for number in range(1, 2000):
                log.feed("stdout", b"%d\n" % number)
            log.close()
            agent.over = True
    numbers = [int(line) for line in found.split()]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 1999


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
async def test_what_is_no_file_of_a_log_is_not_read(path, tmp_path, kind):
    path.parent.mkdir(parents=True)
    (tmp_path / "secret").write_text("2026-01-01T00:00:00Z stdout F 7\n")
    for place in (path, path.with_name("0.log.100")):
        if kind == "link":
            place.symlink_to(tmp_path / "secret")
        elif kind == "pipe":
            os.mkfifo(place)
        elif kind == "folder":
            place.mkdir()
        else:
            place.symlink_to("/dev/zero")
    async with asyncio.timeout(5):
        assert await shown(path) == []
        assert await shown(path, tail_lines=3) == []
