"""Which programs the users of a test cluster find: Orlop, kubectl, and the runtimes of the site.

Called when a cluster starts. Sites differ in the container runtimes they have, so a cluster has
those its spec names: they are linked into the cluster's own bin folder, and the machine's other
runtimes are hidden on the nodes. It installs nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.devroot import DevRoot

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

RUNTIMES = (
    "apptainer",
    "bwrap",
    "ch-run",
    "charliecloud",
    "crun",
    "docker",
    "enroot",
    "podman",
    "run-singularity",
    "runc",
    "singularity",
    "youki",
)


def user_path(root: Path, dev: DevRoot) -> str:
    return f"{root}/bin:{dev.venv}/bin:{dev.bin}:{SYSTEM_PATH}"


def link_runtimes(root: Path, dev: DevRoot, runtimes: tuple[str, ...]) -> None:
    """Fills `root`/bin with the runtimes asked for that no folder of the machine's PATH has."""
    (root / "bin").mkdir()
    for name in runtimes:
        if shutil.which(name, path=SYSTEM_PATH):
            continue
        private = dev.apptainer / "usr" / "bin" / name
        # A cluster may be asked for before set-up has fetched apptainer: then it has none.
        if private.exists():
            (root / "bin" / name).symlink_to(private)


def hidden_programs(runtimes: tuple[str, ...]) -> list[str]:
    """Where the machine has runtimes that this cluster shall not have."""
    found = set()
    for name in set(RUNTIMES) - set(runtimes):
        for folder in SYSTEM_PATH.split(":"):
            if (program := Path(folder) / name).exists():
                found.add(str(program.resolve()))
    return sorted(found)
