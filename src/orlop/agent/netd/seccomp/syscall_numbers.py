"""The numbers of the system calls the network is about, for each architecture.

Read by the filter and by netd.
"""

from __future__ import annotations

import os

# Calls: x86-64, aarch64.
_CALLS = {
    "read": (0, 63),
    "write": (1, 64),
    "ioctl": (16, 29),
    "readv": (19, 65),
    "writev": (20, 66),
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "bind": (49, 200),
    "listen": (50, 201),
    "getsockname": (51, 204),
    "getpeername": (52, 205),
    "socketpair": (53, 199),
    "setsockopt": (54, 208),
    "accept4": (288, 242),
    "recvmmsg": (299, 243),
    "sendmmsg": (307, 269),
    "seccomp": (317, 277),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
}
IO_URING = (425, 426, 427)  # setup, enter, register; the same everywhere

_COLUMNS = {"x86_64": 0, "aarch64": 1}
# linux/audit.h: what the filter sees of the architecture that a call is made for.
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000  # set in the numbers of calls of x86-64 programs with short pointers
# What 32-bit programs on the same machine make sockets, speak and make rings by: first and last of
# each run of numbers. A program of 64 bits can make these calls, too.
_RINGS = (min(IO_URING), max(IO_URING))
COMPAT = {
    "x86_64": ((102, 102), (337, 337), (345, 345), (359, 373), (417, 417), _RINGS),
    "aarch64": ((281, 297), (364, 366), (374, 374), (417, 417), _RINGS),
}


def calls(machine: str = "") -> dict[str, int]:
    """Return name -> number; raise OSError on an architecture that we do not know."""
    machine = machine or os.uname().machine
    if machine not in _COLUMNS:
        raise OSError(f"the pod network knows {', '.join(_COLUMNS)}, and this is {machine}")
    column = _COLUMNS[machine]
    return {name: numbers[column] for name, numbers in _CALLS.items()}
