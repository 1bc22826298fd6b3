"""Slurm's accounting on the head: a MariaDB of the cluster's own, and slurmdbd over it.

Called by the daemons of a cluster whose spec asks for it. To make such a database takes seconds,
so it is made once on a machine, with accounts and users entered, and copied for every cluster.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.devroot import PLAIN_USER, TEST_USER
from tools.locks import locked

from .process import wait_until
from .slurm_conf import CLUSTER_NAME
from .spec import HEAD, HEAD_ADDRESS

if TYPE_CHECKING:
    from .cluster import SlurmCluster

DATABASE = "slurm_acct"
ACCOUNTS = ("research", "teaching")
QOS = ("high", "low")

# Small and careless: the database lives as long as a test.
SERVER = (
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--skip-log-bin",
    "--innodb-buffer-pool-size=32M",
    # Recent versions reserve terabytes of addresses for a pool that grows; older ones know no such
    # option.
    "--loose-innodb-buffer-pool-size-max=64M",
    "--innodb-log-file-size=8M",
    "--innodb-data-file-path=ibdata1:4M:autoextend",
    "--innodb-autoextend-increment=4",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-lock-wait-timeout=900",
)

PREPARE = f"""
create database {DATABASE};
create user slurm@'127.0.0.1' identified by 'slurm';
grant all on {DATABASE}.* to slurm@'127.0.0.1';
"""


def slurmdbd_conf(root: Path) -> str:
    lines = {
        "DbdHost": HEAD,
        "DbdAddr": HEAD_ADDRESS,
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={root}/munge/socket",
        "LogFile": f"{root}/log/slurmdbd.log",
        "PidFile": f"{root}/state/slurmdbd.pid",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "127.0.0.1",
        "StorageUser": "slurm",
        "StoragePass": "slurm",
        "StorageLoc": DATABASE,
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


class Accounting:
    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        self.data = cluster.root / "mysql"
        self._server: subprocess.Popen[Any] | None = None

    def start(self) -> None:
        """From the machine's prepared database, or, where there is none yet, by preparing it."""
        self._write_configuration()
        template = self.cluster.dev.path / f"accounting-{self._versions()}"
        with locked(self.cluster.dev.path):
            if not template.exists():
                self._prepare(template)
        self._take(template)
        self._start_server()
        self._start_slurmdbd()
        if self.cluster.user not in (TEST_USER, PLAIN_USER):
            self._add_user(self.cluster.user)

    def _write_configuration(self) -> None:
        path = self.cluster.root / "etc" / "slurmdbd.conf"
        path.write_text(slurmdbd_conf(self.cluster.root))
        # It holds a password: slurmdbd refuses a file that others may read.
        path.chmod(0o600)
        shutil.chown(path, "slurm", "slurm")

    def _prepare(self, template: Path) -> None:
        self.data.mkdir()
        shutil.chown(self.data, "mysql", "mysql")
        install = ["mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={self.data}"]
        install += ["--skip-test-db", "--auth-root-authentication-method=normal"]
        sizes = [option for option in SERVER if "innodb-" in option]
        self.cluster.run(HEAD, [*install, *sizes])
        self._start_server()
        client = ["mariadb", "--no-defaults", f"--socket={self.data}/socket"]
        self.cluster.run(HEAD, client, input=PREPARE)
        self._start_slurmdbd()
        self._enter_accounts()
        self._stop()
        unfinished = template.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(self.data, unfinished)
        unfinished.rename(template)
        shutil.rmtree(self.data)

    def _take(self, template: Path) -> None:
        shutil.copytree(template, self.data)
        owner = pwd.getpwnam("mysql")
        for path in (self.data, *self.data.rglob("*")):
            os.chown(path, owner.pw_uid, owner.pw_gid)

    def _start_server(self) -> None:
        paths = [f"--datadir={self.data}", f"--socket={self.data}/socket"]
        paths.append(f"--pid-file={self.data}/pid")
        command = ["mariadbd", "--no-defaults", "--user=mysql", *paths, *SERVER]
        with (self.cluster.log / "mariadbd.log").open("ab") as log:
            self._server = self.cluster.popen(
                HEAD,
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._server_listens, "MariaDB listens")

    def _server_listens(self) -> bool:
        if self._server is not None and self._server.poll() is not None:
            raise RuntimeError(f"MariaDB has ended, see {self.cluster.log}/mariadbd.log")
        return (self.data / "socket").exists()

    def _start_slurmdbd(self) -> None:
        self.cluster.run(HEAD, ["slurmdbd"])
        wait_until(self._slurmdbd_answers, "slurmdbd answers")

    def _slurmdbd_answers(self) -> bool:
        ask = ["sacctmgr", "--noheader", "show", "cluster"]
        return self.cluster.run(HEAD, ask, check=False).returncode == 0

    def _enter_accounts(self) -> None:
        self._sacctmgr("add", "cluster", CLUSTER_NAME)
        self._sacctmgr("add", "account", ",".join(ACCOUNTS))
        self._sacctmgr("add", "qos", ",".join(QOS))
        for user in (TEST_USER, PLAIN_USER):
            self._add_user(user)

    def _add_user(self, user: str) -> None:
        words = [f"account={','.join(ACCOUNTS)}", f"defaultaccount={ACCOUNTS[0]}"]
        self._sacctmgr("add", "user", user, *words, f"qos=normal,{','.join(QOS)}")

    def _sacctmgr(self, *words: str) -> None:
        self.cluster.run(HEAD, ["sacctmgr", "--immediate", *words])

    def _stop(self) -> None:
        self.cluster.daemons.end_by_pid_file(self.cluster.root / "state" / "slurmdbd.pid")
        assert self._server is not None, "the server was started before"
        self._server.terminate()
        self._server.wait(30)

    def _versions(self) -> str:
        """A prepared database serves only the versions that wrote it."""
        commands = (["sinfo", "--version"], ["mariadbd", "--version"])
        said = "".join(self.cluster.run(HEAD, command).stdout for command in commands)
        return hashlib.sha256(said.encode()).hexdigest()[:12]
