"""What a benchmark answers: named samples, and which is the measure of which.

Made by each benchmark, printed by `python -m benchmarks`. Medians, because machines are noisy; it
never throws a sample away.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HEADER = ("", "runs", "median", "p10", "p90", "over the plain tool", "ratio")


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds, by way of doing it; `plain` names the way by hand to which a way is compared."""

    title: str
    seconds: Mapping[str, Sequence[float]]
    plain: Mapping[str, str]
    aim: str = ""

    def rows(self) -> list[tuple[str, ...]]:
        return [self._row(name, samples) for name, samples in self.seconds.items()]

    def _row(self, name: str, samples: Sequence[float]) -> tuple[str, ...]:
        median = statistics.median(samples)
        shown = [median, quantile(samples, 0.1), quantile(samples, 0.9)]
        row = (name, str(len(samples)), *(f"{seconds * 1000:.0f} ms" for seconds in shown))
        if name not in self.plain:
            return (*row, "", "")
        base = statistics.median(self.seconds[self.plain[name]])
        return (*row, f"{(median - base) * 1000:+.0f} ms", f"{median / base:.2f}")

    def __str__(self) -> str:
        lines = [HEADER, *self.rows()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
        first = widths.pop(0)
        text = [
            line[0].ljust(first)
            + "".join(
                "  " + cell.rjust(width) for cell, width in zip(line[1:], widths, strict=True)
            )
            for line in lines
        ]
        return "\n".join([self.title, "", *text, *(["", self.aim] if self.aim else [])])


def quantile(samples: Sequence[float], part: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
