"""How often an engine is asked about its jobs: soon enough to be true, seldom enough to be kind.

Kept by each who asks in a rhythm. While a job of theirs may change, what only the engine knows is
seen within `busy` seconds, unless the engine itself is slow: then no more of the time is spent
asking it than one part in `KINDNESS`. It never asks, and knows no clock.
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
        """`idle` is the longest interval, whatever the reason."""
        self._busy = busy
        self._idle = max(busy, idle)
        self._took: deque[float] = deque(maxlen=RECENT)
        self.interval = busy

    def took(self, seconds: float) -> None:
        """The engine has answered, after so long."""
        self._took.append(seconds)

    @property
    def spacing(self) -> float:
        """Seconds between two questions, at the least, however many wait for an answer."""
        return self._latency * HASTE

    def watch(self) -> None:
        """A job may change at any moment: ask as often as is kind."""
        self.interval = min(max(self._busy, self._latency * KINDNESS), self._idle)

    def relax(self) -> None:
        """Nobody would miss an answer: ask less and less."""
        self.interval = min(max(self._busy, self.interval) * GROWTH, self._idle)

    def rest(self) -> None:
        """As seldom as may be."""
        self.interval = self._idle

    @property
    def _latency(self) -> float:
        return min(self._took, default=0.0)
