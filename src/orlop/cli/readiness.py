"""How a control plane tells the command that started it: up, or why not.

One JSON line through an inherited pipe, written by `serve`, awaited by `up`; the pipe closes by
itself when the process dies, so that nobody waits for the dead. Without a pipe nothing is told.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict

from .record import Record


class Readiness:
    def __init__(self, descriptor: int = -1) -> None:
        self._descriptor = descriptor

    def up(self, record: Record) -> None:
        self._tell({"up": asdict(record)})

    def failed(self, why: str) -> None:
        self._tell({"failed": why})

    def _tell(self, message: dict[str, object]) -> None:
        if self._descriptor < 0:
            return
        try:
            os.write(self._descriptor, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            pass  # whoever started us has gone; we have not
        os.close(self._descriptor)
        self._descriptor = -1


def awaited(descriptor: int) -> tuple[Record | None, str]:
    """Blocks until the other side has spoken or died: its record, or why there is none."""
    with os.fdopen(descriptor, "rb") as pipe:
        line = pipe.readline()
    if not line:
        return None, ""
    message = json.loads(line)
    if "up" in message:
        return Record(**message["up"]), ""
    return None, str(message["failed"])
