"""Launch of MPI ranks: from the job's start until all ranks have met, beside plain srun.

Run by `python -m benchmarks`. The same program of the same image is started by srun and apptainer
by hand, and as a pod with each runtime, on two nodes; rank 0 tells when all ranks have met. A pod
is measured from its job's start, which its agent is part of, and from the start of its srun.
Further tables have more ranks than this machine has cores, from one manifest.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.table import Samples
from tools.stage import Stage

ROUNDS = 7
RANKS, MANY = 16, (128, 256)
AIM = "Aim: at most 1.1 times srun and apptainer by hand."
BY_HAND = {
    "pod, image: host": "srun",
    "pod, crun": "srun, apptainer",
    "pod, apptainer": "srun, apptainer",
}
PLAIN = BY_HAND | {f"{pod}, from its srun": plain for pod, plain in BY_HAND.items()}
DRIVER = Path(__file__).with_name("mpi_driver.py")
# When the job begins, and when its agent starts srun.
PROLOGUE = r"""
mkdir bin
srun=$(command -v srun)
printf '#!/bin/sh\ndate +%%s.%%N > %s/srun-at\nexec %s "$@"\n' "$PWD" "$srun" > bin/srun
chmod +x bin/srun
PATH=$PWD/bin:$PATH
date +%s.%N > started-at
"""
CONFIG = {"slurm": {"prologue": PROLOGUE}}


def measure(stage: Stage, rounds: int = ROUNDS) -> list[Samples]:
    tables = []
    for ranks, times in ((RANKS, rounds), *((ranks, 1) for ranks in MANY)):
        arguments = ["python3", "-", str(ranks), str(times)]
        done = stage.run(arguments, text=DRIVER.read_text(), timeout=1800)
        if done.returncode:
            raise RuntimeError(f"the driver failed:\n{done.stdout}\n{done.stderr}")
        title = f"{ranks} ranks of MPICH on 2 nodes: from the job's start until all have met"
        tables.append(Samples(title, json.loads(done.stdout.splitlines()[-1]), PLAIN, AIM))
    return tables
