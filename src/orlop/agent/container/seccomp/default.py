"""The profile RuntimeDefault: refuses what containerd's and Docker's own profiles refuse.

Made by the agent for a container that asks for it. Everything that Linux has today is allowed, but
for what an administrator of the machine needs, or what has been a way out of containers; with a
capability comes what it is for. Of calls that are newer than this list the container is told that
they do not exist, so that programs do without.
"""

from __future__ import annotations

from .calls import numbers
from .profile import EPERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ALLOW, ERRNO = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"
ENOSYS = 38
# Capability -> calls that are refused without it; as containerd's contrib/seccomp.
PRIVILEGED = {
    "CAP_BPF": "bpf",
    "CAP_DAC_READ_SEARCH": "open_by_handle_at",
    "CAP_PERFMON": "perf_event_open",
    "CAP_SYS_ADMIN": "bpf fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount "
    "mount_setattr move_mount open_tree open_tree_attr perf_event_open quotactl quotactl_fd "
    "setdomainname sethostname setns syslog umount umount2 unshare pivot_root listmount statmount",
    "CAP_SYS_BOOT": "reboot",
    "CAP_SYS_CHROOT": "chroot",
    "CAP_SYS_MODULE": "delete_module init_module finit_module query_module create_module",
    "CAP_SYS_NICE": "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    "CAP_SYS_PACCT": "acct",
    "CAP_SYS_PTRACE": "kcmp pidfd_getfd process_madvise",
    "CAP_SYS_RAWIO": "iopl ioperm",
    "CAP_SYS_TIME": "settimeofday clock_settime clock_adjtime adjtimex",
    "CAP_SYS_TTY_CONFIG": "vhangup",
    "CAP_SYSLOG": "syslog",
}
NEVER = (
    "add_key keyctl request_key kexec_load kexec_file_load swapon swapoff nfsservctl uselib ustat "
    "sysfs _sysctl userfaultfd move_pages migrate_pages get_kernel_syms vserver afs_syscall "
    "getpmsg putpmsg security tuxcall io_uring_setup io_uring_enter io_uring_register"
)
CLONE_NEW = 0x7E020000  # every new namespace
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
EQUAL, MASKED = "SCMP_CMP_EQ", "SCMP_CMP_MASKED_EQ"
AF_VSOCK = 40  # reaches the machine below a virtual one
_BY_ARGUMENT = ("clone", "clone3", "personality", "socket")


def default(machine: str, held: list[str]) -> dict[str, Any]:
    """Return the profile for a container with these capabilities."""
    allowed = {name for cap in held for name in PRIVILEGED.get(cap, "").split()}
    refused = {*NEVER.split(), *(n for names in PRIVILEGED.values() for n in names.split())}
    refused -= allowed
    known = numbers(machine)
    is_admin = "CAP_SYS_ADMIN" in held
    free = [n for n in known if n not in refused and (is_admin or n not in _BY_ARGUMENT)]
    rules: list[dict[str, Any]] = [
        {"names": free, "action": ALLOW},
        {"names": sorted(refused & known.keys()), "action": ERRNO, "errnoRet": EPERM},
    ]
    return {
        "defaultAction": ERRNO,
        "defaultErrnoRet": ENOSYS,
        "syscalls": rules if is_admin else rules + _by_argument(),
    }


def _by_argument() -> list[dict[str, Any]]:
    """Return the rules for calls that are allowed for some of their arguments.

    There is no rule for the rest, which libseccomp would take as one for all arguments.
    """
    is_vsock = {"index": 0, "value": AF_VSOCK}
    allowed = [
        ("clone", {"index": 0, "value": CLONE_NEW, "valueTwo": 0, "op": MASKED}),
        ("socket", {**is_vsock, "op": "SCMP_CMP_NE"}),
        *(("personality", {"index": 0, "value": v, "op": EQUAL}) for v in PERSONALITIES),
    ]
    flags = [1 << bit for bit in range(32) if CLONE_NEW >> bit & 1]
    refused = [
        ("socket", {**is_vsock, "op": EQUAL}),
        *(("clone", {"index": 0, "value": f, "valueTwo": f, "op": MASKED}) for f in flags),
    ]
    return [
        *({"names": [name], "action": ALLOW, "args": [test]} for name, test in allowed),
        *(
            {"names": [name], "action": ERRNO, "errnoRet": EPERM, "args": [test]}
            for name, test in refused
        ),
        # Its flags are in memory, where no filter looks: programs then use clone.
        {"names": ["clone3"], "action": ERRNO, "errnoRet": ENOSYS},
    ]
