"""Starts processes inside the namespaces of a node.

Called by the node for every command run on it. The process that `spawn` returns is the command
itself, not a go-between: its number can be signalled and its end waited for as with any child.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def _setns(descriptor: int, kind: int) -> None:
    if _libc.setns(descriptor, kind) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")


@contextmanager
def _inside(pid: int, name: str, kind: int) -> Iterator[None]:
    """This thread, and no other, is in a namespace of `pid` meanwhile."""
    own = os.open(f"/proc/thread-self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    theirs = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(theirs, kind)
        try:
            yield
        finally:
            _setns(own, kind)
    finally:
        os.close(own)
        os.close(theirs)


def connect(pid: int, address: tuple[str, int], timeout: float) -> socket.socket:
    """A connection made in the network of `pid`; it stays there wherever it is used."""
    with _inside(pid, "net", CLONE_NEWNET):
        return socket.create_connection(address, timeout)


def enter_command(pid: int, directory: str, *, cgroup: bool = False) -> list[str]:
    """The words before a command that bring it into the namespaces of `pid`, all but the pid's."""
    # --root: the node's root, which is not its namespace's if set-up was done in a chroot.
    kinds = ["--mount", "--root", "--uts", "--ipc", "--net"] + (["--cgroup"] if cgroup else [])
    return ["/usr/bin/nsenter", f"--target={pid}", *kinds, f"--wdns={directory}", "--"]


def spawn(
    pid: int,
    argv: Sequence[str],
    *,
    before: Sequence[str] = (),
    directory: str = "/",
    cgroup: bool = False,
    **popen: Any,
) -> subprocess.Popen[Any]:
    """Starts a command in all namespaces of `pid`; `before` becomes what enters them.

    `nsenter --pid` would have to fork and stay between us and the command, and a signal meant for
    the command would end nsenter alone. So the child is born into the pid namespace, and only the
    other namespaces are entered by nsenter, which then becomes the command.
    """
    command = [*before, *enter_command(pid, directory, cgroup=cgroup), *argv]
    with _inside(pid, "pid", CLONE_NEWPID):
        return subprocess.Popen(command, **popen)
