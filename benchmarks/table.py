"""What a benchmark answers: named samples, and one of them as the measure of the others.

Made by each benchmark, printed by `python -m benchmarks`. Medians, because machines are noisy; it
never throws a sample away.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds, by way of doing it; `plain` is the way to which the others are compared."""

    title: str
    seconds: Mapping[str, Sequence[float]]
    plain: str
    aim: str = ""

    def rows(self) -> list[tuple[str, ...]]:
        base = statistics.median(self.seconds[self.plain])
        rows = []
        for name, samples in self.seconds.items():
            median = statistics.median(samples)
            beside = name != self.plain
            rows.append(
                (
                    name,
                    str(len(samples)),
                    _ms(median),
                    _ms(quantile(samples, 0.1)),
                    _ms(quantile(samples, 0.9)),
                    f"{(median - base) * 1000:+.0f} ms" if beside else "",
                    f"{median / base:.2f}" if beside else "1",
                )
            )
        return rows

    def __str__(self) -> str:
        header = ("", "runs", "median", "p10", "p90", f"over {self.plain}", "ratio")
        lines = [header, *self.rows()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
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


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
