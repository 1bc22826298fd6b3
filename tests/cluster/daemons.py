"""Slurm's daemons on the nodes of a cluster: munged, slurmctld and the slurmds.

Called by the cluster when it starts and when a test stops or starts one of them. It knows their
order and their signs of life, and nothing of namespaces.
"""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from . import rest
from .accounting import Accounting
from .process import wait_until
from .spec import HEAD

if TYPE_CHECKING:
    from .cluster import SlurmCluster


class Daemons:
    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster

    def start(self) -> None:
        self.start_munged()
        if self.cluster.spec.accounting:
            Accounting(self.cluster).start()
        self.start_slurmctld()
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.start_slurmd, self.cluster.spec.node_names))
        self.cluster.wait_idle()
        if self.cluster.spec.rest:
            rest.start(self.cluster)

    def start_munged(self) -> None:
        munge = self.cluster.root / "munge"
        words = munged_command(munge)
        ids = ["--reuid=munge", "--regid=munge", "--clear-groups"]
        self.cluster.run(HEAD, ["setpriv", *ids, "--", *words])

    def start_slurmctld(self) -> None:
        self.cluster.run(HEAD, ["slurmctld"])
        wait_until(self.cluster.slurmctld_answers, "slurmctld answers")

    def stop_slurmctld(self) -> None:
        """As `systemctl stop` would: it saves its state and goes."""
        self.end_by_pid_file(self.cluster.root / "slurmctld.pid")

    def end_by_pid_file(self, path: Path) -> None:
        pid = path.read_text().strip()
        self.cluster.run(HEAD, ["kill", pid])
        wait_until(lambda: not self._is_running(pid), f"{path.stem} has ended")

    def _is_running(self, pid: str) -> bool:
        return self.cluster.run(HEAD, ["kill", "-0", pid], check=False).returncode == 0

    def start_slurmd(self, name: str) -> subprocess.CompletedProcess[str]:
        # -b: the node has just booted, though its kernel has not.
        return self.cluster.run(name, ["slurmd", "-b", "-N", name])


def munged_command(folder: Path) -> list[str]:
    """munged with everything it reads and writes in one folder."""
    names = {"key": "key", "socket": "socket", "pid": "pid", "log": "log", "seed": "seed"}
    return ["munged"] + [
        f"--{option}={folder / name}" if option == "socket" else f"--{option}-file={folder / name}"
        for option, name in names.items()
    ]
