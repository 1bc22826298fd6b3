"""Keeps objects: one revision counter over SQLite, and watches from any kept revision.

`Store` is what the API server reads and writes; it writes state.db. Nothing here knows kinds,
defaults or HTTP: a bucket is a name, an object is JSON bytes with its revision inside.
"""

from .history import Limits
from .record import Event, Record
from .store import RevisionConflict, Snapshot, Store
from .watch import Expired, Watch

__all__ = ["Event", "Expired", "Limits", "Record", "RevisionConflict", "Snapshot", "Store", "Watch"]
