"""`python -m benchmarks [NAME…]`: each benchmark on a Slurm of its own, one table after another.

Run by `make bench`. A benchmark is a module here with `measure(stage)`, which returns tables that
can be printed, and the CONFIG it wants of Orlop; add its name to BENCHMARKS and it is run with the
others. Those in ALONE measure a part by itself and need neither Slurm nor a running Orlop.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Iterable

from tests.cluster.storage import ALL
from tools.stage import find_stage, orlop_up

BENCHMARKS = ("pod_start", "mpi", "burst", "streams", "network")
ALONE = ("apiserver", "controllers")


def main(names: list[str]) -> int:
    unknown = set(names) - {*BENCHMARKS, *ALONE}
    if unknown:
        there = ", ".join((*ALONE, *BENCHMARKS))
        print(f"no benchmark {', '.join(unknown)}; there are {there}")
        return 2
    for name in ALONE:
        if not names or name in names:
            show(importlib.import_module(f"benchmarks.{name}").measure())
    wanted = [name for name in BENCHMARKS if not names or name in names]
    return on_slurm(wanted) if wanted else 0


def show(tables: Iterable[object]) -> None:
    for table in tables:
        print(f"{table}\n", flush=True)


def on_slurm(names: list[str]) -> int:
    stage = find_stage("bench", ALL)
    print(f"{stage.start()}; {os.cpu_count()} CPUs, Linux {platform.release()}\n", flush=True)
    try:
        for name in names:
            benchmark = importlib.import_module(f"benchmarks.{name}")
            up = orlop_up(stage, benchmark.CONFIG)
            if up.returncode:
                print(up.stdout + up.stderr)
                return 1
            show(benchmark.measure(stage))
            stage.run(["orlop", "down"])
    finally:
        stage.run(["orlop", "down", "--purge", "--yes"])
        stage.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
