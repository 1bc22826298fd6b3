"""Whether the engine answers, as far as anybody here has noticed.

Reported by everyone who asks it, read by the pods' workers and the nodes. One silence is not told
to anyone: a slurmctld that restarts is back before two have passed. It never asks the engine.
"""

from __future__ import annotations

from collections.abc import Callable

from ..log import logger

TOLD_AFTER = 2  # silences in a row

log = logger(__name__)


class EngineHealth:
    def __init__(self) -> None:
        self._silences = 0
        self.last = ""  # the words of its last silence
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_down(self) -> bool:
        """Whether its last answer was none: asking it for more would only wait."""
        return self._silences > 0

    @property
    def error(self) -> str:
        """Why it does not answer, once that is worth telling; empty while it does."""
        return self.last if self._silences >= TOLD_AFTER else ""

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever it begins or ceases to answer, or its silence is told."""
        self._listeners.append(listener)

    def answered(self) -> None:
        if self._silences:
            log.info("the engine answers again", silences=self._silences)
            self._silences = 0
            self._tell()

    def silent(self, error: Exception) -> None:
        self._silences += 1
        self.last = str(error)
        if self._silences <= TOLD_AFTER:
            log.warning("the engine does not answer", error=error, silences=self._silences)
            self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
