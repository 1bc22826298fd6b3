"""Debian's packages that the tests and the demo need, installed without starting any daemon.

Called by set-up, as root. The daemons among them are run by the test cluster in namespaces of its
own; those of the machine stay as they were.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .steps import Lacking, Step

PACKAGES = (
    # a Slurm with accounting and REST; its plugins are only recommended, and needed
    "mariadb-server",
    "munge",
    "slurm-client",
    "slurm-wlm-jwt-plugin",
    "slurm-wlm-mysql-plugin",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    # container runtimes, what apptainer calls, images and their registry
    "busybox-static",
    "crun",
    "docker-registry",
    "fuse-overlayfs",
    "fuse3",
    "skopeo",
    "squashfs-tools",
    "qemu-user-static",  # the aarch64 form of what apptainer starts
    "squashfuse",
    "uidmap",
    "zstd",
    # compiles the quick part of the pod network
    "gcc",
    "libc6-dev",
    # two MPIs, for the images of MPI programs
    "libmpich-dev",
    "libopenmpi-dev",
    "mpich",
    "openmpi-bin",
    # programs that pods' networks are tried with, and what others make such networks of
    "iperf3",
    "nginx-light",
    "openjdk-17-jre-headless",
    "passt",
    "postgresql",
    "redis-server",
    "slirp4netns",
    "wrk",
    # two kinds of MPI, what Slurm's plugin for one of them loads, and a compiler for a program
    "gcc",
    "libc6-dev",
    "libmpich-dev",
    "libopenmpi-dev",
    "libpmix2",
    "mpich",
    "openmpi-bin",
    # tools
    "ca-certificates",
    "curl",
    "hostname",
    "iproute2",
    "patchelf",
    "procps",
    "python3",
    "python3-venv",
)

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


def step() -> Step:
    return Step("packages", lambda: not missing(), install)


def missing() -> list[str]:
    words = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Package}\n", *PACKAGES]
    answer = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    installed = {line[3:].strip() for line in answer.splitlines() if line.startswith("ii")}
    return [package for package in PACKAGES if package not in installed]


def install() -> str:
    wanted = missing()
    if os.geteuid() != 0:
        raise Lacking(f"root must install {' '.join(wanted)}: run tools/setup as root or with sudo")
    with no_daemon_starts():
        _apt_get("update")
        _apt_get("install", "--yes", "--no-install-recommends", *wanted)
    _leave_disabled([service for service in SERVICES if is_brought_by(wanted, service)])
    return f"installed {len(wanted)} packages: {' '.join(wanted)}"


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
