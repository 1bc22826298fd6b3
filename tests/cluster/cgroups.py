"""The control groups of a cluster's nodes, below one folder named after the cluster.

Called by the nodes when they boot and when their power is cut. A node sees its own group as the
root of all, so that clusters do not meet; what it leaves is removed, or a later job of the same
number would inherit its limits.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .spec import HEAD

if TYPE_CHECKING:
    from .cluster import SlurmCluster

ROOT = Path("/sys/fs/cgroup")
REMOVE_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Hierarchy:
    mount: Path
    controllers: str
    """As mount(8) wants them; empty for the unified hierarchy."""


def version() -> int:
    """2 where the unified hierarchy has the memory controller, 1 where one of its own has it."""
    controllers = ROOT / "cgroup.controllers"
    if controllers.exists():
        return 2
    if (ROOT / "memory" / "cgroup.procs").exists():
        return 1
    raise RuntimeError(f"no memory controller below {ROOT}: a cluster with cgroups needs one")


def are_the_users(cluster: SlurmCluster) -> bool:
    """Whether a job's user may divide its memory: Slurm 22.05 lets him, by version 1 only."""
    ask = "own=$(sed -n 's/.*:memory://p' /proc/self/cgroup); test -w /sys/fs/cgroup/memory$own"
    words = ["srun", "-N1", "sh", "-c", ask]
    return cluster.run(HEAD, words, user=cluster.user, check=False).returncode == 0


def hierarchies() -> list[Hierarchy]:
    if version() == 2:
        return [Hierarchy(ROOT, "")]
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    found = {}
    for _, path, kind, options, *_ in mounts:
        names = [o for o in options.split(",") if o not in MOUNT_FLAGS and "=" not in o]
        if kind == "cgroup" and names:
            found[path] = Hierarchy(Path(path), ",".join(names))
    return list(found.values())


MOUNT_FLAGS = {"rw", "ro", "relatime", "noatime", "nosuid", "nodev", "noexec", "xattr"}


def name_of(cluster: Path) -> str:
    return "orlop-" + hashlib.sha256(str(cluster).encode()).hexdigest()[:10]


def table(cluster: Path) -> str:
    """For node-init: each hierarchy's folder on the node, the cluster's group, its controllers."""
    lines = (
        f"{hierarchy.mount.name} {hierarchy.mount / name_of(cluster)} {hierarchy.controllers}\n"
        for hierarchy in hierarchies()
    )
    return "".join(lines)


def create(cluster: Path, node: str) -> None:
    for hierarchy in hierarchies():
        parent = hierarchy.mount
        for name in (name_of(cluster), node):
            _delegate(parent)
            parent /= name
            parent.mkdir(exist_ok=True)
            _inherit_cpuset(parent)


def _delegate(group: Path) -> None:
    """Version 2 gives controllers to the groups below only on request."""
    available = group / "cgroup.controllers"
    if available.exists():
        words = " ".join(f"+{name}" for name in available.read_text().split())
        (group / "cgroup.subtree_control").write_text(words)


def _inherit_cpuset(group: Path) -> None:
    """Version 1 lets no process into a cpuset that has no CPUs and no memory yet.

    In version 2 an empty one is its parent's, and the root has none.
    """
    if (group / "cgroup.controllers").exists():
        return
    for name in ("cpuset.cpus", "cpuset.mems"):
        own = group / name
        if own.exists() and not own.read_text().strip():
            own.write_text((group.parent / name).read_text())


def procs(cluster: Path, node: str) -> list[Path]:
    """Where a process joins a node, in each hierarchy: version 2 has node-init's leaf for it."""
    leaf = "init" if version() == 2 else ""
    groups = (hierarchy.mount / name_of(cluster) / node / leaf for hierarchy in hierarchies())
    return [group / "cgroup.procs" for group in groups]


def remove(cluster: Path, node: str | None = None) -> None:
    """Removes the groups of one node, or of all; their processes have been killed before."""
    for hierarchy in hierarchies():
        top = hierarchy.mount / name_of(cluster)
        _remove_tree(top / node if node else top)


def _remove_tree(top: Path) -> None:
    end = time.monotonic() + REMOVE_TIMEOUT
    while top.exists():
        try:
            for group in _bottom_up(top):
                group.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            # The kernel is still letting go of what was killed.
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def _bottom_up(top: Path) -> Iterator[Path]:
    for below in top.iterdir():
        if below.is_dir():
            yield from _bottom_up(below)
    yield top
