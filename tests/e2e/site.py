"""One user's Orlop on a test cluster, driven as that user drives it: by shell commands on the head.

Used by the scenarios beside it. Everything goes through `orlop`, `kubectl` and Slurm's commands; it
never looks into Orlop's own files except where a test is about them.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.cluster.cluster import SlurmCluster
from tests.cluster.commands import CommandFailed

HEAD = "head"
LOOK_ANEW = 10.0  # seconds after which no watch is trusted: its server may be gone unheard
T = TypeVar("T")
Obj = dict[str, Any]


class NotYet(AssertionError):
    """What a test waited for did not come; says what was seen last."""


def eventually(probe: Callable[[], T], what: str, timeout: float = 90.0) -> T:
    """The first true answer of `probe`; polls, because kubectl is what a user has."""
    deadline = time.monotonic() + timeout
    while True:
        asked = time.monotonic()
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise NotYet(f"after {timeout:.0f} s still not: {what}; last seen: {answer!r}")
        # One kubectl is most of 0.1 s of a core, which what it asks about may need.
        time.sleep(min(max(0.1, 2 * (time.monotonic() - asked)), 1.0))


@dataclass
class Site:
    """A cluster, a home folder on it, and the commands of its owner."""

    cluster: SlurmCluster
    home: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "default"

    def in_namespace(self, namespace: str) -> Site:
        """The same site, seen from a namespace of its own (made here)."""
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        self.apply(manifest)
        return replace(self, namespace=namespace)

    @property
    def env(self) -> dict[str, str]:
        return {
            "ORLOP_HOME": str(self.home),
            "KUBECONFIG": str(self.home / "kubeconfig"),
            **self.environment,
        }

    def run(
        self,
        *argv: str,
        node: str = HEAD,
        input: str | None = None,
        timeout: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        return self.cluster.run(
            node,
            list(argv),
            user=self.cluster.user,
            env=self.env,
            input=input,
            timeout=timeout,
            check=check,
        )

    def popen(self, *argv: str, **popen: Any) -> subprocess.Popen[Any]:
        return self.cluster.popen(HEAD, list(argv), user=self.cluster.user, env=self.env, **popen)

    # Orlop itself

    def up(self, *flags: str) -> str:
        self.run("mkdir", "-p", "-m", "700", str(self.home))
        if self.config:
            config = self.home / "config.yaml"
            self.run("tee", str(config), input=yaml.safe_dump(dict(self.config)))
        return self.run("orlop", "up", *flags).stdout

    def down(self, *flags: str) -> str:
        return self.run("orlop", "down", *flags).stdout

    def control_plane(self) -> Obj:
        """What `orlop up` wrote of the running control plane: host, pid, address."""
        answer: Obj = json.loads((self.home / "run" / "orlop.json").read_text())
        return answer

    def kill(self) -> None:
        """kill -9, as a login node's guard does it."""
        self.run("kill", "-9", str(self.control_plane()["pid"]))

    # kubectl

    def kubectl(self, *args: str, input: str | None = None, timeout: float = 60.0) -> str:
        argv = ["kubectl", "-n", self.namespace, *args]
        return self.run(*argv, input=input, timeout=timeout).stdout

    def apply(self, manifest: str | Obj) -> str:
        text = textwrap.dedent(manifest) if isinstance(manifest, str) else json.dumps(manifest)
        return self.kubectl("apply", "-f", "-", input=text)

    def get(self, *args: str) -> Obj:
        answer: Obj = json.loads(self.kubectl("get", *args, "-o", "json"))
        return answer

    def pod(self, name: str) -> Obj:
        return self.get("pod", name)

    def pods(self, selector: str = "") -> list[Obj]:
        items: list[Obj] = self.get("pods", *(["-l", selector] if selector else []))["items"]
        return items

    def events(self, name: str) -> list[tuple[str, str]]:
        items = self.get("events", f"--field-selector=involvedObject.name={name}")["items"]
        return [(event["reason"], event["message"]) for event in items]

    def wait_phase(self, name: str, *phases: str, timeout: float = 60.0) -> Obj:
        deadline, phase = time.monotonic() + timeout, None
        while time.monotonic() < deadline:
            until = min(deadline, time.monotonic() + LOOK_ANEW)
            for pod in self.followed("pod", name, until=until):
                phase = pod["status"].get("phase")
                if phase in phases:
                    return pod
        what = f"pod {name} is {' or '.join(phases)}; last seen: {phase}"
        raise NotYet(f"after {timeout:.0f} s still not: {what}\n{self.story(name)}")

    def followed(self, *args: str, until: float) -> Iterator[Obj]:
        """Objects as they are and become, by one kubectl for all of the time."""
        argv = ["kubectl", "-n", self.namespace, "get", *args, "-o", "json", "--watch"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        said, has_begun = bytearray(), False
        with self.popen(*argv, **pipes) as child:
            try:
                while part := _read(child.stdout, until):
                    said += part
                    for found in _documents(said):
                        has_begun = True
                        yield found
            finally:
                child.kill()
            errors = child.stderr.read().decode()
        if not has_begun and time.monotonic() < until:
            answer = subprocess.CompletedProcess(argv, child.returncode, said.decode(), errors)
            raise CommandFailed(HEAD, answer)

    def story(self, name: str) -> str:
        """All there is to know of a pod, for a failed assertion."""
        describe = self.run(
            "kubectl", "-n", self.namespace, "describe", "pod", name, check=False
        ).stdout
        queue = self.run("squeue", "-t", "all", check=False).stdout
        folders = sorted((self.home / "pods").glob(f"*_{name}_*"))
        files = [f for folder in folders for f in (folder / "slurm.out", folder / "journal")]
        said = "\n".join(f"--- {f.name}\n{f.read_text()}" for f in files if f.exists())
        log = (self.home / "log" / "orlop.log").read_text().splitlines()[-30:]
        return "\n".join([describe, queue, said, "--- log", *log])

    # Slurm

    def squeue(self, fmt: str, *args: str) -> list[str]:
        return self.run("squeue", "--array", "-h", "-o", fmt, *args).stdout.splitlines()


def container(image: str, script: str, **fields: Any) -> Obj:
    return {"name": "main", "image": image, "command": ["sh", "-c", script], **fields}


def pod(name: str, image: str, script: str, **spec: Any) -> Obj:
    """A pod of one container that runs a shell line once."""
    fields = spec.pop("container", {})
    metadata = spec.pop("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {
            "restartPolicy": "Never",
            "containers": [container(image, script, **fields)],
            **spec,
        },
    }


def terminated(pod: Obj, name: str = "main") -> Obj:
    """The terminated state of a container."""
    statuses = pod["status"].get("containerStatuses", [])
    state: Obj = next(s["state"] for s in statuses if s["name"] == name)
    assert "terminated" in state, state
    ended: Obj = state["terminated"]
    return ended


def _read(pipe: Any, until: float) -> bytes:
    """What comes next; nothing at its end, or when time is up."""
    ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
    return os.read(pipe.fileno(), 1 << 16) if ready else b""


def _documents(said: bytearray) -> Iterator[Obj]:
    """Takes off what is whole of objects that follow each other, as kubectl prints them."""
    end = b"\n}\n"  # what is inside of one is indented
    while end in said:
        length = said.index(end) + len(end)
        yield json.loads(said[:length])
        del said[:length]
