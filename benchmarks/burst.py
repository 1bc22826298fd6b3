"""A burst of one-second pods: how fast Slurm has them all, and how fast they are all over.

Run by `python -m benchmarks`. The same number of one-second jobs is handed in three ways, one after
the other on the same nodes: by as many sbatch calls, eight at a time; as one job array; as the pods
of one Kubernetes Job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.stage import Stage

COUNT = 1000
CONFIG: dict[str, object] = {}
DRIVER = Path(__file__).with_name("burst_driver.py")
HEADER = ("", "accepted by Slurm", "completed", "completed, beside the array")


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds until all were accepted, and until all were over, by way."""

    count: int
    seconds: Mapping[str, tuple[float, float]]

    def rows(self) -> list[tuple[str, ...]]:
        array = self.seconds["one array"][1]
        return [
            (
                name,
                f"{self.count / accepted:.0f}/s",
                f"{self.count / completed:.1f}/s",
                f"{array / completed:.2f}",
            )
            for name, (accepted, completed) in self.seconds.items()
        ]

    def __str__(self) -> str:
        lines = [HEADER, *self.rows()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([f"A burst of {self.count} jobs of one second", "", *text])


def measure(stage: Stage, count: int = COUNT) -> list[Rates]:
    done = stage.run(["python3", "-", str(count)], text=DRIVER.read_text(), timeout=1200)
    if done.returncode:
        raise RuntimeError(f"the driver failed:\n{done.stdout}\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    return [Rates(count, {name: (pair[0], pair[1]) for name, pair in found.items()})]
