"""The part of `mpi` that runs on the head node as the user: standard library only.

Sent to `python3 -` there with the number of ranks and of rounds. Prints a JSON object of seconds by
way; leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HOME = Path(os.environ.get("ORLOP_HOME") or Path.home() / ".orlop")
FOLDER = Path(tempfile.mkdtemp(prefix="bench-", dir=Path.home()))
PATIENCE = 600.0
OF_CLUSTER = 16  # CPUs of two nodes; more ranks share them
# By hand each rank is in a container of its own, where MPICH's other ways between ranks of a node
# fail; all ways use the one that is left.
TRANSPORTS = "self,tcp,sysv"


def kubectl(*words: str, text: str = "") -> str:
    env = {**os.environ, "KUBECONFIG": str(HOME / "kubeconfig")}
    done = subprocess.run(
        ["kubectl", *words], input=text, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout


def met(log: str, ranks: int) -> float:
    """When all ranks had met, as rank 0 says it; all must have spoken."""
    spoken = len(re.findall(r"(?m)^rank \d+ of", log))
    found = re.search(r"ready ([\d.]+)", log)
    if spoken != ranks or found is None or "pi 3.141593" not in log:
        raise RuntimeError(f"{spoken} of {ranks} ranks spoke:\n{log[-2000:]}")
    return float(found.group(1))


def shape(ranks: int) -> dict[str, str]:
    more = {"overcommit": "true"} if ranks > OF_CLUSTER else {}
    return {"nodes": "2", "ntasks": str(ranks), **more}


def by_srun(ranks: int, command: str) -> dict[str, float]:
    options = [f"--{name}={value}" for name, value in shape(ranks).items() if value != "true"]
    options += ["--overcommit"] if ranks > OF_CLUSTER else []
    options += [f"--ntasks-per-node={ranks // 2}"] if ranks <= OF_CLUSTER else []
    output, script = FOLDER / "plain.out", FOLDER / "plain.sh"
    lines = ["#!/bin/sh", f"export UCX_TLS={TRANSPORTS}", "date +started\\ %s.%N"]
    script.write_text("\n".join([*lines, f"srun --mpi=pmi2 {command}", ""]))
    output.unlink(missing_ok=True)
    words = ["sbatch", "--wait", f"--output={output}", *options, str(script)]
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE)
    log = output.read_text()
    started = re.search(r"started ([\d.]+)", log)
    assert started is not None, "the script says when it starts"
    return {"": met(log, ranks) - float(started.group(1))}


def by_pod(ranks: int, image: str, runtime: str, program: str) -> dict[str, float]:
    name = f"ranks-{runtime}-{time.monotonic_ns()}"
    notes = {f"slurm.orlop.dev/{key}": value for key, value in shape(ranks).items()}
    notes |= {"orlop.dev/runtime": runtime, "slurm.orlop.dev/mpi": "pmi2"}
    env = [{"name": "UCX_TLS", "value": TRANSPORTS}]
    main = {"name": "main", "image": image, "command": [program], "env": env}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": notes},
        "spec": {"restartPolicy": "Never", "containers": [main]},
    }
    kubectl("apply", "-f", "-", text=json.dumps(manifest))
    waited = "--for=jsonpath={.status.phase}=Succeeded"
    kubectl("wait", waited, f"pod/{name}", f"--timeout={PATIENCE:.0f}s")
    folder = next((HOME / "pods").glob(f"default_{name}_*"))
    end = met(kubectl("logs", name), ranks)
    began = {"": "started-at", ", from its srun": "srun-at"}
    took = {since: end - float((folder / file).read_text()) for since, file in began.items()}
    kubectl("delete", "pod", name)
    return took


def main(ranks: int, rounds: int) -> None:
    by_pod(2, "mpich", "crun", "pi")  # the image is pulled
    roots = (path.parents[1] for path in (HOME / "images").glob("*/rootfs/bin/pi"))
    root = next(path for path in roots if list(path.glob("**/libmpich.so*")))
    ways: dict[str, Callable[[], dict[str, float]]] = {
        "srun": lambda: by_srun(ranks, f"{root}/bin/pi"),
        "srun, apptainer": lambda: by_srun(ranks, f"apptainer --silent exec {root} pi"),
        "pod, image: host": lambda: by_pod(ranks, "host", "host", f"{root}/bin/pi"),
        "pod, crun": lambda: by_pod(ranks, "mpich", "crun", "pi"),
        "pod, apptainer": lambda: by_pod(ranks, "mpich", "apptainer", "pi"),
    }
    took: dict[str, list[float]] = {}
    for number in range(rounds):
        print(f"{ranks} ranks, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for name, way in ways.items():
            for since, seconds in way().items():
                took.setdefault(name + since, []).append(seconds)
    print(json.dumps(took))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    finally:
        subprocess.run(["rm", "-rf", str(FOLDER)], check=False)
