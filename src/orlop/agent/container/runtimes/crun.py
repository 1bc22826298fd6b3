"""Runs containers by an OCI runtime's command line: crun, runc, youki.

Composes the bundle (config.json) and the command; the runtime is already inside the pod's sandbox,
so a container needs a mount and a process namespace, and a user namespace where a single id is
mapped and it is not the one asked for.
"""

from __future__ import annotations

import os

from ...linux.fast_imports import dumps, loads
from ...linux.process import program, run_quickly
from ...linux.untrusted_files import remove_tree
from ...plan import User
from .. import capabilities
from . import Box, Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MASKED = [
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
]  # fmt: skip
MAX_SOCKET_PATH = 100  # of the kernel's 108
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


class Oci:
    """One OCI runtime of the node."""

    def __init__(self, path: str, folder: str) -> None:
        self.name = os.path.basename(path)
        self._path = path
        self._state = os.path.join(folder, "oci")

    def version(self) -> str:
        """Return `crun 1.8.1`, from `crun version 1.8.1`."""
        code, text = run_quickly([self._path, "--version"])
        return self.name if code else text.partition("\n")[0].replace(" version", "", 1).strip()

    def compose(self, box: Box) -> Launch:
        with open(os.path.join(box.folder, "config.json"), "w") as file:
            file.write(dumps(config(box)))
        pid_file = os.path.join(box.folder, "pid")
        error_file = os.path.join(box.folder, "runtime.log")
        argv = [self._path, "--root", self._state, "--log", error_file, "--log-format", "json"]
        if self.name == "crun":  # the others do without a cgroup of their own when they must
            argv.append("--cgroup-manager=disabled")
        argv += ["run", "--detach", "--pid-file", pid_file, "--bundle", box.folder]
        console = console_of(box)
        argv += ["--console-socket", console] if console else []
        launch = program([*argv, box.id], os.environ)
        return Launch(launch, pid_file, error_file, console=console)

    def words(self, box: Box, launch: Launch, output: str, report: bytes) -> str:
        """Return the last error in the runtime's log, else what it printed."""
        messages = []
        try:
            with open(launch.error_file, "rb") as file:
                messages = [loads(line).get("msg", "") for line in file if line.strip()]
        except (OSError, ValueError):
            pass
        return f"{self.name}: {messages[-1] if messages else output.strip()}"

    def remove(self, box: Box) -> None:
        remove_tree(os.path.join(self._state, box.id))


def console_of(box: Box) -> str:
    """Return where the runtime hands over a container's own terminal, if it is to have one."""
    path = os.path.join(box.folder, "console")
    return path if box.container.tty and len(path) <= MAX_SOCKET_PATH else ""


def config(box: Box) -> dict[str, Any]:
    """Return the bundle's config.json."""
    container, user = box.container, box.container.user or User(0, 0, [])
    is_nested = not box.sandbox.has_id_range and (user.uid, user.gid) != (0, 0)
    process = {
        "terminal": bool(console_of(box)),
        "user": _user(user, box),
        "args": container.argv,
        "env": [f"{name}={text}" for name, text in box.env],
        "cwd": container.cwd,
        "capabilities": _capabilities(user, container.capabilities),
        "noNewPrivileges": True,
    }
    return {
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": box.root, "readonly": container.read_only_root},
        "mounts": _mounts(box, is_nested),
        # The user's own groups open project folders; they stay unless others are asked for.
        "annotations": {} if user.groups else {"run.oci.keep_original_groups": "1"},
        "linux": _linux(user, box, is_nested),
    }


def _user(user: User, box: Box) -> dict[str, Any]:
    found: dict[str, Any] = {"uid": user.uid, "gid": user.gid}
    if user.groups and box.sandbox.has_id_range:
        found["additionalGids"] = user.groups
    return found


def _capabilities(user: User, numbers: list[int]) -> dict[str, list[str]]:
    names = capabilities.named(numbers)
    own = names if user.uid == 0 else []
    return {"bounding": names, "effective": own, "permitted": own}


def _linux(user: User, box: Box, is_nested: bool) -> dict[str, Any]:
    namespaces: list[dict[str, str]] = [{"type": "mount"}]
    if box.has_own_pids:
        namespaces.append({"type": "pid"})
    elif box.joins and box.sandbox.has_own_pids:
        namespaces.append({"type": "pid", "path": f"/proc/{box.joins}/ns/pid"})
    linux: dict[str, Any] = {"namespaces": namespaces}
    if not box.container.unmasked:
        linux.update({"maskedPaths": MASKED, "readonlyPaths": READ_ONLY})
    if any(bind.propagates for bind in box.binds):
        linux["rootfsPropagation"] = "rslave"
    if box.seccomp is not None:
        linux["seccomp"] = box.seccomp.rules
    if is_nested:
        namespaces.append({"type": "user"})
        linux["uidMappings"] = [{"containerID": user.uid, "hostID": 0, "size": 1}]
        linux["gidMappings"] = [{"containerID": user.gid, "hostID": 0, "size": 1}]
    return linux


def _mounts(box: Box, is_nested: bool) -> list[dict[str, Any]]:
    quiet = ["nosuid", "noexec", "nodev"]
    proc: tuple[str, str, list[str]] = ("proc", "proc", quiet)
    if not box.sandbox.has_own_pids:
        proc = ("bind", "/proc", ["rbind", *quiet])
    pts = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]
    mounts = [
        _mount("/proc", *proc),
        _mount("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        _mount("/dev/pts", "devpts", "devpts", pts),
    ]
    # Belongs to the ipc namespace: of the pod's alone may one be mounted.
    if not is_nested and box.sandbox.has_own_ipc:
        mounts.append(_mount("/dev/mqueue", "mqueue", "mqueue", quiet))
    for bind in box.binds:
        access = "ro" if bind.read_only else "rw"
        options = ["rbind", access, *(["rslave"] if bind.propagates else [])]
        mounts.append(_mount(bind.path, "bind", bind.source, options))
    return mounts


def _mount(path: str, kind: str, source: str, options: list[str]) -> dict[str, Any]:
    return {"destination": path, "type": kind, "source": source, "options": options}
