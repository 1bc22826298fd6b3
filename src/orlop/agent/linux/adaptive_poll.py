"""Looks at what costs something to look at: the longer a look takes, the rarer it is taken.

Used by `memory_limits` and `disk_limits`, each in a thread of its own.
"""

from __future__ import annotations

import time

from .fast_imports import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

REST = 20.0  # times what a look took pass before the next


def now_and_then(look: Callable[[], bool], interval: float) -> None:
    """Look at most every `interval` seconds, until `look` says that it has seen enough."""

    def run() -> None:
        took, is_enough = 0.0, False
        while not is_enough:
            time.sleep(max(interval, REST * took))
            began = time.monotonic()
            is_enough = look()
            took = time.monotonic() - began

    start_thread(run)
