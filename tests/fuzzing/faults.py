"""What can be wrong with a parser, and what a worker is told to do: values, between both sides."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ERROR = "error"  # an exception that is none of those it may raise
CRASH = "crash"  # its process ended
SLOW = "slow"  # more than a second for one input
HANG = "hang"  # no end at all
MEMORY = "memory"  # very much for one input
GROWTH = "growth"  # ever more from input to input


@dataclass(frozen=True)
class Task:
    targets: tuple[tuple[str, str], ...]  # modules and names, one after the other
    inputs: int = 0  # for each
    seed: int = 0
    replay: str | None = None  # one input, in hex
    is_native: bool = False


@dataclass(frozen=True)
class Fault:
    kind: str
    words: str
    file: Path | None = None  # with the input, if it is one's fault


@dataclass(frozen=True)
class Outcome:
    """What came of one target."""

    faults: tuple[Fault, ...]
    numbers: Mapping[str, float]  # as the worker counted: done, seconds, worked, refused…

    @property
    def inputs(self) -> int:
        return int(self.numbers.get("done", 0))

    @property
    def rate(self) -> float:
        """Inputs a second of the worker's own time, whatever else the machine did."""
        return self.inputs / (self.numbers.get("worked") or 1e9)

    def __str__(self) -> str:
        seconds = self.numbers.get("seconds", 0.0)
        told = [f"{self.inputs} inputs", f"{self.rate:.0f}/s", f"{seconds:.0f} s"]
        told += [f"{name} {self.numbers.get(name, 0):.0f}" for name in ("refused", "kept", "lines")]
        return ", ".join([*told, f"{len(self.faults)} faults"])


def signature_of(error: BaseException) -> str:
    """By where it came from, so that each fault is told once."""
    at = traceback.extract_tb(error.__traceback__)
    places = [f"{one.filename}:{one.lineno}" for one in at if "/src/orlop/" in one.filename]
    return " ".join([type(error).__name__, *(places[-1:] or [f"{one.lineno}" for one in at[-1:]])])
