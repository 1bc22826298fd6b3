"""Tells the command that started a control plane that it is up, or why not.

One JSON line through an inherited pipe, written by `serve`, awaited by `up`; the pipe closes by
itself when the process dies, so that the waiting command notices. Without a pipe nothing is told.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict

from ...errors import HomeInUse
from ..home.record import Record


class Readiness:
    def __init__(self, descriptor: int = -1) -> None:
        self._descriptor = descriptor

    def up(self, record: Record) -> None:
        self._tell({"up": asdict(record)})

    def failed(self, why: str, *, is_in_use: bool = False) -> None:
        """Tell why it failed; `is_in_use`: another control plane got the home first."""
        self._tell({"failed": why, "in_use": is_in_use})

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
    """Block until the other side has spoken or died; return its record, or why there is none.

    Raises HomeInUse where that is because the home has a control plane, or is just getting one.
    """
    with os.fdopen(descriptor, "rb") as pipe:
        line = pipe.readline()
    if not line:
        return None, ""
    message = json.loads(line)
    if "up" in message:
        return Record(**message["up"]), ""
    if message["in_use"]:
        raise HomeInUse(str(message["failed"]))
    return None, str(message["failed"])
