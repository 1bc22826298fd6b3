"""Knows whether the engine answers, as far as any caller has noticed.

Reported by everyone who asks it, read by the pods' workers and the nodes. A short silence is not
told: a slurmctld that restarts is back before it is worth a write on every pod. It does not ask the
engine itself.
"""

from __future__ import annotations

from collections.abc import Callable

from ...client.clock import Clock, SystemClock
from ...log import logger

TOLD_AFTER = 5.0  # seconds without an answer

log = logger(__name__)


class EngineHealth:
    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._silent_since: float | None = None
        self._is_told = False
        self._listeners: list[Callable[[], None]] = []
        self.last = ""  # the words of its last silence
        self._back_since = float("-inf")

    @property
    def is_down(self) -> bool:
        """Return whether its last call failed: asking it for more would just wait."""
        return self._silent_since is not None

    def has_answered_for(self, seconds: float) -> bool:
        """Return whether it has been there long enough to have heard what happened before."""
        return not self.is_down and self._clock.now() - self._back_since >= seconds

    @property
    def error(self) -> str:
        """Return why it does not answer, once that is worth telling; empty while it answers."""
        return self.last if self._is_told else ""

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` when its silence is worth telling, and when it answers again."""
        self._listeners.append(listener)

    def answered(self) -> None:
        if self._silent_since is None:
            return
        log.info("the engine answers again", after=round(self._clock.now() - self._silent_since, 1))
        self._silent_since, self._is_told = None, False
        self._back_since = self._clock.now()
        self._tell()

    def silent(self, error: Exception) -> None:
        """Take note that the engine did not answer; tell it the second time, if that is not right
        after the first.
        """
        self.last = str(error)
        if self._silent_since is None:
            self._silent_since = self._clock.now()
            log.warning("the engine does not answer", error=error)
        elif not self._is_told and self._clock.now() - self._silent_since >= TOLD_AFTER:
            self._is_told = True
            self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
