"""Runs a command beside any rank of a set, on whichever node that is: `kubectl exec POD -- @3 ps`.

`launch` is the body of a forked helper of the agent, as that of agent/exec/nsenter.py: it asks
Slurm where the rank is and has srun start the command there, through the same container server. A
command without `@` is none of its business: it runs beside the first rank, as in any container.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import termios

from ..container.runtimes import find
from ..exec.nsenter import FAILED, Command, fork_into
from ..linux.process import run_quickly
from .leader import be_oneself, starter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_RANK = re.compile(r"@(\d+)")
_NODE = re.compile(r"Node \d+ \((\S+?)\), \d+ task\(s\): ([\d ]+)")


def rank_of(argv: list[str]) -> int | None:
    """Return which rank a command is for; None where it does not say."""
    found = _RANK.fullmatch(argv[0]) if argv else None
    return int(found.group(1)) if found else None


def launch(
    command: Command, rank: int, ranks: dict[str, Any], meeting: str, report: socket.socket
) -> Callable[[], None]:
    """Return the helper's body; `report` hears a number, with the terminal, or `!` and words."""

    def body() -> None:
        try:
            if len(command.argv) < 2:
                raise OSError(f"expected a command after {command.argv[0]}, found none")
            ours, theirs = os.openpty() if command.tty else (-1, -1)
            job, step = _step_of(command.pid)  # seen by the sandbox's rights alone
            be_oneself(command.box, ranks["hostname"])
            argv = _srun(job, node_of(_layout(job, step), rank), is_terminal=command.tty)
            argv += starter(meeting, ranks["folder"], str(rank), *command.argv[1:])
            pid = fork_into(lambda: _become(argv, theirs))
            socket.send_fds(report, [str(pid).encode()], [ours] if ours >= 0 else [])
        except OSError as error:
            report.send(FAILED + str(error).encode(errors="replace"))
        os._exit(0)

    return body


def _step_of(pid: int) -> tuple[str, str]:
    """Find the job and the step by the variables of a rank on this node."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = dict(pair.split(b"=", 1) for pair in file.read().split(b"\0") if b"=" in pair)
    return pairs[b"SLURM_JOB_ID"].decode(), pairs[b"SLURM_STEP_ID"].decode()


def _layout(job: str, step: str) -> str:
    code, text = run_quickly([find(["sattach"]) or "sattach", "--layout", f"{job}.{step}"])
    if code:
        raise OSError(f"Slurm does not tell where the ranks are: {text.strip()}")
    return text


def node_of(layout: str, rank: int) -> str:
    """Return the node of a rank, in what `sattach --layout` prints."""
    for node, ranks in _NODE.findall(layout):
        if str(rank) in ranks.split():
            return str(node)
    raise OSError(f"there is no rank {rank}")


def _srun(job: str, node: str, *, is_terminal: bool) -> list[str]:
    argv = [find(["srun"]) or "srun", f"--jobid={job}", "--overlap", f"--nodelist={node}"]
    argv += ["--nodes=1", "--ntasks=1", "--mpi=none", "--mem=0", "--quiet", "--export=ALL"]
    return [*argv, "--job-name=exec", *(["--pty"] if is_terminal else [])]


def _become(argv: list[str], terminal: int) -> None:
    os.setsid()
    if terminal >= 0:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        for fd in (0, 1, 2):
            os.dup2(terminal, fd)
    # What the job asked of its own tasks is not asked of this one.
    env = {name: text for name, text in os.environ.items() if not _is_of_tasks(name)}
    os.execve(argv[0], argv, env)


def _is_of_tasks(name: str) -> bool:
    return name.startswith(("SLURM_NTASKS", "SLURM_TASKS", "SLURM_CPUS", "SLURM_MEM", "SLURM_GPUS"))
