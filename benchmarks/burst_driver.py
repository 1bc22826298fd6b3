"""The part of `burst` that runs on the head node as the user: standard library only.

Sent to `python3 -` there, because the user may not be able to read the clone. Prints a JSON object
of what each way took until all its jobs were accepted and until they were over, as `burst.Way`.
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


class Meter:
    """Seconds, and CPU seconds of the machine and of the control plane, since it was made."""

    def __init__(self) -> None:
        self._began, self._machine, self._plane = time.monotonic(), machine_cpu(), plane_cpu()
        self._found: dict[str, float] = {}

    def accepted(self) -> None:
        self._found["accepted"] = time.monotonic() - self._began
        self._found["plane_accepted"] = plane_cpu() - self._plane

    def completed(self) -> dict[str, float]:
        return {
            **self._found,
            "completed": time.monotonic() - self._began,
            "machine": machine_cpu() - self._machine,
            "plane": plane_cpu() - self._plane,
        }


def machine_cpu() -> float:
    """Of all that runs, whoever's it is: /proc/stat without what idles or waits for disks."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def plane_cpu() -> float:
    """Of the control plane itself, without the commands that it starts."""
    pid = json.loads((HOME / "run" / "orlop.json").read_text())["pid"]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def by_hand(count: int) -> dict[str, float]:
    meter = Meter()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: output(*SBATCH, *SECOND), range(count)))
    meter.accepted()
    until(queue_is_empty)
    return meter.completed()


def as_array(count: int) -> dict[str, float]:
    meter = Meter()
    output(*SBATCH, f"--array=0-{count - 1}", *SECOND)
    meter.accepted()
    until(queue_is_empty)
    return meter.completed()


def as_pods(count: int) -> dict[str, float]:
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
    meter = Meter()
    output("kubectl", "create", "-f", "-", text=json.dumps(job))
    # By Slurm's own list: a thousand pods asked for again and again would cost what is measured.
    until(lambda: jobs_of_pods() >= count)
    meter.accepted()

    def is_over() -> bool:
        status = json.loads(output("kubectl", "get", "job", "burst", "-o", "json"))["status"]
        if status.get("failed"):
            raise RuntimeError(f"pods failed: {status}")
        return bool(status.get("succeeded", 0) == count)

    until(is_over, 0.5)
    found = meter.completed()
    output("kubectl", "delete", "job", "burst", "--wait=false")
    return found


def jobs_of_pods() -> int:
    """Those that have ended are listed for some minutes more."""
    names = output("squeue", "--me", "-h", "-r", "-t", "all", "-o", "%j").split()
    return sum(name.startswith("default/burst") for name in names)


def main(count: int) -> None:
    load = os.getloadavg()[0]
    ways = {
        "sbatch, one a job": by_hand(count),
        "one array": as_array(count),
        "pods of a Job": as_pods(count),
    }
    print(json.dumps({"load": load, "ways": ways}))


main(int(sys.argv[1]))
