"""One node: a hostname, an address and file systems of its own, and what runs on it.

Made by the cluster, one for the head and one for each compute node. It boots, runs commands and
can lose its power; of Slurm it knows nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import cgroups
from .accounts import Account
from .namespaces import spawn
from .process import Process, wait_until

INIT = Path(__file__).with_name("node-init")
BOOT_TIMEOUT = 30.0

# What enters a node's namespaces enters its groups first: version 2 lets no process in that comes
# from outside a namespace of cgroups, if the one who moves it is inside.
JOIN_CGROUPS = """
while [ "$1" != -- ]; do echo 0 > "$1"; shift; done
shift
exec "$@"
"""


class Node:
    def __init__(
        self, name: str, root: Path, *, has_cgroups: bool, init: Process | None = None
    ) -> None:
        self.name = name
        self.root = root
        self.has_cgroups = has_cgroups
        self._init = init
        self._boot: subprocess.Popen[bytes] | None = None
        self._children: list[subprocess.Popen[Any]] = []

    @property
    def init(self) -> Process:
        """The node's first process; what enters the node enters its namespaces."""
        if self._init is None or not self._init.is_alive():
            raise RuntimeError(f"node {self.name} of {self.root} is off; power_on starts it")
        return self._init

    @property
    def is_on(self) -> bool:
        return self._init is not None and self._init.is_alive()

    def begin_boot(self, lifeline: int | None) -> None:
        """Starts to boot; `finish_boot` waits for the end, so that nodes can boot together."""
        (self.root / "nodes" / self.name).mkdir(parents=True, exist_ok=True)
        if self.has_cgroups:
            cgroups.create(self.root, self.name)
        kinds = ["--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child"]
        command = [str(INIT), self.name, str(self.root)]
        with (self.root / "log" / f"console-{self.name}").open("ab") as console:
            self._boot = subprocess.Popen(
                ["/usr/bin/unshare", *kinds, "--propagation=private", *command],
                stdin=subprocess.DEVNULL if lifeline is None else lifeline,
                stdout=subprocess.PIPE,
                stderr=console,
                env=self._boot_environment(lifeline),
                start_new_session=True,
            )

    def _boot_environment(self, lifeline: int | None) -> dict[str, str]:
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LIFELINE": "0" if lifeline is None else "1",
            "CGROUPS": str(cgroups.version() if self.has_cgroups else 0),
        }

    def finish_boot(self) -> None:
        assert self._boot is not None, "begin_boot comes first"
        assert self._boot.stdout is not None, "begin_boot asks for a pipe"
        with self._boot.stdout as output:
            line = output.readline()
        if not line:
            console = self.root / "log" / f"console-{self.name}"
            self._boot.wait()
            raise RuntimeError(f"node {self.name} did not boot: {console.read_text().strip()}")
        self._init = Process.of(int(line))

    def popen(
        self,
        argv: Sequence[str],
        *,
        account: Account | None = None,
        directory: str = "/",
        env: Mapping[str, str],
        **popen: Any,
    ) -> subprocess.Popen[Any]:
        if account is not None:
            ids = [f"--reuid={account.uid}", f"--regid={account.gid}", "--init-groups"]
            argv = ["/usr/bin/setpriv", *ids, "--", *argv]
        joining: list[str] = []
        if self.has_cgroups:
            procs = map(str, cgroups.procs(self.root, self.name))
            joining = ["/bin/sh", "-c", JOIN_CGROUPS, "sh", *procs, "--"]
        child = spawn(
            self.init.pid,
            argv,
            before=joining,
            directory=directory,
            cgroup=self.has_cgroups,
            env=dict(env),
            **popen,
        )
        self._children = [c for c in self._children if c.returncode is None]
        self._children.append(child)
        return child

    def power_off(self) -> None:
        """Ends everything on the node at once, as a cut cable does."""
        if self._init is None:
            return
        self._init.send(signal.SIGKILL)
        wait_until(self._is_gone, f"node {self.name} is off")
        if self._boot is not None:
            self._boot.wait(BOOT_TIMEOUT)
        self._init = self._boot = None
        if self.has_cgroups:
            cgroups.remove(self.root, self.name)

    def _is_gone(self) -> bool:
        # The kernel lets the first process go only when its parents have seen the others' end;
        # for those that were started from here, that is us.
        for child in self._children:
            child.poll()
        return not self.is_on


def network_namespace(process: Process, script: str) -> None:
    """Runs the lines of `script` by ip(8) in the network namespace of a process."""
    subprocess.run(
        ["/usr/bin/nsenter", f"--target={process.pid}", "--net", "--", "ip", "-batch", "-"],
        input=script,
        text=True,
        check=True,
        capture_output=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": os.environ.get("LANG", "C.UTF-8")},
    )
