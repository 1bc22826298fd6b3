"""The second kind of cluster: the whole of Slurm as one ordinary user, without root anywhere.

For tests of what a user can do alone, and for developers without root. munged, slurmctld and the
slurmds all run on this machine's loopback under free ports; the nodes are names only, they share
the machine's hostname and its /tmp. It never runs anything as another user.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.devroot import TEST_USER, DevRoot, dev_root
from tools.locks import locked

from .accounts import Account, account
from .commands import Commands
from .daemons import munged_command
from .process import Process, wait_until
from .programs import link_runtimes, user_path
from .slurm_conf import NO_CGROUPS, base_settings
from .spec import HEAD

STOP_TIMEOUT = 10.0
OWNER = "rootless.json"


class RootlessSlurm(Commands):
    """Root may start it too, for the sake of tests: all of it then runs as `user`."""

    def __init__(
        self, root: Path, nodes: int = 2, user: str | None = None, dev: DevRoot | None = None
    ) -> None:
        self.root = root
        self.node_names = [f"n{number}" for number in range(1, nodes + 1)]
        self.dev = dev or dev_root()
        me = pwd.getpwuid(os.geteuid()).pw_name
        self._children: dict[str, subprocess.Popen[Any]] = {}
        self._account = account(user or (TEST_USER if me == "root" else me))

    @property
    def user(self) -> str:
        return self._account.name

    @property
    def home(self) -> Path:
        return self.root / "home"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Everything in the foreground of a session of its own; ready when all nodes are idle."""
        self._end_processes()
        shutil.rmtree(self.root, ignore_errors=True)
        self._write_files()
        try:
            self._spawn([*munged_command(self.root / "munge"), "--foreground", "--force"], "munged")
            wait_until((self.root / "munge" / "socket").exists, "munged listens")
            self.start_slurmctld()
            for name in self.node_names:
                self._spawn(["slurmd", "-D", "-N", name], f"slurmd-{name}")
            self.wait_idle()
        except BaseException:
            self._end_processes()
            raise

    def stop(self) -> None:
        self._end_processes()
        shutil.rmtree(self.root)

    def start_slurmctld(self) -> None:
        self._spawn(["slurmctld", "-D"], "slurmctld")
        wait_until(self.slurmctld_answers, "slurmctld answers")

    def stop_slurmctld(self) -> None:
        child = self._children.pop("slurmctld")
        child.terminate()
        child.wait(STOP_TIMEOUT)

    def popen(
        self,
        node: str,
        argv: Sequence[str],
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        **popen: Any,
    ) -> subprocess.Popen[Any]:
        """As the cluster's user, on this machine, whichever of its nodes is named."""
        if node not in (HEAD, *self.node_names) or user not in (None, self.user):
            raise LookupError(f"{user} on {node}: this cluster is {self.user}'s alone")
        if os.geteuid() == 0:
            ids = {"user": self._account.uid, "group": self._account.gid, "extra_groups": []}
            popen = ids | popen
        environment = self.environment() | dict(env or {})
        program = shutil.which(argv[0], path=environment["PATH"])
        return subprocess.Popen(argv, executable=program, cwd=self.home, env=environment, **popen)

    def environment(self) -> dict[str, str]:
        return {
            "SLURM_CONF": str(self.slurm_conf),
            "LANG": "C.UTF-8",
            "PATH": user_path(self.root, self.dev),
            "HOME": str(self.home),
            "USER": self.user,
            "LOGNAME": self.user,
            "SHELL": "/bin/bash",
            "XDG_RUNTIME_DIR": str(self.root / "run"),
        }

    def _spawn(self, argv: list[str], name: str) -> None:
        # The daemons die with the test run, even by kill -9; the next one sweeps up their jobs.
        argv = ["setpriv", "--pdeathsig=KILL", "--", *argv]
        with (self.log / f"{name}.out").open("ab") as log:
            self._children[name] = self.popen(
                HEAD, argv, start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _write_files(self) -> None:
        self.root.mkdir(parents=True)
        names = ["etc", "home", "log", "munge", "run", "state", *self._spools()]
        for name in names:
            (self.root / name).mkdir(mode=0o700)
        key = self.root / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.slurm_conf.write_text(self._slurm_conf())
        self.slurm_conf.with_name("cgroup.conf").write_text(NO_CGROUPS)
        link_runtimes(self.root, self.dev, ("crun", "apptainer"))
        (self.root / OWNER).write_text(json.dumps(Process.of(os.getpid()).to_json()))
        if os.geteuid() == 0:
            _give(self.root, self._account)

    def _spools(self) -> list[str]:
        return [f"spool-{name}" for name in self.node_names]

    def _slurm_conf(self) -> str:
        host = socket.gethostname().partition(".")[0]
        control, *ports = free_ports(1 + len(self.node_names))
        lines = base_settings(self.root, self.root / "munge" / "socket") | {
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": str(control),
            "SlurmUser": self.user,
            "SlurmdUser": self.user,
            "SlurmdSpoolDir": f"{self.root}/spool-%n",
            "SlurmdPidFile": f"{self.root}/slurmd-%n.pid",
        }
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        where = f"NodeHostname={host} NodeAddr=127.0.0.1"
        for name, port in zip(self.node_names, ports, strict=True):
            text += f"NodeName={name} {where} Port={port} CPUs=8 RealMemory=8000\n"
        return text + "PartitionName=main Nodes=ALL Default=YES State=UP\n"

    def _end_processes(self) -> None:
        """Ends all that belongs to this cluster: its daemons, its jobs and what they started.

        They are known by the configuration they all carry in their environment, so that those a
        killed test run left are found too.
        """
        wait_until(self._nothing_left_to_kill, f"the processes of {self.root} have ended")
        self._children.clear()

    def _nothing_left_to_kill(self) -> bool:
        for child in self._children.values():
            child.poll()
        alive = list(self._processes())
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not alive

    def _processes(self) -> Iterator[int]:
        mark = f"SLURM_CONF={self.slurm_conf}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                is_ours = folder.stat().st_uid == self._account.uid
                if is_ours and mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)
            except (FileNotFoundError, PermissionError, ProcessLookupError):
                continue


def sweep_rootless(folder: Path, user: str | None = None) -> None:
    """Clears the clusters of this kind in `folder` whose test run has ended without doing so."""
    with locked(folder):
        for owner in folder.glob(f"*/{OWNER}"):
            if not Process(**json.loads(owner.read_text())).is_alive():
                RootlessSlurm(owner.parent, user=user).stop()


def _give(root: Path, owner: Account) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody has now; all are held until the last is known."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [server.getsockname()[1] for server in servers]
