"""Makes a home with the Orlop of some commit, and saves it.

`python -m tests.saved_home.make COMMIT`, run by hand, as root (pods are then the test user's) or
as an ordinary user, when there is a new Orlop whose homes must go on being opened. It installs
that commit's Orlop in a folder of its own, fills a cluster with objects.yaml, waits until what
ends has ended, stops it, and writes `home.tar.gz`, without logs and without what is built from the
sources at each start, and beside it `index.json`: what the API said of every object at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.cli.commands.test_up import Person, someone
from tools.devroot import PROJECT
from tools.environment import PYTHON, uv, uv_from_cache

HERE = Path(__file__).parent
HOME = HERE / "home.tar.gz"
INDEX = HERE / "index.json"
LEFT_OUT = ("log/", "run/agent-", "run/lock", "run/netd-", "run/rank-")  # programs, logs
Obj = dict[str, Any]


def main(commit: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        programs = install(commit, place)
        with someone(programs) as person:
            fill(person)
            INDEX.write_text(json.dumps(index(person), indent=1, sort_keys=True) + "\n")
            done(person, "orlop", "down")
            save(person.paths.home)
            done(person, "orlop", "down", "--purge", "--yes")  # pods ran on until now
    print(f"{HOME} {HOME.stat().st_size} bytes")


def install(commit: str, place: Path) -> Path:
    """The bin folder of an environment with the Orlop of that commit."""
    sources, environment = place / "sources", place / "venv"
    sources.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit], cwd=PROJECT, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", sources], input=archive.stdout, check=True)
    uv("venv", "--python", PYTHON, environment)
    uv_from_cache("pip", "install", "--python", environment / "bin" / "python", sources)
    return environment / "bin"


def done(person: Person, *argv: str) -> str:
    finished = person.run(*argv)
    assert finished.returncode == 0, (argv, finished.stdout, finished.stderr)
    return finished.stdout


def fill(person: Person) -> None:
    done(person, "orlop", "up", "--engine", "local")
    given = person.home / "objects"
    given.mkdir(mode=0o755)
    for path in HERE.glob("*.yaml"):
        (given / path.name).write_text(path.read_text())
    kubectl(
        person, "wait", "--for=create", "crd/mpijobs.kubeflow.org", "crd/jobsets.jobset.x-k8s.io"
    )
    kubectl(person, "apply", "-f", f"{given}/objects.yaml")
    kubectl(person, "wait", "--for=condition=Established", "crd/shelves.example.com")
    kubectl(person, "apply", "-f", f"{given}/shelf.yaml")
    for what, condition in (
        ("job/ended", "condition=Complete"),
        ("pod/told", "jsonpath={.status.phase}=Failed"),
        ("deployment/steady", "condition=Available"),
        ("pvc/data", "jsonpath={.status.phase}=Bound"),
        ("secret/reader-token", "jsonpath={.data.token}"),
    ):
        kubectl(person, "-n", "kept", "wait", what, f"--for={condition}", "--timeout=60s")
    kubectl(person, "-n", "kept", "scale", "deployment/steady", "--replicas=2")
    kubectl(person, "-n", "kept", "rollout", "status", "deployment/steady", "--timeout=60s")
    done(person, "sh", "-c", 'echo "still here" >"$(echo "$HOME"/.orlop/volumes/*/data)/note"')
    kubectl(person, "-n", "kept", "patch", "configmap/settings", "-p", '{"data":{"colour":"red"}}')


def kubectl(person: Person, *args: str) -> str:
    return done(person, "kubectl", "--kubeconfig", str(person.paths.kubeconfig), *args)


def index(person: Person) -> list[Obj]:
    """Every object of every kind that can be listed: what it is, and which revision of it."""
    listable = kubectl(person, "api-resources", "--verbs=list,get", "-o", "name").split()
    found: dict[str, Obj] = {}
    for resource in listable:
        for obj in json.loads(kubectl(person, "get", resource, "-A", "-o", "json"))["items"]:
            metadata = obj["metadata"]
            if "uid" in metadata:
                found[metadata["uid"]] = {
                    "resource": resource,
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "revision": int(metadata["resourceVersion"]),
                }
    return sorted(found.values(), key=lambda each: each["revision"])


def save(home: Path) -> None:
    """Pack what cannot be made anew; nothing of who made it is in there."""

    def entry(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if any(info.name.startswith(name) for name in LEFT_OUT) or not (
            info.isfile() or info.isdir()
        ):
            return None
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(HOME, "w:gz", compresslevel=9) as tar:
        for path in sorted(home.iterdir()):
            tar.add(path, path.name, filter=entry)


if __name__ == "__main__":
    main(sys.argv[1])
