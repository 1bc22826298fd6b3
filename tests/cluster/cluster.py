"""A real Slurm of several nodes on one machine, started and stopped in about a second.

Used by the fixtures, the demo and `python -m tests.cluster`. The head runs munged and slurmctld,
each of n1, n2, … a slurmd; all have a hostname, an address, /tmp and /run of their own, and share
homes and the cluster's folder. The machine's network, /etc and running services are never touched.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.devroot import DevRoot, dev_root
from tools.locks import locked

from . import cgroups, files, namespaces, rest
from .accounts import account
from .commands import Commands
from .daemons import Daemons
from .node import Node, network_namespace
from .process import Process
from .programs import SYSTEM_PATH, user_path
from .spec import HEAD, HEAD_ADDRESS, Spec
from .state import State, is_cluster


class SlurmCluster(Commands):
    def __init__(self, root: Path, spec: Spec | None = None, dev: DevRoot | None = None) -> None:
        self.root = root
        self.spec = spec or Spec()
        self.dev = dev or dev_root()
        self.nodes = {name: self._node(name) for name in [HEAD, *self.spec.node_names]}
        self.daemons = Daemons(self)
        self._lifeline: tuple[int, int] | None = None
        self._owner: Process | None = None

    @classmethod
    def attach(cls, root: Path) -> SlurmCluster:
        """The cluster that another process started in `root`."""
        state = State.load(root)
        cluster = cls(root, state.spec, DevRoot(state.dev_root))
        for name, process in state.nodes.items():
            cluster.nodes[name] = cluster._node(name, process)
        cluster._owner = state.owner
        return cluster

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

    # What a test asks about

    @property
    def user(self) -> str:
        return self.spec.user

    @property
    def home(self) -> Path:
        return self.home_of(self.user)

    def home_of(self, user: str) -> Path:
        return self.root / "home" / user

    @property
    def head_address(self) -> str:
        return HEAD_ADDRESS

    # Life

    def start(self, *, outlive: bool = False) -> None:
        """From nothing to idle nodes.

        1. Remove what an earlier cluster in this folder left, even one that was killed.
        2. Write its files.
        3. Boot all nodes, connect them.
        4. Start the daemons, wait until Slurm calls the nodes idle.

        Unless it shall `outlive` this process, the cluster dies with it, even by kill -9.
        """
        clear(self.root)
        self._owner = None if outlive else Process.of(os.getpid())
        with files.readable_by_all():
            self.root.mkdir(parents=True)
            self._save()
            files.write(self.root, self.spec, self.dev)
        self._lifeline = None if outlive else os.pipe()
        try:
            self._boot(list(self.nodes))
            self.daemons.start()
        except BaseException:
            self.stop(keep=True)
            raise

    def stop(self, *, keep: bool = False) -> None:
        """Ends everything; the folder goes too, unless its logs shall be kept."""
        for node in reversed(self.nodes.values()):
            node.power_off()
        if self._lifeline is not None:
            for end in self._lifeline:
                os.close(end)
            self._lifeline = None
        if keep:
            self._save()
        else:
            clear(self.root)

    def power_off(self, name: str) -> None:
        self.nodes[name].power_off()
        self._save()

    def power_on(self, name: str) -> None:
        """Boots the node and waits for its slurmd, not for what slurmctld will say of it."""
        if not self.nodes[name].is_on:
            self._boot([name])
            self.daemons.start_slurmd(name)

    def stop_slurmctld(self) -> None:
        self.daemons.stop_slurmctld()

    def start_slurmctld(self) -> None:
        self.daemons.start_slurmctld()

    def expire(self, job: str) -> None:
        """Lets a job's time limit pass now; Slurm looks at limits every 30 s."""
        self.run(HEAD, ["scontrol", "update", f"JobId={job}", "EndTime=now"])

    @property
    def rest_socket(self) -> Path:
        return rest.socket_path(self.root)

    # Commands

    def popen(
        self,
        node: str,
        argv: Sequence[str],
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        **popen: Any,
    ) -> subprocess.Popen[Any]:
        """As root, unless a user is named."""
        return self.nodes[node].popen(
            argv,
            account=account(user) if user else None,
            directory=str(self.home_of(user)) if user and self.home_of(user).exists() else "/",
            env=self.environment(user) | dict(env or {}),
            **popen,
        )

    def connect(self, node: str, port: int, timeout: float = 10.0) -> socket.socket:
        """A TCP connection, from inside the cluster's network, to a port of a node."""
        address = (self.spec.addresses[node], port)
        return namespaces.connect(self.nodes[HEAD].init.pid, address, timeout)

    def environment(self, user: str | None = None) -> dict[str, str]:
        """What a login on any node of the cluster would set."""
        common = {"SLURM_CONF": str(self.slurm_conf), "LANG": "C.UTF-8"}
        if user is None:
            return common | {"PATH": SYSTEM_PATH, "HOME": "/root", "USER": "root"}
        return common | {
            "PATH": user_path(self.root, self.dev),
            "HOME": str(self.home_of(user)),
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/bash",
            "XDG_RUNTIME_DIR": f"/run/user/{account(user).uid}",
        }

    # Nodes

    def _node(self, name: str, init: Process | None = None) -> Node:
        return Node(name, self.root, has_cgroups=self.spec.cgroups, init=init)

    def _boot(self, names: list[str]) -> None:
        lifeline = self._lifeline[0] if self._lifeline else None
        for name in names:
            self.nodes[name].begin_boot(lifeline)
        for name in names:
            self.nodes[name].finish_boot()
        self._save()
        self._connect(names)

    def _connect(self, names: list[str]) -> None:
        """The bridge lies in the head's own namespace: clusters may share their addresses."""
        head = self.nodes[HEAD].init
        others = [name for name in names if name != HEAD]
        lines = files.HEAD_NETWORK if HEAD in names else ""
        for name in others:
            lines += files.cable(name, self.nodes[name].init.pid)
        network_namespace(head, lines)
        for name in others:
            network_namespace(self.nodes[name].init, files.node_network(self.spec.addresses[name]))

    def _save(self) -> None:
        on = {name: node.init for name, node in self.nodes.items() if node.is_on}
        State(self.spec, self.dev.path, on, self._owner).save(self.root)


def clear(root: Path) -> None:
    """Ends a cluster that this or another process left in `root` and removes the folder."""
    if not root.exists():
        return
    if is_cluster(root):
        cluster = SlurmCluster.attach(root)
        for node in cluster.nodes.values():
            node.power_off()
        if cluster.spec.cgroups:
            cgroups.remove(root)
    elif any(root.iterdir()):
        raise FileExistsError(f"{root} holds something else than a cluster; choose another folder")
    shutil.rmtree(root)


def sweep(folder: Path) -> None:
    """Clears the clusters in `folder` whose test run has ended without doing so."""
    with locked(folder):
        for root in folder.glob("*"):
            owner = State.load(root).owner if is_cluster(root) else None
            if owner is not None and not owner.is_alive():
                clear(root)
