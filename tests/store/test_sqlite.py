"""state.db by itself: all or nothing, in order, and one owner."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from orlop.errors import ConfigError, HomeInUse
from orlop.store.sqlite import Compaction, Database, Row


def row(revision: int, *, deleted: bool = False, data: bytes = b"{}") -> Row:
    return Row(revision, "pods", "default", f"p{revision}", deleted, data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def test_rows_come_back_in_the_order_of_their_revisions(path: Path) -> None:
    database = Database(path)
    database.commit([row(2), row(1)], [])
    database.commit([row(3, deleted=True, data=b"\x00\xff")], [])
    database.close()
    again = Database(path)
    found = list(again.rows())
    assert [one.revision for one in found] == [1, 2, 3]
    assert found[2].deleted
    assert found[2].data == b"\x00\xff"
    again.close()


def test_a_commit_that_fails_leaves_nothing_behind(path: Path) -> None:
    database = Database(path)
    database.commit([row(1)], [])
    with pytest.raises(sqlite3.IntegrityError):
        database.commit([row(2), row(3), row(1)], [])
    assert [one.revision for one in database.rows()] == [1]
    database.commit([row(2)], [])
    assert [one.revision for one in database.rows()] == [1, 2]
    database.close()


def test_compaction_forgets_revisions_and_raises_the_floor(path: Path) -> None:
    database = Database(path)
    database.commit([row(n) for n in range(1, 6)], [])
    database.commit([row(6)], [Compaction("pods", 3, [1, 2]), Compaction("nodes", 9, [])])
    assert [one.revision for one in database.rows()] == [3, 4, 5, 6]
    assert database.floors() == {"pods": 3, "nodes": 9}
    database.close()


def test_no_shared_memory_file_is_made(path: Path) -> None:
    """Network file systems cannot carry one."""
    database = Database(path)
    database.commit([row(1)], [])
    assert database.journal == "wal"
    assert {file.name for file in path.parent.iterdir()} == {"state.db", "state.db-wal"}
    database.close()
    assert {file.name for file in path.parent.iterdir()} == {"state.db"}


def test_whoever_opens_it_has_it_alone(path: Path) -> None:
    first = Database(path)
    with pytest.raises(HomeInUse):
        Database(path)
    first.close()
    Database(path).close()


def test_names_with_odd_characters_in_the_path_are_fine(tmp_path: Path) -> None:
    odd = tmp_path / "a ? b # c %20"
    odd.mkdir()
    database = Database(odd / "state.db")
    database.commit([row(1)], [])
    database.close()
    assert (odd / "state.db").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ORLOP_HOME"):
        Database(tmp_path / "none" / "state.db")


def test_secrets_are_for_their_owner_alone(path: Path) -> None:
    database = Database(path)
    database.commit([row(1)], [])
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    database.close()
