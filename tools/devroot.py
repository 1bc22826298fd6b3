"""Where set-up keeps what the tests and the demo need: one folder outside the project's clone.

Read by set-up, which fills it, and by the test cluster, whose unprivileged users must be able to
enter it though the clone may lie where they cannot. It only names paths and never creates them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent

# Pods and Orlop itself run as these; the second has no ranges in /etc/subuid and /etc/subgid.
TEST_USER = "orlop-test"
PLAIN_USER = "orlop-plain"


@dataclass(frozen=True, slots=True)
class DevRoot:
    path: Path

    @property
    def bin(self) -> Path:
        """Programs the machine's own packages do not give: kubectl where Debian's is too old."""
        return self.path / "bin"

    @property
    def apptainer(self) -> Path:
        return self.path / "apptainer"

    @property
    def venv(self) -> Path:
        """Orlop as a user installs it: the wheel, in an environment every user can read."""
        return self.path / "venv"

    @property
    def images(self) -> Path:
        return self.path / "images"

    @property
    def old_kubectl(self) -> Path:
        """Debian 12's own, for what old clients ask; not on PATH."""
        return self.path / "old" / "kubectl-1.20"

    @property
    def etcd(self) -> Path:
        return self.path / "old" / "etcd"

    @property
    def clients(self) -> Path:
        """A Python environment with the client libraries of others."""
        return self.path / "clients"

    @property
    def node_client(self) -> Path:
        return self.path / "node"

    @property
    def clusters(self) -> Path:
        return self.path / "clusters"


def dev_root() -> DevRoot:
    """`ORLOP_DEV_ROOT`; else /var/lib for root (cleaners empty /var/tmp), the cache for others."""
    if path := os.environ.get("ORLOP_DEV_ROOT"):
        return DevRoot(Path(path))
    if os.geteuid() == 0:
        return DevRoot(Path("/var/lib/orlop-dev"))
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return DevRoot(Path(cache) / "orlop-dev")
