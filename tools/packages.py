"""Debian's packages that the demo and the tests need, installed without starting any daemon.

Called by set-up, as root. The daemons among them are run by the test cluster in namespaces of its
own; those of the machine stay as they were. Debian 12 and 13 both have every name here: where
theirs differ (a JRE's has its version, a library's its ABI) it is that of what depends on them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.extent import Extent
from tools.steps import Lacking, Step

DEMO = {
    # Slurm
    "munge": "by which Slurm's daemons and commands know each other",
    "slurm-client": "sbatch, srun, squeue, scancel",
    "slurmctld": "Slurm's controller",
    "slurmd": "Slurm's daemon of a node",
    # container runtimes, images and their registry
    "busybox-static": "what the images are made of",
    "crun": "the first of the runtimes",
    "docker-registry": "the registry of the images",
    "fuse-overlayfs": "by which apptainer lets images be written to",
    "fuse3": "by which users mount",
    "patchelf": "lets apptainer and kubectl of a newer Debian run here",
    "squashfs-tools": "packs images for apptainer",
    "squashfuse": "mounts those images",
    "uidmap": "gives containers the users' subordinate ids",
    # the cluster, and Orlop on it
    "ca-certificates": "to fetch Python's packages",
    "curl": "to try services with",
    "gcc": "compiles the quick part of the pod network",
    "hostname": "gives nodes their names",
    "iproute2": "gives nodes their addresses",
    "libc6-dev": "headers for that part",
    "procps": "shows what runs on a node",
    "python3": "runs Orlop",
    "python3-venv": "makes the environments it is installed in",
}

TESTS = {
    # a Slurm with accounting and REST; its plugins are only recommended, and needed
    "mariadb-server": "the database of the accounts",
    "slurm-wlm-jwt-plugin": "tokens for slurmrestd",
    "slurm-wlm-mysql-plugin": "by which slurmdbd speaks to its database",
    "slurmdbd": "Slurm's accounting",
    "slurmrestd": "Slurm's REST",
    # images
    "skopeo": "images as another tool writes them",
    "zstd": "layers that are compressed by it",
    # MPI
    "libmpich-dev": "compiles a program for MPICH",
    "libopenmpi-dev": "compiles one for Open MPI",
    "mpich": "MPICH's launcher, for an image",
    "openmpi-bin": "Open MPI's; brings the libpmix that Slurm's own plugin for PMIx loads",
    # programs that pods' networks are tried with, and what others make such networks of
    "default-jre-headless": "opens sockets as the JVM does",
    "iperf3": "measures how much passes",
    "nginx-light": "a web server of many workers",
    "passt": "pasta, to compare with",
    "postgresql": "a database of many processes",
    "redis-server": "a database of one process",
    "slirp4netns": "to compare with",
    "wrk": "measures how many requests pass",
    # another architecture
    "qemu-user": "runs the aarch64 form of what apptainer starts",
}

POLICY = Path("/usr/sbin/policy-rc.d")
SERVICES = (
    "docker-registry",
    "mariadb",
    "munge",
    "nginx",
    "postgresql",
    "redis-server",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
)


def packages_for(extent: Extent) -> Mapping[str, str]:
    return DEMO if extent is Extent.DEMO else DEMO | TESTS


def step(extent: Extent) -> Step:
    wanted = tuple(packages_for(extent))
    return Step("packages", lambda: not missing(wanted), lambda: install(missing(wanted)))


def missing(wanted: Sequence[str]) -> list[str]:
    words = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Package}\n", *wanted]
    answer = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    installed = {line[3:].strip() for line in answer.splitlines() if line.startswith("ii")}
    return [package for package in wanted if package not in installed]


def install(wanted: Sequence[str]) -> str:
    if os.geteuid() != 0:
        raise Lacking(f"root must install {' '.join(wanted)}: run tools/setup as root or with sudo")
    apt_install(*wanted)
    _leave_disabled([service for service in SERVICES if is_brought_by(wanted, service)])
    return f"installed {len(wanted)} packages: {' '.join(wanted)}"


def apt_install(*names: str) -> None:
    with no_daemon_starts():
        _apt_get("update")
        _apt_get("install", "--yes", "--no-install-recommends", *names)


def is_brought_by(packages: Sequence[str], service: str) -> bool:
    return any(one == service or one.startswith(f"{service}-") for one in packages)


def _apt_get(*words: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    # A minute-old machine may still hold apt's lock.
    command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *words]
    subprocess.run(command, check=True, capture_output=True, text=True, env=environment)


@contextmanager
def no_daemon_starts() -> Iterator[None]:
    """Packages ask this program before they start anything; 101 means no."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def _leave_disabled(services: list[str]) -> None:
    """Nor shall they start when the machine does; what was here before us is left alone."""
    if services and shutil.which("systemctl"):
        command = ["systemctl", "disable", "--quiet", *services]
        subprocess.run(command, check=False, capture_output=True)
