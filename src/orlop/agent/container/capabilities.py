"""The capabilities of a container, by name and by number.

Read by the runtimes, and by the kubelet for the names there are. Root in a container is root over
what the pod's user owns and over nothing of the node's, whatever it is given here.
"""

from __future__ import annotations

# linux/capability.h, in its order from 0.
NAMES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
    "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW",
    "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT",
    "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD",
    "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
    "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
)  # fmt: skip
NUMBERS = {name: number for number, name in enumerate(NAMES)}
# containerd's default set (pkg/cap).
DEFAULT = frozenset(
    {
        "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
        "NET_BIND_SERVICE", "NET_RAW", "SYS_CHROOT", "MKNOD", "AUDIT_WRITE", "SETFCAP",
    }
)  # fmt: skip
ALL = "ALL"
COUNT = 64  # numbers the kernel may know one day; it refuses those it does not


def plain(name: str) -> str:
    """Return a capability's name without CAP_; both ways of writing it are in use (CAP_NET_RAW)."""
    upper = name.upper()
    return upper[4:] if upper.startswith("CAP_") else upper


def chosen(add: list[str], drop: list[str]) -> list[int]:
    """Return the numbers of a container's set: the default, less what it drops, plus what it adds.

    As containerd has it: ALL first, in either list, then single names, and what is added wins.
    """
    adds, drops = {plain(name) for name in add}, {plain(name) for name in drop}
    names = set(NAMES) if ALL in adds else set() if ALL in drops else set(DEFAULT)
    names = (names - drops) | (adds - {ALL})
    return sorted(NUMBERS[name] for name in names if name in NUMBERS)


def named(numbers: list[int]) -> list[str]:
    """Return the names of these numbers, as OCI runtimes write them."""
    return [f"CAP_{NAMES[number]}" for number in numbers]


def mask(numbers: list[int]) -> int:
    """Return the set as capset takes it."""
    return sum(1 << number for number in numbers)


def others(numbers: list[int]) -> list[int]:
    """Return the numbers that are not in the set."""
    return [number for number in range(COUNT) if number not in numbers]
