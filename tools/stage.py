"""Where the demo and the benchmarks play: a Slurm of their own, or the one this machine has.

Chosen by `find_stage`. A stage runs commands as an unprivileged user on the head (or login) node;
one of its own also brings a registry with the images. It leaves the machine's own Slurm as it is.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Protocol

import yaml

from tests.cluster.cluster import SlurmCluster, clear
from tests.cluster.registry import Registry
from tests.cluster.spec import HEAD, Spec
from tests.cluster.state import is_cluster
from tests.cluster.storage import BASIC, Collection
from tools.devroot import PROJECT, TEST_USER, DevRoot, dev_root

Completed = subprocess.CompletedProcess[str]


class Stage(Protocol):
    name: str
    config: Mapping[str, object]  # of config.yaml: where the images are

    def start(self) -> str:
        """Brings up what is missing; a sentence about what there is now."""
        ...

    def run(self, argv: list[str], *, text: str | None = None, timeout: float = 120) -> Completed:
        """A command of the user, on the head; what it printed, errors among it."""
        ...

    def shell(self) -> str:
        """The line by which a person gets where `run` runs things."""
        ...

    def stop(self) -> None: ...


class OwnCluster:
    """Four nodes in namespaces, as the tests have them, but this one stays."""

    def __init__(self, name: str, dev: DevRoot, images: Collection) -> None:
        self.name = name
        self._dev = dev
        self._root = dev.clusters / name
        # Slurm fills one node after the other by default; over all of them there is more to see.
        self._spec = Spec(settings={"SelectTypeParameters": "CR_CPU_Memory,CR_LLN"})
        self._images = images
        self._cluster: SlurmCluster | None = None
        self.config: Mapping[str, object] = {}

    @property
    def cluster(self) -> SlurmCluster:
        if self._cluster is None:
            self._cluster = SlurmCluster.attach(self._root)
        return self._cluster

    @property
    def is_up(self) -> bool:
        return is_cluster(self._root) and all(node.is_on for node in self.cluster.nodes.values())

    def start(self) -> str:
        was_up = self.is_up
        if not was_up:
            self._cluster = SlurmCluster(self._root, self._spec, self._dev)
            self._cluster.start(outlive=True)
        registry = Registry.on_head(self.cluster)
        if not was_up:
            registry.start(self._images.prepared(self._dev))
        address = registry.address
        images = {"default_registry": address, "insecure_registries": [address]}
        self.config = {"images": images}
        nodes = len(self._spec.node_names)
        state = "still up" if was_up else "up"
        return f"a Slurm of {nodes} nodes and a registry are {state} in {self._root}"

    def run(self, argv: list[str], *, text: str | None = None, timeout: float = 120) -> Completed:
        user = self.cluster.user
        return self.cluster.run(HEAD, argv, user=user, input=text, timeout=timeout, check=False)

    def shell(self) -> str:
        sudo = "sudo " if "SUDO_USER" in os.environ else ""
        python = os.path.relpath(sys.executable)
        return f"{sudo}{python} -m tests.cluster --root {self._root} shell"

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
        else:
            clear(self._root)


class ThisSite:
    """The Slurm of this machine, as a user of it."""

    name = "site"
    config: Mapping[str, object] = {}

    def __init__(self, user: str, dev: DevRoot) -> None:
        self._user = pwd.getpwnam(user)
        self._dev = dev

    def start(self) -> str:
        nodes = self.run(["sinfo", "-h", "-o", "%D nodes in partition %R"]).stdout.strip()
        return f"this machine has a Slurm: {', '.join(nodes.splitlines())}"

    def run(self, argv: list[str], *, text: str | None = None, timeout: float = 120) -> Completed:
        me = os.geteuid()
        become = [] if me == self._user.pw_uid else ["runuser", "-u", self._user.pw_name, "--"]
        path = f"{self._dev.venv}/bin:{self._dev.bin}:{os.environ['PATH']}"
        home = self._user.pw_dir
        return subprocess.run(
            [*become, *argv],
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=home,
            env={**os.environ, "PATH": path, "HOME": home, "ORLOP_HOME": f"{home}/.orlop-demo"},
        )

    def shell(self) -> str:
        home = f"{self._user.pw_dir}/.orlop-demo"
        return f"export PATH={self._dev.venv}/bin:{self._dev.bin}:$PATH ORLOP_HOME={home}"

    def stop(self) -> None:
        pass


def find_stage(name: str, images: Collection = BASIC) -> Stage:
    """The machine's own Slurm where one answers, else one of our own, which takes root.

    One of our own has a registry with these images.
    """
    dev = dev_root()
    if shutil.which("sinfo") and _answers():
        user = os.environ.get("SUDO_USER") or pwd.getpwuid(os.geteuid()).pw_name
        return ThisSite(TEST_USER if user == "root" else user, dev)
    if os.geteuid() != 0:
        sys.exit(
            "no Slurm answers here, and building one of several nodes takes root: run it with sudo."
            "\nWithout either, `orlop up` still runs pods on this host."
        )
    return OwnCluster(name, dev, images)


def _answers() -> bool:
    try:
        return subprocess.run(["sinfo"], capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def orlop_up(stage: Stage, settings: Mapping[str, object] | None = None) -> Completed:
    """Orlop on the stage, with its registry and those `settings`; config.yaml is written anew."""
    home = stage.run(["sh", "-c", 'echo "${ORLOP_HOME:-$HOME/.orlop}"']).stdout.strip()
    config = {**stage.config, **(settings or {})}
    if config:
        script = f"mkdir -p -m 700 {home} && cat > {home}/config.yaml"
        stage.run(["sh", "-c", script], text=yaml.safe_dump(config))
    return stage.run(["orlop", "up"])


def copy_examples(stage: Stage) -> None:
    """Into the user's home: the clone may lie where the user cannot read."""
    for path in sorted((PROJECT / "examples").glob("*.yaml")):
        script = f"mkdir -p examples && cat > examples/{path.name}"
        stage.run(["sh", "-c", script], text=path.read_text())
