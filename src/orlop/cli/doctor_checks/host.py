"""Asks this host: Python, home, namespaces, kubectl, network.

Called by `doctor`, each for one or more findings. They look and try, and leave nothing behind.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ...agent.netd.kernel_check import problem as problem_of_network
from ...settings import Paths, Settings
from ..home.home_lock import resident
from . import filesystem
from .findings import Finding, note, ok, problem

MIN_SQLITE = (3, 26)
MIN_FREE = 2 << 30  # a few images and the database
MAX_SKEW = 60.0  # seconds


def python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield ok("python", f"{version} at {sys.executable}")
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        remedy = "use a Python built with a newer one (conda's and uv's are)"
        yield problem("sqlite", f"{sqlite3.sqlite_version}, older than 3.26", remedy)
    else:
        yield ok("sqlite", sqlite3.sqlite_version)


def home(paths: Paths) -> Iterator[Finding]:
    where = filesystem.of(paths.home)
    remedy = "free some space, or set ORLOP_HOME to a larger file system that compute nodes see"
    if where.free < MIN_FREE:
        yield note("home", f"{paths.home} ({where}): little room for images", remedy)
    else:
        yield ok("home", f"{paths.home} ({where})")
    if paths.home.exists() and (mode := paths.home.stat().st_mode & 0o077):
        found = f"{paths.home} is open to others (mode bits {mode:03o})"
        yield problem("home", found, f"chmod 700 {paths.home}")
    yield from _written(paths)


def _written(paths: Paths) -> Iterator[Finding]:
    """Write there (a quota may say no), and find the time by the file system's own clock."""
    folder = paths.home
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".orlop-doctor.") as probe:
            probe.write(bytes(1 << 20))
            probe.flush()
            os.fsync(probe.fileno())
            skew = os.fstat(probe.fileno()).st_mtime - time.time()
    except OSError as error:
        remedy = "free some of your quota, or set ORLOP_HOME to a folder you can write to"
        yield problem("home", f"cannot write to {folder}: {error.strerror}", remedy)
        return
    if abs(skew) > MAX_SKEW:
        remedy = "tell the administrator: certificates and leases need clocks that agree"
        yield note("clock", f"the file system's clock is {skew:+.0f} s off this host's", remedy)
    else:
        yield ok("clock", "this host and the file system of the home agree")


def namespaces() -> Iterator[Finding]:
    """Check that a user may make namespaces here; by trying, as distributions differ in how."""
    try:
        tried = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "true"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
        why = tried.stderr.strip() if tried.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    if why:
        remedy = (
            "containers need them on the compute nodes: ask the administrator for "
            "user.max_user_namespaces > 0 (and kernel.unprivileged_userns_clone=1, or "
            "kernel.apparmor_restrict_unprivileged_userns=0, where these exist); "
            "`image: host` works without"
        )
        yield note("user namespaces", f"not on this host: {why}", remedy)
    else:
        yield ok("user namespaces", "allowed")
    yield _subuid(pwd.getpwuid(os.geteuid()).pw_name, Path("/etc/subuid"))


def pod_network() -> Iterator[Finding]:
    """Check that pods can have own addresses; compute nodes mostly run this host's kernel."""
    lack = problem_of_network(is_isolated=True)
    if lack:
        remedy = (
            "pods run on their node's network, and services are not reached from them: "
            "ask the administrator whether compute nodes have a newer kernel"
        )
        yield note("pod network", f"not on this host: {lack}", remedy)
    else:
        yield ok("pod network", "pods have addresses of their own, at the speed of the host")


def _subuid(user: str, file: Path) -> Finding:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        lines = []
    names = {user, str(os.geteuid())}
    ranges = [line for line in lines if line.split(":")[0] in names]
    if ranges and shutil.which("newuidmap"):
        return ok("subuid", f"{ranges[0]}, newuidmap is here")
    lacks = "no newuidmap on PATH" if ranges else f"no range for {user} in {file}"
    remedy = "only containers that switch between several users need it; the administrator has it"
    return note("subuid", lacks, remedy)


def kubectl() -> Finding:
    program = shutil.which("kubectl")
    if program is None:
        remedy = "put it on PATH: https://kubernetes.io/docs/tasks/tools/ (one file, no root)"
        return note("kubectl", "not on PATH", remedy)
    try:
        answer = subprocess.run(
            [program, "version", "--client", "-o", "json"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        version = json.loads(answer.stdout)["clientVersion"]["gitVersion"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        return note("kubectl", f"{program} does not run: {error}", "install another one")
    return ok("kubectl", f"{version} at {program}")


def ports(paths: Paths, settings: Settings) -> Finding:
    """Check that the API server's port is free; our own control plane may have it already."""
    running = resident(paths)
    if running is not None:
        return ok("port", f"the control plane listens at {running.url}")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((settings.listen, settings.port))
        except OSError as error:
            found = f"cannot listen at {settings.listen}:{settings.port}: {error.strerror}"
            return problem("port", found, "set another `port` or `listen` in config.yaml")
    return ok("port", f"{settings.port or 'any free one'} at {settings.listen}")


def proxy(environ: Mapping[str, str], url: str) -> Iterator[Finding]:
    """Check the proxy variables: kubectl obeys them, and no proxy leads back to the cluster."""
    names = ("HTTPS_PROXY", "https_proxy")
    used = next((name for name in names if environ.get(name)), None)
    if used is None:
        return
    host = urlsplit(url).hostname or "this host's address"
    excepted = re.split(r"[,\s]+", environ.get("NO_PROXY") or environ.get("no_proxy") or "")
    if host not in excepted:
        found = f"{used} is set: kubectl will ask the proxy for {host}"
        yield note("proxy", found, f"export NO_PROXY={host},$NO_PROXY")


def logout() -> Iterator[Finding]:
    """Check whether systemd is told to end all of a user's processes at logout."""
    pattern = re.compile(r"^\s*KillUserProcesses\s*=\s*(yes|true|1|on)\s*$", re.I | re.M)
    files = [Path("/etc/systemd/logind.conf"), *Path("/etc/systemd/logind.conf.d").glob("*.conf")]
    for file in files:
        if file.is_file() and pattern.search(file.read_text(errors="replace")):
            remedy = "`loginctl enable-linger`, or `orlop up --in-job`"
            yield note("logout", f"{file} ends your processes when you log out", remedy)
            return
