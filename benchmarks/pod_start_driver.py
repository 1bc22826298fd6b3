"""The part of `pod_start` that runs on the head node as the user: standard library only.

Sent to `python3 -` there, because the user may not be able to read the clone. Prints a JSON
object of seconds by way for each part of a turn; leaves nothing behind.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

HOME = Path(os.environ.get("ORLOP_HOME") or Path.home() / ".orlop")
FOLDER = Path(tempfile.mkdtemp(prefix="bench-", dir=Path.home()))
PATIENCE = 60.0
STARTED = "started-at"  # in a pod's folder: written by the prologue that the benchmark configures


class Api:
    """One kept connection to the API server, as a client library has it."""

    def __init__(self) -> None:
        shown = subprocess.run(
            ["kubectl", "config", "view", "--raw", "-o", "json"],
            env={**os.environ, "KUBECONFIG": str(HOME / "kubeconfig")},
            check=True,
            capture_output=True,
        )
        config = json.loads(shown.stdout)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=ca)
        with tempfile.NamedTemporaryFile() as pem:
            for name in ("client-certificate-data", "client-key-data"):
                pem.write(base64.b64decode(user[name]))
            pem.flush()
            context.load_cert_chain(pem.name)
        url = urlsplit(cluster["server"])
        self._connection = http.client.HTTPSConnection(
            url.hostname or "", url.port, context=context, timeout=PATIENCE
        )

    def call(self, method: str, path: str, body: object = None) -> dict[str, object]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        data = None if body is None else json.dumps(body)
        self._connection.request(method, f"/api/v1/namespaces/default/{path}", data, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {text.decode()}")
        parsed: dict[str, object] = json.loads(text)
        return parsed


def pod(name: str, image: str, runtime: str, command: list[str]) -> dict[str, object]:
    mounts = [] if image == "host" else [{"name": "out", "mountPath": str(FOLDER)}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"orlop.dev/runtime": runtime}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": image, "command": command, "volumeMounts": mounts}
            ],
            "volumes": [{"name": "out", "hostPath": {"path": str(FOLDER)}}],
        },
    }


def written(path: Path) -> float:
    """When the file came to be, by its own time."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            return path.stat().st_mtime_ns / 1e9
        except FileNotFoundError:
            time.sleep(0.005)
    raise RuntimeError(f"{path} was not written within {PATIENCE:.0f} s")


class Turn(NamedTuple):
    """From the request to the first act; and the same without what Slurm took to start the job."""

    whole: float
    own: float


def by_srun() -> Turn:
    path = FOLDER / f"srun-{time.monotonic_ns()}"
    began = time.time()
    subprocess.run(["srun", "-n1", "touch", str(path)], check=True, capture_output=True)
    whole = written(path) - began
    return Turn(whole, whole)


def by_sbatch(script: Path) -> Turn:
    path = FOLDER / f"sbatch-{time.monotonic_ns()}"
    began = time.time()
    words = ["sbatch", "--output=/dev/null", str(script), str(path)]
    subprocess.run(words, check=True, capture_output=True)
    submitted = time.time()
    acted = written(path)
    started = float(Path(f"{path}.started").read_text())
    return Turn(acted - began, submitted - began + acted - started)


def by_pod(api: Api, image: str, runtime: str) -> Turn:
    name = f"bench-{runtime}-{time.monotonic_ns()}"
    path = FOLDER / name
    manifest = pod(name, image, runtime, ["touch", str(path)])
    began = time.time()
    metadata = api.call("POST", "pods", manifest)["metadata"]
    acted = written(path)
    assert isinstance(metadata, dict)
    folder = HOME / "pods" / f"default_{name}_{metadata['uid']}"
    submitted = (folder / "submit").stat().st_mtime_ns / 1e9
    started = float((folder / STARTED).read_text())
    until_ended(api, name)
    api.call("DELETE", f"pods/{name}")
    return Turn(acted - began, submitted - began + acted - started)


def until_ended(api: Api, name: str) -> None:
    """The next turn shall not share the machine with the end of this one."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        status = api.call("GET", f"pods/{name}")["status"]
        if isinstance(status, dict) and status.get("phase") in ("Succeeded", "Failed"):
            return
        time.sleep(0.05)
    raise RuntimeError(f"pod {name} did not end")


def job_script(name: str, line: str) -> Path:
    path = FOLDER / f"{name}.sh"
    path.write_text(f'#!/bin/sh\ndate +%s.%N > "$1.started"\n{line}\n')
    return path


def main(rounds: int) -> None:
    api = Api()
    by_pod(api, "busybox", "crun")  # the image is pulled
    plain = job_script("plain", 'touch "$1"')
    root = next((HOME / "images").glob("*/rootfs/bin/busybox")).parents[1]
    options = f"--containall --bind {FOLDER} {root}"
    apptainer = job_script("apptainer", f'apptainer --silent exec {options} touch "$1"')
    ways: dict[str, Callable[[], Turn]] = {
        "srun": by_srun,
        "sbatch": lambda: by_sbatch(plain),
        "sbatch, apptainer": lambda: by_sbatch(apptainer),
        "pod, image: host": lambda: by_pod(api, "host", "host"),
        "pod, crun": lambda: by_pod(api, "busybox", "crun"),
        "pod, apptainer": lambda: by_pod(api, "busybox", "apptainer"),
    }
    for way in ways.values():
        way()  # caches are warm
    turns: dict[str, list[Turn]] = {name: [] for name in ways}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for name, way in ways.items():
            time.sleep(random.uniform(0.2, 1.2))
            turns[name].append(way())
    for part in Turn._fields:
        print(json.dumps({name: [getattr(turn, part) for turn in turns[name]] for name in ways}))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    finally:
        subprocess.run(["rm", "-rf", str(FOLDER)], check=False)
