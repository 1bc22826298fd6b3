"""The part of `streams` that runs on the head node as the user: standard library only.

Sent to `python3 -` there, because the user may not be able to read the clone. Prints a JSON object
of seconds by way; every copy is compared with what was copied.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(os.environ.get("ORLOP_HOME") or Path.home() / ".orlop")
FOLDER = Path(tempfile.mkdtemp(prefix="bench-", dir=Path.home()))
ENVIRONMENT = {**os.environ, "KUBECONFIG": str(HOME / "kubeconfig")}
NAME = "bench-streams"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": NAME},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "host", "command": ["sleep", "1200"]}],
    },
}


def output(*argv: str, text: str | None = None) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, input=text, env=ENVIRONMENT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr}")
    return done.stdout


def took(*argv: str) -> float:
    began = time.monotonic()
    output(*argv)
    return time.monotonic() - began


def main(rounds: int, megabytes: int) -> None:
    source, back, inside = FOLDER / "source", FOLDER / "back", f"/tmp/{FOLDER.name}"
    with source.open("wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(1_000_000))
    output("kubectl", "apply", "-f", "-", text=json.dumps(POD))
    output("kubectl", "wait", "--for=condition=Ready", f"pod/{NAME}", "--timeout=60s")
    path = "{.metadata.annotations['slurm\\.orlop\\.dev/job-id']}"
    job = output("kubectl", "get", "pod", NAME, "-o", f"jsonpath={path}")
    step = f"srun --jobid={job} --overlap --chdir=/tmp"
    ways = {
        "kubectl cp, there": ["kubectl", "cp", str(source), f"{NAME}:{inside}"],
        "tar | srun, there": ["sh", "-c", f"tar cf - -C {FOLDER} source | {step} tar xf - -C /tmp"],
        "kubectl cp, back": ["kubectl", "cp", f"{NAME}:{inside}", str(back)],
        "tar | srun, back": ["sh", "-c", f"{step} tar cf - source | tar xf - -O > {back}"],
        "kubectl exec true": ["kubectl", "exec", NAME, "--", "true"],
        "srun --overlap true": ["srun", f"--jobid={job}", "--overlap", "--chdir=/tmp", "true"],
    }
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, argv in ways.items():
            back.unlink(missing_ok=True)
            found[way].append(took(*argv))
            if way.endswith("back") and not filecmp.cmp(source, back, shallow=False):
                raise RuntimeError(f"{way}: what came back is not what was sent")
    output("kubectl", "delete", "pod", NAME, "--wait=false")
    print(json.dumps(found))


try:
    main(int(sys.argv[1]), int(sys.argv[2]))
finally:
    shutil.rmtree(FOLDER)
