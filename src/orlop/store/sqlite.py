"""Keeps state.db: every revision that is still needed, as rows of one table that is appended to.

Used by the store at start (`rows`, `floors`) and by the writer thread afterwards. It speaks SQL up
to SQLite 3.26 and takes objects as bytes.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import ConfigError, HomeInUse

_APPLICATION_ID = 0x6F726C70  # "orlp", so that `file` and a curious reader know what this is
_VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS revisions(
    revision INTEGER PRIMARY KEY,
    bucket TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS floors(bucket TEXT PRIMARY KEY, floor INTEGER NOT NULL) WITHOUT ROWID;
"""


class Row(NamedTuple):
    revision: int
    bucket: str
    namespace: str
    name: str
    deleted: bool
    data: bytes


class Compaction(NamedTuple):
    """Revisions of a bucket that no watch can ask for any more, and its new floor."""

    bucket: str
    floor: int
    revisions: Sequence[int]


class Database:
    """One connection that holds the file for itself as long as it is open."""

    def __init__(self, path: Path, *, options: str = "") -> None:
        """Open the file; `options` go into its URI: `vfs=unix-dotfile` where locks do not work."""
        self.path = path
        _make_private(path)
        uri = f"{path.absolute().as_uri()}?{options}" if options else path.absolute().as_uri()
        try:
            self._db = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=0.5
            )
        except sqlite3.OperationalError as error:
            raise _cannot_open(path, error) from error
        try:
            self.journal = self._prepare()
        except sqlite3.Error as error:
            self._db.close()
            raise _cannot_open(path, error) from error
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> str:
        db = self._db
        # EXCLUSIVE before WAL: then no shared-memory file is made, which network file systems lack.
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        journal: str = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if journal != "wal":
            journal = db.execute("PRAGMA journal_mode=TRUNCATE").fetchone()[0]
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA wal_autocheckpoint=4000")
        db.execute("BEGIN EXCLUSIVE")  # takes the lock, which is then kept
        self._check_version()
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        db.execute(f"PRAGMA user_version={_VERSION}")
        db.execute("COMMIT")
        return journal

    def _check_version(self) -> None:
        found: int = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found > _VERSION:
            raise ConfigError(
                f"{self.path} is of format {found}, this Orlop reads up to {_VERSION}; "
                "start the newer Orlop that wrote it, or another ORLOP_HOME"
            )

    def rows(self) -> Iterator[Row]:
        """Yield everything kept, in the order it was written."""
        query = "SELECT revision, bucket, namespace, name, deleted, data FROM revisions"
        return map(Row._make, self._db.execute(f"{query} ORDER BY revision"))

    def floors(self) -> dict[str, int]:
        return dict(self._db.execute("SELECT bucket, floor FROM floors"))

    def commit(self, rows: Sequence[Row], compactions: Sequence[Compaction]) -> None:
        """Commit all of it, durably, or nothing."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany("INSERT INTO revisions VALUES(?,?,?,?,?,?)", rows)
            for compaction in compactions:
                self._compact(compaction)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _compact(self, compaction: Compaction) -> None:
        forgotten = [(revision,) for revision in compaction.revisions]
        self._db.executemany("DELETE FROM revisions WHERE revision=?", forgotten)
        floor = (compaction.bucket, compaction.floor)
        self._db.execute("INSERT OR REPLACE INTO floors VALUES(?,?)", floor)

    def copy_to(self, path: Path) -> None:
        """Write a consistent copy of everything committed so far, as a database of its own."""
        _make_private(path)
        copy = sqlite3.connect(path, isolation_level=None)
        try:
            self._db.backup(copy)
        finally:
            copy.close()

    def begin_anew(self, leap: int) -> int:
        """Forget all history and move the revision on by `leap`; return the newest revision.

        For a copy that is put in the place of a later state: what clients saw of that state must
        not be taken for something that will come.
        """
        db = self._db
        newest: int = db.execute("SELECT coalesce(max(revision), 0) FROM revisions").fetchone()[0]
        floor = max([newest, *self.floors().values()]) + leap
        db.execute("BEGIN IMMEDIATE")
        db.execute(
            "DELETE FROM revisions WHERE deleted OR revision NOT IN "
            "(SELECT max(revision) FROM revisions GROUP BY bucket, namespace, name)"
        )
        db.execute("DELETE FROM floors")
        db.execute("INSERT INTO floors SELECT DISTINCT bucket, ? FROM revisions", (floor,))
        db.execute("INSERT OR REPLACE INTO floors VALUES('', ?)", (floor,))
        db.execute("COMMIT")
        return floor

    def close(self) -> None:
        self._db.close()


def _make_private(path: Path) -> None:
    """Make the file private, because secrets are in it.

    A file that is there is not opened here: closing would drop its locks.
    """
    try:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            os.chmod(path, 0o600)
    except OSError as error:
        raise _cannot_open(path, error) from error


def _cannot_open(path: Path, error: Exception) -> Exception:
    if "locked" in str(error):
        return HomeInUse(
            f"{path} is held by another control plane; `orlop status` says where it runs, "
            "`orlop down` ends it"
        )
    return ConfigError(
        f"{path} cannot be opened as Orlop's state: {error}; check the folder's permissions and "
        "quota, or choose another ORLOP_HOME"
    )
