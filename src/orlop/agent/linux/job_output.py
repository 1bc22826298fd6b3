"""Writes what the agent's processes say into the job's output, which grows in its owner's home.

Used for what a container or the network may cause as often as they like: a few lines are told at
once, then a line a minute with the number of those that were not. What finds no room is dropped, so
that the pod goes on.
"""

from __future__ import annotations

import os
import time

BURST, PAUSE = 20, 60.0
MOST = 500  # characters of a line


class Sayings:
    """The messages of one process; a fork counts for itself."""

    def __init__(self, name: str, fd: int = 2) -> None:
        self._name, self._fd = name, fd
        self._left, self._next, self._untold = BURST, 0.0, 0

    def say(self, words: str) -> None:
        now = time.monotonic()
        if self._left <= 0 and now < self._next:
            self._untold += 1
            return
        self._left, self._next = max(self._left - 1, 0), now + PAUSE
        line = "".join(char if char.isprintable() else " " for char in words[:MOST])
        more = f" (and {self._untold} more were not told)" if self._untold else ""
        self._untold = 0
        try:
            os.write(self._fd, f"{self._name}: {line}{more}\n".encode(errors="replace"))
        except OSError:
            pass  # nobody listens, or there is no room: what is said must not end who says it
