"""Ends the processes of a pod that shares its node's process numbers, should its agent be killed.

Forked by `main` for such pods: in all others the kernel does it, when the first process of their
namespace dies. It waits for the agent's end, whatever that is, and kills whoever still lives in the
pod's user namespace. Processes of other pods, and of the user's own, are in other namespaces.
"""

from __future__ import annotations

import fcntl
import os

from .fast_imports import signal

NS_GET_PARENT = 0xB702  # linux/nsfs.h
MAX_DEPTH = 32  # the kernel's, of user namespaces
ROUNDS = 100  # each kills what the last one's victims have started meanwhile


def watch() -> None:
    """Fork a process that watches over this one and those that it forks from now on."""
    agent = os.getpid()
    read_end, write_end = os.pipe()  # this end stays open as long as the agent lives
    pid = os.fork()
    if pid:
        os.close(read_end)
        return
    try:
        os.setsid()
        os.close(write_end)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.read(read_end, 1)
        end_all(agent)
    finally:
        os._exit(0)


def end_all(agent: int, proc: str = "/proc") -> None:
    """Kill every process of our user namespace, or of one below it, but ourselves."""
    own = os.stat(f"{proc}/self/ns/user").st_ino
    for _ in range(ROUNDS):
        found = [
            pid
            for pid in (int(name) for name in os.listdir(proc) if name.isdigit())
            if pid not in (agent, os.getpid()) and is_within(f"{proc}/{pid}/ns/user", own)
        ]
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # gone meanwhile


def is_within(path: str, own: int) -> bool:
    """Return whether a user namespace is ours, by its number, or a descendant of it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # of another user, or gone
    try:
        for _ in range(MAX_DEPTH):
            if os.fstat(fd).st_ino == own:
                return True
            parent = fcntl.ioctl(fd, NS_GET_PARENT)
            os.close(fd)
            fd = parent
    except OSError:
        pass  # it is none of ours: what is above we may not see
    finally:
        os.close(fd)
    return False
