"""slurmrestd on the head: on a Unix socket for the cluster's user, and on TCP for tokens.

Called by the daemons of a cluster whose spec asks for it. On the socket the user is known by the
kernel and needs no token; `scontrol token` gives one for TCP.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from .accounts import account
from .process import wait_until
from .spec import HEAD, HEAD_ADDRESS

if TYPE_CHECKING:
    from .cluster import SlurmCluster

PORT = 6820


def socket_path(root: Path) -> Path:
    return root / "rest" / "socket"


def write_key(root: Path) -> None:
    """The key that signs tokens; slurm.conf names it."""
    key = root / "etc" / "jwt.key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    shutil.chown(key, "slurm", "slurm")


def start(cluster: SlurmCluster) -> None:
    socket = socket_path(cluster.root)
    socket.parent.mkdir(mode=0o700)
    owner = account(cluster.user)
    os.chown(socket.parent, owner.uid, owner.gid)
    # The plugin for accounting ends slurmrestd where there is no accounting.
    plugins = "openapi/v0.0.38" + (",openapi/dbv0.0.38" if cluster.spec.accounting else "")
    command = ["slurmrestd", "-s", plugins, "-a"]
    _spawn(cluster, [*command, "rest_auth/local", f"unix:{socket}"], cluster.user, {})
    # Whoever serves tokens must be neither root nor SlurmUser, and proves itself by a token too.
    tcp = [*command, "rest_auth/jwt", f"{HEAD_ADDRESS}:{PORT}"]
    _spawn(cluster, tcp, "nobody", {"SLURM_JWT": "daemon"})
    wait_until(socket.exists, "slurmrestd listens on its socket")
    wait_until(lambda: _listens(cluster), "slurmrestd listens on TCP")


def _spawn(cluster: SlurmCluster, argv: list[str], user: str, env: dict[str, str]) -> None:
    with (cluster.log / f"slurmrestd-{user}.log").open("ab") as log:
        cluster.popen(
            HEAD,
            argv,
            user=user,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _listens(cluster: SlurmCluster) -> bool:
    try:
        cluster.connect(HEAD, PORT).close()
    except ConnectionError:
        return False
    return True
