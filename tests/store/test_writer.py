"""The writer: few commits for many writes, in order, and no life after a failure."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from orlop.api.objects import Key
from orlop.store.record import ADDED, Event, Record
from orlop.store.sqlite import Compaction, Database, Row
from orlop.store.writer import Write, Writer


class Counted(Database):
    """A real database that remembers its commits, and fails those it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.batches: list[list[int]] = []
        self.fails: set[int] = set()

    def commit(self, rows: Sequence[Row], compactions: Sequence[Compaction]) -> None:
        revisions = [row.revision for row in rows]
        if self.fails & set(revisions):
            raise sqlite3.OperationalError("database or disk is full")
        super().commit(rows, compactions)
        self.batches.append(revisions)


@pytest.fixture
def database(tmp_path: Path) -> Counted:
    return Counted(tmp_path / "state.db")


class Told:
    """What the writer reported, in order."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, str]] = []

    def __call__(self, writes: Sequence[Write], error: sqlite3.Error | None) -> None:
        self.outcomes += [(write.event.revision, str(error or "")) for write in writes]


def write(revision: int, generation: int = 0) -> Write:
    record = Record(revision, Key("default", f"p{revision}"), b"{}")
    done = asyncio.get_running_loop().create_future()
    return Write("pods", Event(ADDED, record, None), generation, done)


async def test_what_gathers_during_a_commit_shares_the_next(database: Counted) -> None:
    told = Told()
    writer = Writer(database, told)
    for revision in range(1, 2001):
        writer.submit(write(revision))
    await writer.close()
    await asyncio.sleep(0)
    assert [revision for revision, _ in told.outcomes] == [*range(1, 2001)]
    assert len(database.batches) < 500
    assert [revision for batch in database.batches for revision in batch] == [*range(1, 2001)]
    assert [one.revision for one in database.rows()] == [*range(1, 2001)]
    database.close()


async def test_what_was_built_upon_a_failed_write_fails_and_the_rest_goes_on(
    database: Counted,
) -> None:
    told = Told()
    database.fails = {1}
    writer = Writer(database, told)
    writer.submit(write(1))
    while not told.outcomes:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    writer.submit(write(2))  # made before anyone heard of the failure
    writer.submit(write(3, generation=1))  # made after
    await writer.close()
    await asyncio.sleep(0)
    assert [bool(error) for _, error in told.outcomes] == [True, True, False]
    assert "full" in told.outcomes[0][1]
    assert [one.revision for one in database.rows()] == [3]
    database.close()


async def test_a_compaction_that_fails_costs_no_write(database: Counted) -> None:
    told = Told()
    writer = Writer(database, told)
    writer.submit(Compaction("pods", 1, [1]))
    writer.submit(write(1))
    await writer.close()
    await asyncio.sleep(0)
    assert [error for _, error in told.outcomes] == [""]
    database.close()
