"""`python -m benchmarks [NAME…]`: each benchmark on a Slurm of its own, one table after another.

Run by `make bench`. A benchmark is a module here with `measure(stage) -> list[Samples]` and the
CONFIG it wants of Orlop; add its name to BENCHMARKS and it is run with the others.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys

from tools.stage import find_stage, orlop_up

BENCHMARKS = ("pod_start",)


def main(names: list[str]) -> int:
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
        return 2
    stage = find_stage("bench")
    print(f"{stage.start()}; {os.cpu_count()} CPUs, Linux {platform.release()}\n", flush=True)
    try:
        for name in names or BENCHMARKS:
            benchmark = importlib.import_module(f"benchmarks.{name}")
            up = orlop_up(stage, benchmark.CONFIG)
            if up.returncode:
                print(up.stdout + up.stderr)
                return 1
            for samples in benchmark.measure(stage):
                print(f"{samples}\n", flush=True)
            stage.run(["orlop", "down"])
    finally:
        stage.run(["orlop", "down", "--purge", "--yes"])
        stage.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
