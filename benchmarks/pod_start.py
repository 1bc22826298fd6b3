"""Pod start: from the request to the container's first act, beside plain sbatch and srun.

Run by `python -m benchmarks`. The same command, `touch`, is run in turn by srun, by sbatch and as a
pod with each runtime, with images cached, and by apptainer by hand, which takes time of its own to
start; the file's own time is when it ran. Turns are
interleaved and pauses random, because Slurm looks for work by the second.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.table import Samples
from tools.stage import Stage

ROUNDS = 25
AIM = "Aim: within 150 ms of the same by hand. srun is what Slurm can do when someone waits for it."
PLAIN = {
    "pod, image: host": "sbatch",
    "pod, crun": "sbatch",
    "pod, apptainer": "sbatch, apptainer",
}
DRIVER = Path(__file__).with_name("pod_start_driver.py")


# Tells in each pod's folder when its job began, as the script by hand does too.
CONFIG = {"slurm": {"prologue": "date +%s.%N > started-at"}}
TITLES = (
    "Pod start: from the request to the first act of the container",
    "The same without the time Slurm took to start the job, which is chance",
)


def measure(stage: Stage, rounds: int = ROUNDS) -> list[Samples]:
    done = stage.run(["python3", "-", str(rounds)], text=DRIVER.read_text(), timeout=1200)
    if done.returncode:
        raise RuntimeError(f"the driver failed:\n{done.stdout}\n{done.stderr}")
    whole, own = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    del own["srun"]  # it starts its job itself
    return [Samples(TITLES[0], whole, PLAIN), Samples(TITLES[1], own, PLAIN, AIM)]
