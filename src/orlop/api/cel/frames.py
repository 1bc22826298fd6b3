"""Holds what an evaluation carries along: variables, and the steps and the time that are left.

Made for each run of a program. Steps are counted as upstream counts its cost, in proportion to the
work; where that proportion is not ours, CPU time is the bound, so that no expression holds up the
server for long, whatever it is made of. What several evaluations about one object take is taken
from one `Budget`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from time import thread_time
from typing import Any

from .errors import CostExceeded

PER_CALL = 1_000_000  # as upstream's PerCallLimit
PER_OBJECT = 10_000_000  # as upstream's RuntimeCELCostBudget
SECONDS = 1.0  # of CPU, for all expressions about one object together
_LOOK = 5_000  # steps between looks at the clock


class Frame:
    __slots__ = ("_begun", "_look", "_seconds", "limit", "steps", "variables")

    def __init__(
        self, variables: dict[str, Any], limit: int = PER_CALL, seconds: float = SECONDS
    ) -> None:
        self.variables = variables
        self.steps = 0
        self.limit = limit
        self._begun = thread_time()
        self._seconds = seconds
        self._look = min(_LOOK, limit)

    @property
    def seconds(self) -> float:
        """Return the CPU seconds it has taken so far."""
        return thread_time() - self._begun

    def spend(self, cost: int = 1) -> None:
        self.steps += cost
        if self.steps > self._look:
            self._check()

    def _check(self) -> None:
        if self.steps > self.limit:
            raise CostExceeded("operation cancelled: actual cost limit exceeded")
        if self.seconds > self._seconds:
            raise CostExceeded(
                f"operation cancelled: it took more than {SECONDS:g} s of computing time"
            )
        self._look = min(self.steps + _LOOK, self.limit)


class Budget:
    """The steps and the time that all evaluations about one object may take together."""

    def __init__(self, steps: int = PER_OBJECT, seconds: float = SECONDS) -> None:
        self._steps = steps
        self._seconds = seconds

    @property
    def is_spent(self) -> bool:
        return self._steps <= 0 or self._seconds <= 0

    def frame(self, variables: dict[str, Any]) -> Frame:
        return Frame(variables, min(PER_CALL, self._steps), self._seconds)

    def take(self, frame: Frame) -> None:
        """Take what a frame has used."""
        self._steps -= frame.steps
        self._seconds -= frame.seconds

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Take the time of what is done beside the evaluations."""
        begun = thread_time()
        yield
        self._seconds -= thread_time() - begun

    def empty(self) -> None:
        self._steps = 0


Eval = Callable[[Frame], Any]


class _Running(local):
    frame: Frame | None = None


_running = _Running()


def charge(cost: int) -> None:
    """Let the evaluation that is running pay: for functions, which see values and no frame."""
    if _running.frame is not None:
        _running.frame.spend(cost)


def run(frame: Frame, program: Eval) -> Any:
    """Run a program on a frame, which pays for all that is done meanwhile."""
    outer, _running.frame = _running.frame, frame
    try:
        return program(frame)
    finally:
        _running.frame = outer
