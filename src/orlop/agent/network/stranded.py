"""Callers whose question went down with the netd that had taken it.

Looked for by the keeper before it forks the next one. A call that was received and not answered
waits for ever; a stop and a continue make the kernel ask anew, and the program notices nothing.
"""

from __future__ import annotations

import os

from ..lean import signal
from ..process import children
from .numbers import calls

_DATA = ("ioctl", "seccomp", "pidfd_open", "pidfd_getfd")  # not asked about, or hardly ever


def ask_again(leader: int, but: int = 0) -> list[int]:
    """Wake those below `leader` that are in a call netd answers; their numbers."""
    asked = {number for name, number in calls().items() if name not in _DATA}
    found = [pid for pid in _below(leader) if pid != but and _is_waiting(pid, asked)]
    for pid in found:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
    return found


def _below(leader: int) -> list[int]:
    found, waiting = [], [leader]
    while waiting:
        some = children(waiting.pop())
        found += some
        waiting += some
    return found


def _is_waiting(pid: int, asked: set[int]) -> bool:
    """Whether a thread of the process is in one of the calls."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/syscall") as file:
                word = file.read().split(" ", 1)[0]
            if word.isdigit() and int(word) in asked:
                return True
    except OSError:
        pass  # gone, or not ours to look into
    return False
