"""Where Debian keeps what an image with Open MPI needs: of release 4 on Debian 12, of 5 on 13.

Asked by the recipes of images, here and in the scenarios. Release 5 starts its ranks by PRRTE: its
`mpirun` becomes `prterun`, which has `prted` on the other nodes, as `orterun` has `orted`.
"""

from __future__ import annotations

from pathlib import Path

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
RELEASE_4 = ("orterun", "orted")
RELEASE_5 = ("mpirun.openmpi", "prterun", "prted")


# Release 5 refuses more ranks than there are cores, and nodes here claim more than the machine has.
ON_FEW_CORES = ("--map-by", "slot", "--bind-to", "none")


def is_release_5() -> bool:
    return not (Path("/usr/bin") / RELEASE_4[0]).exists()


def started_by(agent: str) -> tuple[str, ...]:
    """The options of an mpirun that shall start its daemons by a program in the place of ssh."""
    if is_release_5():
        return ("--prtemca", "plm_ssh_agent", agent)
    return ("--mca", "plm_rsh_agent", agent)


def programs(folder: Path = Path("/usr/bin")) -> dict[str, Path]:
    """The launcher as `mpirun`, and what it starts, by their paths in an image."""
    for names in (RELEASE_4, RELEASE_5):
        launcher, *others = (folder / name for name in names)
        if launcher.exists():
            started = {f"/usr/bin/{each.name}": each for each in others}
            return {"/usr/bin/mpirun": launcher} | started
    expected = " or ".join(names[0] for names in (RELEASE_4, RELEASE_5))
    raise FileNotFoundError(f"no {expected} in {folder}: apt-get install openmpi-bin")


def plugins() -> list[Path]:
    """Release 5 has most of them in its libraries."""
    folders = (LIBRARIES / "openmpi/lib/openmpi3", LIBRARIES / "pmix2/lib/pmix")
    return sorted(path for folder in folders for path in folder.glob("*.so"))


def settings() -> list[Path]:
    return sorted(Path("/etc/openmpi").glob("*.conf"))


def messages() -> list[Path]:
    """What its programs say when something fails; without these files, only that they lack them."""
    folders = (Path("/usr/share/openmpi"), Path("/usr/share/prte"))
    return sorted(path for folder in folders for path in folder.glob("*.txt"))
