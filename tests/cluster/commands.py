"""Running commands on the nodes of a cluster, of whichever kind it is.

Both kinds of cluster are `Commands`; a test that needs no more than this runs on either. A kind
says how a process is started on a node, the rest is here.
"""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .process import wait_until
from .spec import HEAD


class CommandFailed(AssertionError):
    """A command on a node ended otherwise than a test expected; shows what it said."""

    def __init__(self, node: str, result: subprocess.CompletedProcess[str]) -> None:
        words = " ".join(result.args)
        said = (result.stdout + result.stderr).strip()
        super().__init__(f"{words} on {node} ended with {result.returncode}:\n{said}")
        self.result = result


class Commands(ABC):
    root: Path

    @property
    @abstractmethod
    def user(self) -> str:
        """Whose cluster it is: the user for whom Orlop runs."""

    @property
    @abstractmethod
    def home(self) -> Path:
        """The user's home, the same path on every node and outside."""

    @abstractmethod
    def popen(
        self,
        node: str,
        argv: Sequence[str],
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        **popen: Any,
    ) -> subprocess.Popen[Any]:
        """Starts a command; what is returned is that very process, to signal and to wait for."""

    def run(
        self,
        node: str,
        argv: Sequence[str],
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        input: str | None = None,
        timeout: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end; `env` is added to what a login would set."""
        pipes = {"stdin": subprocess.PIPE if input is not None else subprocess.DEVNULL}
        pipes |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.popen(node, argv, user=user, env=env, text=True, **pipes) as child:
            try:
                output, errors = child.communicate(input, timeout)
            except BaseException:
                child.kill()
                raise
        result = subprocess.CompletedProcess(argv, child.returncode, output, errors)
        if check and result.returncode:
            raise CommandFailed(node, result)
        return result

    @property
    def slurm_conf(self) -> Path:
        return self.root / "etc" / "slurm.conf"

    @property
    def log(self) -> Path:
        return self.root / "log"

    def node_states(self) -> dict[str, str]:
        """Slurm's word on each node, such as idle, mixed or down*; empty if it does not answer."""
        answer = self.run(HEAD, ["sinfo", "-h", "-N", "-o", "%N %T"], check=False)
        return dict(line.split() for line in answer.stdout.splitlines())

    def wait_idle(self, timeout: float = 60.0) -> None:
        wait_until(lambda: set(self.node_states().values()) == {"idle"}, "all nodes idle", timeout)

    def slurmctld_answers(self) -> bool:
        return self.run(HEAD, ["scontrol", "ping"], check=False).returncode == 0
