"""Decides how often to ask an engine about its jobs: soon enough to be true, not more than is kind.

Kept by each who asks in a rhythm. While a job of theirs may change, what only the engine knows is
seen within `busy` seconds, unless the engine itself is slow: then no more of the time is spent
asking it than one part in `KINDNESS`. Asking, and the clock, are the caller's.
"""

from __future__ import annotations

from collections import deque

# slurmctld serves everybody: of its time, and of ours, a question may take one part in so many.
KINDNESS = 25
HASTE = 2  # one part in so many while somebody waits for the answer
GROWTH = 1.5
RECENT = 3  # answers of which the quickest counts: one slow answer is no slow engine


class Pace:
    def __init__(self, busy: float, idle: float) -> None:
        """Take `idle`, the longest interval, whatever the reason."""
        self._busy = busy
        self._idle = max(busy, idle)
        self._took: deque[float] = deque(maxlen=RECENT)
        self.interval = busy

    def took(self, seconds: float) -> None:
        """Note that the engine has answered, after so long."""
        self._took.append(seconds)

    @property
    def spacing(self) -> float:
        """Return the least seconds between two questions, however many wait for an answer."""
        return self._latency * HASTE

    def watch(self) -> None:
        """Ask as often as is kind: a job may change at any moment."""
        self.interval = min(max(self._busy, self._latency * KINDNESS), self._idle)

    def relax(self) -> None:
        """Ask less and less: nobody would miss an answer."""
        self.interval = min(max(self._busy, self.interval) * GROWTH, self._idle)

    def rest(self) -> None:
        """Ask as seldom as may be."""
        self.interval = self._idle

    @property
    def _latency(self) -> float:
        return min(self._took, default=0.0)
