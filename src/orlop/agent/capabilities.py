"""Which capabilities a container has that asks for nothing, by name and by number.

Read by the runtimes. Root in a container is root over what the pod's user owns and over nothing
of the node's.
"""

from __future__ import annotations

# containerd's default set (pkg/cap), with the numbers of linux/capability.h.
DEFAULT = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SETPCAP": 8,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_NET_RAW": 13,
    "CAP_SYS_CHROOT": 18,
    "CAP_MKNOD": 27,
    "CAP_AUDIT_WRITE": 29,
    "CAP_SETFCAP": 31,
}
COUNT = 64  # numbers the kernel may know one day; it refuses those it does not


def mask(numbers: list[int]) -> int:
    """The set as capset takes it."""
    return sum(1 << number for number in numbers)


def others() -> list[int]:
    """The numbers that are not in the default set."""
    return [number for number in range(COUNT) if number not in DEFAULT.values()]
