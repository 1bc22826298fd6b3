"""Pods for the agent's tests: a folder with a plan, and the agent run on it as an ordinary user.

As root, each agent runs as one of the two users of set-up in a mount namespace without the
machine's cgroup2 mount, which crun refuses beside version 1; otherwise as whoever runs the tests.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orlop.agent.container.logs import file_of, starts_of
from orlop.wellknown import AGENT_LAUNCH
from tools.devroot import dev_root

IS_ROOT = os.geteuid() == 0
APPTAINER = dev_root().apptainer / "usr/bin"
PYTHON = "/usr/bin/python3"  # one that every user may read; a virtual environment's may be hidden
PATH = f"{APPTAINER}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
RUNTIMES = ("crun", "apptainer", "native", "host")

_NODE = """
umount /sys/fs/cgroup/unified 2>/dev/null
for path in "$@"; do shift; [ "$path" = -- ] && break; echo $$ > "$path"; done
exec "$@"
"""


def container(name: str = "c", *argv: str, script: str = "", **more: Any) -> dict[str, Any]:
    """A container of a plan; `script` is what its shell runs."""
    command = list(argv) or ["/bin/sh", "-c", script or "true"]
    return {"name": name, "argv": command, "env": [], "cwd": "/", **more}


def files(name: str, **contents: str) -> dict[str, Any]:
    """A volume with files, as of a ConfigMap."""
    found = [
        {"path": path.replace("__", "/"), "data": base64.b64encode(text.encode()).decode()}
        for path, text in contents.items()
    ]
    return {"name": name, "kind": "files", "files": [{**file, "mode": 0o644} for file in found]}


@dataclass
class Stage:
    """What all pods of a test run share; everything below `folder`, which all users may enter."""

    folder: Path
    agent: Path
    pods: int = 0

    def rootfs(self, user: str) -> Path:
        """A busybox image, unpacked by and for the user."""
        root = self.folder / f"image-{user}"
        if not root.exists():
            _make_busybox(root)
            give(root, user)
        return root

    def pod(self, *containers: dict[str, Any], **options: Any) -> Pod:
        self.pods += 1
        return Pod(self, self.folder / f"pod-{self.pods}", list(containers), **options)


def _make_busybox(root: Path) -> None:
    for name in ("bin", "etc", "tmp", "root", "opt/app"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "/bin/busybox", root / "bin/busybox")
    applets = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True)
    for applet in set(applets.stdout.split()) - {"busybox"}:
        (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1234:1234::/app:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "tmp").chmod(0o1777)


def give(path: Path, user: str) -> None:
    if IS_ROOT:
        subprocess.run(["chown", "-Rh", f"{user}:", path], check=True)


@dataclass
class Pod:
    """One pod; `start` runs its agent, and the rest reads what it left."""

    stage: Stage
    folder: Path
    containers: list[dict[str, Any]]
    runtime: str = "crun"
    user: str = "orlop-test"
    init: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[dict[str, Any]] = field(default_factory=list)
    spec: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    cgroups: tuple[Path, ...] = ()
    prefix: tuple[str, ...] = ()
    python: str = PYTHON
    process: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        if not IS_ROOT:
            self.user = pwd.getpwuid(os.getuid()).pw_name
        self.folder.mkdir()
        self.write_plan()
        give(self.folder, self.user)

    def write_plan(self) -> None:
        name = self.folder.name
        plan = {
            "version": 1,
            "cluster": "test",
            "pod": {
                "namespace": "default",
                "name": name,
                "uid": f"uid-{name}",
                "hostname": name,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 5,
                **self.spec,
            },
            "runtimes": ["nothing-of-the-sort" if self.runtime == "native" else self.runtime],
            "volumes": self.volumes,
            "initContainers": [self._on_root(c) for c in self.init],
            "containers": [self._on_root(c) for c in self.containers],
            **self.plan,
        }
        (self.folder / "plan.json").write_text(json.dumps(plan))

    def _on_root(self, container: dict[str, Any]) -> dict[str, Any]:
        rootfs = None if self.runtime == "host" else str(self.stage.rootfs(self.user))
        return {"rootfs": rootfs, **container}

    def start(self, pass_fds: tuple[int, ...] = ()) -> Pod:
        env = {"PATH": PATH, "SLURM_JOB_ID": "17", "SLURMD_NODENAME": "n1", **self.env}
        launch = [self.python, "-I", "-S", "-c", AGENT_LAUNCH]
        command = [*self.prefix, *launch, str(self.stage.agent), str(self.folder)]
        if IS_ROOT:
            ids = ["--reuid", self.user, "--regid", self.user, "--init-groups"]
            procs = [str(path / "cgroup.procs") for path in self.cgroups]
            node = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _NODE, "sh"]
            command = [*node, *procs, "--", "setpriv", *ids, *command]
        self.process = subprocess.Popen(
            command,
            env=env,
            cwd="/",  # apptainer goes there, and the tests' own folder may be closed to the user
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=pass_fds,
        )
        return self

    def run(self, timeout: float = 30.0) -> Pod:
        self.start().wait(timeout)
        return self

    def wait(self, timeout: float = 30.0) -> int:
        assert self.process is not None
        try:
            self.output = self.process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return self.process.returncode

    def kill(self) -> None:
        """End the agent as the kernel would; with it must go all of the pod."""
        if self.process is not None:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.communicate(timeout=5)

    @property
    def code(self) -> int:
        assert self.process is not None
        return self.process.returncode

    def records(self, kind: str = "") -> list[dict[str, Any]]:
        records = [json.loads(line) for line in _whole_lines(self.folder / "journal")]
        return [record for record in records if kind in ("", record["type"])]

    def status(self, name: str = "c") -> dict[str, Any]:
        """The last record of a container."""
        return [record for record in self.records("container") if record["name"] == name][-1]

    def records_of(self, state: str, name: str = "c") -> list[dict[str, Any]]:
        """The records of a container in a state, one for each run."""
        records = [record for record in self.records("container") if record["name"] == name]
        return [record for record in records if record["state"] == state]

    def events(self) -> list[str]:
        return [record["reason"] for record in self.records("event")]

    def lines(self, name: str = "c", restart: int = 0) -> list[str]:
        """What the container printed, without the heads of the log's lines."""
        path = self.folder / "logs" / name / f"{restart}.log"
        files = [Path(file_of(str(path), start)) for start in starts_of(str(path)) or [0]]
        return [line.split(" ", 3)[3] for file in files for line in _whole_lines(file)]

    def wait_for(self, what: Any, timeout: float = 15.0) -> Any:
        """Until `what()` is true; its value."""
        until = time.monotonic() + timeout
        while not (found := what()):
            assert time.monotonic() < until, f"waited {timeout} s; journal: {self.records()}"
            time.sleep(0.01)
        return found

    def wait_for_line(self, text: str, name: str = "c", restart: int = 0) -> None:
        self.wait_for(lambda: text in self.lines(name, restart))


def _whole_lines(path: Path) -> list[str]:
    """Of a file that somebody may be writing: the last line may not be whole yet."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return text[: text.rfind("\n") + 1].splitlines()
