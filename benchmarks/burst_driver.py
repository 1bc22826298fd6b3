"""The part of `burst` that runs on the head node as the user: standard library only.

Sent to `python3 -` there, because the user may not be able to read the clone. Prints a JSON object
of the seconds until all jobs of a way were accepted and until they were over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HOME = Path(os.environ.get("ORLOP_HOME") or Path.home() / ".orlop")
SBATCH = ["sbatch", "--parsable", "--cpus-per-task=1", "--mem=32M", "--output=/dev/null"]
SECOND = ["--wrap", "sleep 1"]
PATIENCE = 600.0


def output(*argv: str, text: str | None = None) -> str:
    environment = {**os.environ, "KUBECONFIG": str(HOME / "kubeconfig")}
    done = subprocess.run(argv, capture_output=True, text=True, input=text, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr}")
    return done.stdout


def until(is_so: Callable[[], bool], pause: float = 0.2) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"waited {PATIENCE:g} s for a burst to end")
        time.sleep(pause)


def queue_is_empty() -> bool:
    return not output("squeue", "--me", "-h").strip()


def by_hand(count: int) -> tuple[float, float]:
    began = time.monotonic()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: output(*SBATCH, *SECOND), range(count)))
    accepted = time.monotonic() - began
    until(queue_is_empty)
    return accepted, time.monotonic() - began


def as_array(count: int) -> tuple[float, float]:
    began = time.monotonic()
    output(*SBATCH, f"--array=0-{count - 1}", *SECOND)
    accepted = time.monotonic() - began
    until(queue_is_empty)
    return accepted, time.monotonic() - began


def as_pods(count: int) -> tuple[float, float]:
    container = {
        "name": "main",
        "image": "host",
        "command": ["sleep", "1"],
        "resources": {"requests": {"cpu": "1", "memory": "32Mi"}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"completions": count, "parallelism": count, "template": template}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "burst"},
        "spec": {**spec, "backoffLimit": 0},
    }
    began = time.monotonic()
    output("kubectl", "create", "-f", "-", text=json.dumps(job))
    accepted = 0.0

    def is_over() -> bool:
        nonlocal accepted
        if not accepted:
            pods = json.loads(
                output("kubectl", "get", "pods", "-l", "job-name=burst", "-o", "json")
            )
            submitted = [pod for pod in pods["items"] if has_job(pod)]
            if len(submitted) == count:
                accepted = time.monotonic() - began
            return False
        status = json.loads(output("kubectl", "get", "job", "burst", "-o", "json"))["status"]
        if status.get("failed"):
            raise RuntimeError(f"pods failed: {status}")
        return bool(status.get("succeeded", 0) == count)

    until(is_over, 0.5)
    whole = time.monotonic() - began
    output("kubectl", "delete", "job", "burst", "--wait=false")
    return accepted, whole


def has_job(pod: dict[str, dict[str, dict[str, str]]]) -> bool:
    return bool(pod["metadata"].get("annotations", {}).get("slurm.orlop.dev/job-id"))


def main(count: int) -> None:
    found = {
        "sbatch, one a job": by_hand(count),
        "one array": as_array(count),
        "pods of a Job": as_pods(count),
    }
    print(json.dumps(found))


main(int(sys.argv[1]))
