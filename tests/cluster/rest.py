"""slurmrestd on the head: on a Unix socket for the cluster's user, and on TCP for tokens.

Called by the daemons of a cluster whose spec asks for it. On the socket the user is known by the
kernel and needs no token; `scontrol token` gives one for TCP. Every Slurm speaks a few versions of
its interface, and drops old ones: the newest it has is asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from .accounts import account
from .process import wait_until
from .spec import HEAD, HEAD_ADDRESS

if TYPE_CHECKING:
    from .cluster import SlurmCluster

PORT = 6820
PLUGINS = "/usr/lib/*-linux-gnu*/slurm-wlm"  # where Debian has them
_VERSIONED = re.compile(r"(openapi|data_parser)_v0_0_(\d+)\.so")


def socket_path(root: Path) -> Path:
    return root / "rest" / "socket"


def write_key(root: Path) -> None:
    """The key that signs tokens; slurm.conf names it."""
    key = root / "etc" / "jwt.key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    shutil.chown(key, "slurm", "slurm")


def version(plugins: Sequence[str] = ()) -> str:
    """The newest version of its interface, as it stands in paths: v0.0.38 of Debian 12's Slurm."""
    numbers = [match[2] for match in map(_VERSIONED.fullmatch, plugins or _plugins()) if match]
    return f"v0.0.{max(map(int, numbers))}"


def openapi(accounting: bool, plugins: Sequence[str] = ()) -> str:
    """The plugins for it: one for a version until Slurm 23, one for every version since."""
    names = ("slurmctld", "slurmdbd")
    if f"openapi_{names[0]}.so" not in (plugins or _plugins()):
        names = (version(plugins), f"db{version(plugins)}")
    # The plugin for accounting ends slurmrestd where there is no accounting.
    return ",".join(f"openapi/{name}" for name in names[: 2 if accounting else 1])


def _plugins() -> list[str]:
    return [Path(path).name for path in glob(f"{PLUGINS}/*.so")]


def start(cluster: SlurmCluster) -> None:
    socket = socket_path(cluster.root)
    socket.parent.mkdir(mode=0o700)
    owner = account(cluster.user)
    os.chown(socket.parent, owner.uid, owner.gid)
    command = ["slurmrestd", "-s", openapi(cluster.spec.accounting), "-a"]
    local = _spawn(cluster, [*command, "rest_auth/local", f"unix:{socket}"], cluster.user, {})
    # Whoever serves tokens must be neither root nor SlurmUser, and proves itself by a token too.
    tcp = [*command, "rest_auth/jwt", f"{HEAD_ADDRESS}:{PORT}"]
    remote = _spawn(cluster, tcp, "nobody", {"SLURM_JWT": "daemon"})
    wait_until(lambda: local() and socket.exists(), "slurmrestd listens on its socket")
    wait_until(lambda: remote() and _listens(cluster), "slurmrestd listens on TCP")


def _spawn(
    cluster: SlurmCluster, argv: list[str], user: str, env: dict[str, str]
) -> Callable[[], bool]:
    """What is returned is true while it runs, and fails with what it said when it has ended."""
    path = cluster.log / f"slurmrestd-{user}.log"
    with path.open("ab") as log:
        child = cluster.popen(
            HEAD,
            argv,
            user=user,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def runs() -> bool:
        if child.poll() is not None:
            raise RuntimeError(f"slurmrestd has ended: {path.read_text().strip()}")
        return True

    return runs


def _listens(cluster: SlurmCluster) -> bool:
    try:
        cluster.connect(HEAD, PORT).close()
    except ConnectionError:
        return False
    return True
