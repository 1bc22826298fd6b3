"""Steps of set-up: each knows whether it is done, and does it if not.

Made by `python -m tools`, which runs them in order, or together where they do not need each
other. A step that lacks something it may not install says so and lets the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum


class Outcome(IntEnum):
    """Exit codes of set-up, the worst last."""

    DONE = 0
    LACKING = 3
    FAILED = 1

    @property
    def severity(self) -> int:
        return list(Outcome).index(self)


class Lacking(Exception):
    """A step cannot be done here; the message says what is missing and what would help."""


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    is_done: Callable[[], bool]
    do: Callable[[], str]
    """Returns a few words on what it did."""

    def run(self) -> Outcome:
        began = time.monotonic()
        try:
            if self.is_done():
                return Outcome.DONE
            done = self.do()
        except Lacking as lacking:
            self._say(f"left out: {lacking}")
            return Outcome.LACKING
        except Exception as error:
            self._say(f"failed: {describe(error)}")
            return Outcome.FAILED
        self._say(f"{done} ({time.monotonic() - began:.1f} s)")
        return Outcome.DONE

    def _say(self, words: str) -> None:
        print(f"{self.name:<12} {words}", flush=True)


def describe(error: Exception) -> str:
    """What went wrong, with the last words of a command that failed."""
    said = getattr(error, "stderr", None) or getattr(error, "stdout", None) or ""
    if isinstance(said, bytes):
        said = said.decode(errors="replace")
    return "\n".join([str(error), *said.strip().splitlines()[-10:]])


def run_in_order(steps: Iterable[Step]) -> Outcome:
    """A later step needs the earlier ones: the first failure ends it."""
    worst = Outcome.DONE
    for step in steps:
        worst = worse(worst, step.run())
        if worst is Outcome.FAILED:
            break
    return worst


def run_together(steps: Sequence[Step]) -> Outcome:
    with ThreadPoolExecutor(max_workers=len(steps)) as pool:
        return worse(*pool.map(Step.run, steps))


def worse(*outcomes: Outcome) -> Outcome:
    return max(outcomes, key=lambda outcome: outcome.severity)
