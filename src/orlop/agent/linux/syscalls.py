"""Calls the system calls that Python 3.9 has no function for, through ctypes.

Used by whatever makes namespaces and mounts. Each call raises OSError with the path it was about.
"""

from __future__ import annotations

import ctypes
import errno
import os

from .fast_imports import value

CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_NODIRATIME = 0x800
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MS_RELATIME = 0x200000
MNT_DETACH = 0x2

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_SYS_MOUNT_SETATTR = 442  # the same number on every architecture
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1

_SYS_OPENAT2 = 437
_SYS_PIDFD_GETFD = 438
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
# Of one thread, where the C library's functions change all of a process: x86-64, aarch64.
_OF_THREADS = {
    "setgroups": (116, 159),
    "setresuid": (117, 147),
    "setresgid": (119, 149),
    "capget": (125, 90),
    "capset": (126, 91),
}
_CAPABILITY_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
# Looked up here and now: in a fork of an agent with threads the loader's lock may be held for ever.
for _name in ("unshare", "setns", "sethostname", "mount", "umount2", "pivot_root", "prctl"):
    getattr(_libc, _name)
_libc.syscall  # noqa: B018


def _check(result: int, path: str = "") -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path or None)
    return result


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags))


def setns(fd: int) -> None:
    """Enter the namespace of an open file of /proc/<pid>/ns."""
    _check(_libc.setns(fd, 0))


def sethostname(name: str) -> None:
    raw = name.encode()
    _check(_libc.sethostname(raw, len(raw)))


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Call mount(2); the error names the target."""
    _check(
        _libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() or None,
            ctypes.c_ulong(flags),
            os.fsencode(options) or None,
        ),
        target,
    )


def bind(source: str, target: str, *, recursive: bool = True) -> None:
    mount(source, target, flags=MS_BIND | (MS_REC if recursive else 0))


def umount(target: str) -> None:
    """Detach `target` and all below it; those who still use it may finish."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def pivot_root(new_root: str) -> None:
    """Make `new_root`, a mount point, the root of this mount namespace; the old one is gone."""
    os.chdir(new_root)
    _check(_libc.pivot_root(b".", b"."), new_root)
    umount(".")
    os.chdir("/")


def make_read_only(path: str) -> None:
    """Make a mount and all mounts below it read-only (Linux 5.12), else the mount alone."""
    try:
        make_all_read_only(path)
    except OSError:
        flags = MS_BIND | MS_REMOUNT | MS_RDONLY | _locked_flags(path)
        mount("none", path, flags=flags)


def make_all_read_only(path: str) -> None:
    """Make a mount and all mounts below it read-only; OSError before Linux 5.12."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(path),
        _AT_RECURSIVE,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _check(int(result), path)


def _locked_flags(path: str) -> int:
    """Return the flags a mount has already: in a user namespace a remount must name them."""
    have = os.statvfs(path).f_flag
    pairs = (
        (os.ST_NOSUID, MS_NOSUID),
        (os.ST_NODEV, MS_NODEV),
        (os.ST_NOEXEC, MS_NOEXEC),
        (os.ST_NOATIME, MS_NOATIME),
        (os.ST_NODIRATIME, MS_NODIRATIME),
        (os.ST_RELATIME, MS_RELATIME),
    )
    return sum(flag for bit, flag in pairs if have & bit)


def open_beneath(folder: int, path: str) -> int:
    """Open what is in a folder with O_PATH and return the descriptor; EXDEV if a link leads out.

    NotImplementedError before Linux 5.6.
    """
    flags = os.O_PATH | os.O_CLOEXEC
    how = (ctypes.c_uint64 * 3)(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    result = _libc.syscall(_SYS_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), size)
    if result < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        raise NotImplementedError("openat2")  # EPERM: a filter that does not know it
    return _check(result, path)


@value
class Rights:
    """The rights of a thread over files; groups in order, capabilities as a mask."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    effective: int


def become_in_thread(wanted: Rights) -> None:
    """Take rights for the rest of the calling thread's life, and in no others."""
    if tuple(sorted(os.getgroups())) != wanted.groups:
        groups = (ctypes.c_uint32 * len(wanted.groups))(*wanted.groups)
        _thread_call("setgroups", len(wanted.groups), ctypes.byref(groups))
    for name, number in (("setresgid", wanted.gid), ("setresuid", wanted.uid)):
        _thread_call(name, *[ctypes.c_uint32(number)] * 3)
    head, data = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _thread_call("capget", ctypes.byref(head), ctypes.byref(data))
    for half in (0, 3):  # effective, permitted, inheritable; of the first 32, then of the rest
        mask = wanted.effective >> (32 if half else 0) & data[half + 1]
        data[half : half + 3] = [mask, mask, 0]
    _thread_call("capset", ctypes.byref(head), ctypes.byref(data))


def _thread_call(name: str, *args: object) -> None:
    column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
    _check(int(_libc.syscall(_OF_THREADS[name][column], *args)))


def descriptor_of(process: int, number: int) -> int:
    """Copy what another process has open, by a descriptor of that process (Linux 5.6)."""
    return _check(int(_libc.syscall(_SYS_PIDFD_GETFD, process, number, 0)))


def die_with_parent(number: int) -> None:
    """Ask for signal `number` when the process that forked us ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def no_new_privileges() -> None:
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def confine(code: bytes) -> None:
    """Put a seccomp filter before this process and all that come of it; with no_new_privs."""
    program = _Filter(len(code) // 8, code)
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0))


def drop_from_bounding_set(capability: int) -> bool:
    """Drop a capability; return False when the kernel knows no such one."""
    return int(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)) == 0
