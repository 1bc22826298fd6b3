"""The pod network beside the host's own, slirp4netns and pasta, in the same run.

Run by `python -m benchmarks`. A server with iperf3 and redis on one node, clients on the same node
and on another: pods with a network of their own through a service, pods with `hostNetwork`, and
the same programs behind slirp4netns and pasta, as rootless containers elsewhere have them. Ways
are measured in turn, and every number is also a part of the host's.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.stage import Stage

ROUNDS = 3
CONFIG: dict[str, object] = {}
DRIVER = Path(__file__).with_name("network_driver.py")
HOST = "host"
# Measure -> title, factor, digits; of round trips less is better, of all others more.
MEASURES = {
    "one stream": ("1 stream Gb/s", 1e-9, 1),
    "four streams": ("4 streams Gb/s", 1e-9, 1),
    "round trip": ("round trip us", 1e6, 1),
    "redis": ("redis GET/s, 20 clients", 1.0, 0),
    "new connections": ("new connections/s", 1.0, 0),
    "new connections at once": ("the same, 8 clients", 1.0, 0),
}
AIM = (
    "Aim: throughput and round trips >= 0.97 of the host's own, new connections >= 0.6. Each is a "
    "median;\nin brackets its part of the host's of the same run (for round trips the host's part "
    "of it)."
)


@dataclass(frozen=True, slots=True)
class Rates:
    """Samples by way and measure."""

    title: str
    samples: Mapping[str, Mapping[str, Sequence[float]]]

    def rows(self) -> list[list[str]]:
        return [[way, *self._cells(found)] for way, found in self.samples.items()]

    def _cells(self, found: Mapping[str, Sequence[float]]) -> list[str]:
        cells = []
        for name, (_, factor, digits) in MEASURES.items():
            middle = statistics.median(found[name])
            host = statistics.median(self.samples[HOST][name])
            part = host / middle if name == "round trip" else middle / host
            cells.append(f"{middle * factor:.{digits}f} ({part:.2f})")
        return cells

    def __str__(self) -> str:
        lines = [["", *(title for title, _, _ in MEASURES.values())], *self.rows()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        text = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([self.title, "", *text, "", AIM])


@dataclass(frozen=True, slots=True)
class NamesAndServices:
    """Answers a second of one agent; seconds for a connection to few endpoints and to many."""

    samples: Mapping[str, Sequence[float]]

    def __str__(self) -> str:
        dns, few, many = (statistics.median(self.samples[key]) for key in ("dns", "few", "many"))
        rows = [
            f"DNS answers/s of one pod's agent          {dns:8.0f}",
            f"connect to a service of   5 endpoints     {few * 1e6:8.1f} us",
            f"connect to a service of 500 endpoints     {many * 1e6:8.1f} us ({many / few:.2f})",
        ]
        aim = "Aim: at least 5,000 answers/s; 500 endpoints cost no more than 5."
        return "\n".join(["Network, names and services", "", *rows, "", aim])


def measure(stage: Stage, rounds: int = ROUNDS) -> list[Rates | NamesAndServices]:
    done = stage.run(["python3", "-", str(rounds)], text=DRIVER.read_text(), timeout=3000)
    if done.returncode:
        raise RuntimeError(f"the driver failed:\n{done.stdout}\n{done.stderr}")
    here, across, others = (json.loads(line) for line in done.stdout.splitlines()[-3:])
    return [
        Rates("Network, client and server on one node", here),
        Rates("Network, client and server on two nodes", across),
        NamesAndServices(others),
    ]
