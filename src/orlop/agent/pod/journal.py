"""Keeps the pod's journal: what the agent saw, one JSON object a line, durable before it is told.

Written by the supervisor, read by the thread of the kubelet connection and, as a file, by the
kubelet. A requeued job continues the numbers of the one before. Records are appended, and neither
changed nor removed.
"""

from __future__ import annotations

import os

from ..linux.fast_imports import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]


class Journal:
    """Append-only; `append` remembers, `flush` makes durable, `durable` is what may be told."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.records = self._read()
        self.durable = len(self.records)
        self._pending: list[bytes] = []

    def _read(self) -> list[Record]:
        """Return all whole lines; cut off a torn last one, of an agent killed while it wrote."""
        size = os.fstat(self._fd).st_size
        text = b""
        while len(text) < size:
            part = os.pread(self._fd, size - len(text), len(text))
            if not part:
                break
            text += part
        whole, newline, torn = text.rpartition(b"\n")
        if torn:
            os.ftruncate(self._fd, len(whole) + len(newline))
        return [loads(line) for line in whole.split(b"\n") if line]

    @property
    def seq(self) -> int:
        """Return the number of the last record that may be told."""
        return self.durable

    def append(self, fields: Record, now: float) -> Record:
        record = {"seq": len(self.records) + 1, "time": round(now, 6), **fields}
        self.records.append(record)
        self._pending.append(dumps(record).encode() + b"\n")
        return record

    def flush(self) -> bool:
        """Make all that was appended durable; return True when there was anything, and it is."""
        if not self._pending:
            return False
        data = b"".join(self._pending)
        try:
            while data:
                data = data[os.write(self._fd, data) :]
            os.fdatasync(self._fd)
        except OSError:
            # A full quota must not end a pod: what is left is written when there is room.
            self._pending = [data]
            return False
        self._pending = []
        self.durable = len(self.records)
        return True

    @property
    def is_behind(self) -> bool:
        """Return whether records wait that could not be written yet."""
        return bool(self._pending)

    def since(self, seq: int) -> list[Record]:
        """Return durable records after number `seq`."""
        return self.records[seq : self.durable]

    def close(self) -> None:
        os.close(self._fd)
