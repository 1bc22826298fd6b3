"""Starts processes inside the namespaces of a node.

Called by the node for every command run on it. The process that `spawn` returns is the command
itself, not a go-between: its number can be signalled and its end waited for as with any child.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

CLONE_NEWPID = 0x20000000

_libc = ctypes.CDLL(None, use_errno=True)


def _setns(descriptor: int, kind: int) -> None:
    if _libc.setns(descriptor, kind) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")


@contextmanager
def children_born_beside(pid: int) -> Iterator[None]:
    """Children this thread starts meanwhile are born into the pid namespace of `pid`.

    `nsenter --pid` would have to fork and stay between us and the command, and a signal meant for
    the command would end nsenter alone.
    """
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    theirs = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(theirs, CLONE_NEWPID)
        try:
            yield
        finally:
            _setns(own, CLONE_NEWPID)
    finally:
        os.close(own)
        os.close(theirs)


def enter_command(pid: int, directory: str, *, cgroup: bool = False) -> list[str]:
    """The words before a command that bring it into the namespaces of `pid`, all but the pid's."""
    kinds = ["--mount", "--uts", "--ipc", "--net"] + (["--cgroup"] if cgroup else [])
    return ["/usr/bin/nsenter", f"--target={pid}", *kinds, f"--wdns={directory}", "--"]


def spawn(
    pid: int, argv: Sequence[str], *, directory: str = "/", cgroup: bool = False, **popen: Any
) -> subprocess.Popen[Any]:
    command = [*enter_command(pid, directory, cgroup=cgroup), *argv]
    with children_born_beside(pid):
        return subprocess.Popen(command, **popen)
