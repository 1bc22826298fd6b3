"""Gives the first rank of a set its terminal, where the container asks for one.

Used by the starter. Whose terminal it is must begin a session, which what Slurm starts cannot: it
leads a group already. So a child becomes the rank, and what Slurm started waits and ends as that
does. The terminal's other end is the agent's.
"""

from __future__ import annotations

import fcntl
import os
import termios

from ..linux.fast_imports import signal


def stand_before() -> None:
    """Go on in a child with a session of its own; the parent ends as the child does."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        return
    # What Slurm sends to a step it sends to all of its processes: the rank is to heed it.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        cause = os.WTERMSIG(status)
        if cause != signal.SIGKILL:
            signal.signal(cause, signal.SIG_DFL)
        os.kill(os.getpid(), cause)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [cause])
    os._exit(os.WEXITSTATUS(status))


def take(fd: int) -> None:
    """Make it the terminal of this session, and all three standard streams."""
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)
    for stream in (0, 1, 2):
        os.dup2(fd, stream)
    os.close(fd)
