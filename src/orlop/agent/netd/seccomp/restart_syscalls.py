"""Has the kernel ask again for callers whose question was lost with the netd that had taken it.

Used by the netd supervisor after it has forked the next netd. A call that was received and not
answered waits for ever; a stop and a continue make the kernel ask anew, and the program notices
nothing.
"""

from __future__ import annotations

import os

from ...linux.fast_imports import signal
from ...linux.process import parents
from .bpf import STRICT, TAGGED
from .syscall_numbers import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Optional

# Not asked about, or hardly ever.
_DATA = ("ioctl", "seccomp", "pidfd_open", "pidfd_getfd", "setsockopt", "socketpair")
# Asked about at some descriptors only.
_PLAIN = {"read": TAGGED, "readv": TAGGED, "write": STRICT, "writev": STRICT}


def ask_again(leaders: Iterable[int], others: Iterable[int] = (), but: int = 0) -> list[int]:
    """Wake those below `leaders` that are in a call netd answers; return their numbers.

    `others` are looked at themselves, too.
    """
    asked = {number: _PLAIN.get(name) for name, number in calls().items() if name not in _DATA}
    known = {*_below([*leaders, *others]), *others}
    found = [pid for pid in known if pid != but and _is_waiting(pid, asked)]
    for pid in found:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
    return found


def _below(leaders: list[int]) -> list[int]:
    begun = parents()
    children: dict[int, list[int]] = {}
    for pid, parent in begun.items():
        children.setdefault(parent, []).append(pid)
    found, waiting = [], list(leaders)
    while waiting:
        some = children.pop(waiting.pop(), [])
        found += some
        waiting += some
    return found


def _is_waiting(pid: int, asked: dict[int, Optional[range]]) -> bool:
    """Return whether a thread of the process is in one of the calls."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/syscall") as file:
                words = file.read().split(" ", 2)
            if not words[0].isdigit() or int(words[0]) not in asked:
                continue
            places = asked[int(words[0])]
            if places is None or int(words[1], 16) in places:
                return True
    except OSError:
        pass  # gone, or not ours to look into
    return False
