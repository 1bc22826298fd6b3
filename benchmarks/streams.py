"""Streams: 200 MB by `kubectl cp` both ways, beside `tar` through srun; a command, beside a step.

Run by `python -m benchmarks`. The file goes into a pod on a compute node and out of it again; by
hand the same archive goes through `srun --overlap` into the same job. Turns are interleaved.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.table import Samples
from tools.stage import Stage

ROUNDS = 5
MEGABYTES = 200
CONFIG: dict[str, object] = {}
DRIVER = Path(__file__).with_name("streams_driver.py")
PLAIN = {
    "kubectl cp, there": "tar | srun, there",
    "kubectl cp, back": "tar | srun, back",
    "kubectl exec true": "srun --overlap true",
}


def measure(stage: Stage, rounds: int = ROUNDS, megabytes: int = MEGABYTES) -> list[Samples]:
    words = ["python3", "-", str(rounds), str(megabytes)]
    done = stage.run(words, text=DRIVER.read_text(), timeout=1200)
    if done.returncode:
        raise RuntimeError(f"the driver failed:\n{done.stdout}\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    return [Samples(f"Streams: a file of {megabytes} MB, and a command", found, PLAIN)]
