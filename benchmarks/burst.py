"""A burst of one-second pods: how fast Slurm has them all, and how fast they are all over.

Run by `python -m benchmarks`. The same number of one-second jobs is handed in three ways, one after
the other on the same nodes: by as many sbatch calls, eight at a time; as one job array; as the pods
of one Kubernetes Job. Beside the rates stands what each job cost of the processors: the machine's
as a whole, with whatever else runs on it, and the control plane's own.
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
HEADER = (
    "",
    "accepted by Slurm",
    "completed",
    "beside the array",
    "CPU a job",
    "of the control plane",
    "until accepted",
)


@dataclass(frozen=True, slots=True)
class Way:
    """Seconds until all were accepted, and over; CPU seconds of the machine and control plane."""

    accepted: float
    completed: float
    machine: float
    plane: float = 0.0
    plane_accepted: float = 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    count: int
    ways: Mapping[str, Way]
    load: float = 0.0  # of the machine, before

    def rows(self) -> list[tuple[str, ...]]:
        array = self.ways["one array"].completed
        return [
            (
                name,
                f"{self.count / way.accepted:.0f}/s",
                f"{self.count / way.completed:.1f}/s",
                f"{array / way.completed:.2f}",
                *(self._each(cpu) for cpu in (way.machine, way.plane, way.plane_accepted)),
            )
            for name, way in self.ways.items()
        ]

    def _each(self, seconds: float) -> str:
        return f"{seconds / self.count * 1000:.1f} ms" if seconds else "-"

    def __str__(self) -> str:
        lines = [HEADER, *self.rows()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        title = f"A burst of {self.count} jobs of one second, begun at a load of {self.load:.1f}"
        return "\n".join([title, "", *text])


def measure(stage: Stage, count: int = COUNT) -> list[Rates]:
    done = stage.run(["python3", "-", str(count)], text=DRIVER.read_text(), timeout=1200)
    if done.returncode:
        raise RuntimeError(f"the driver failed:\n{done.stdout}\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    ways = {name: Way(**way) for name, way in found["ways"].items()}
    return [Rates(count, ways, found["load"])]
