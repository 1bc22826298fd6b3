"""Makes the pod's sandbox: user, mount, ipc and uts namespaces, and one of process numbers.

Entered once by `main`, before any thread exists. Inside, the agent is root over what its user owns,
and may mount; where the kernel does not let an ordinary user make namespaces, the agent goes on
without and `problem` says so. The node's own mounts stay as they are.
"""

from __future__ import annotations

import os

from ..linux import syscalls
from ..linux.fast_imports import value
from ..linux.process import become

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SUBUID, SUBGID = "/etc/subuid", "/etc/subgid"
# These may be mounted over the node's /proc without barring a mount of our own.
_HARMLESS_BELOW_PROC = ("/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd")


# Where it is 1, a user namespace can be made and then gives no rights: too late to turn back.
APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_RESTRICTED = (
    "user namespaces are of no use on this node (AppArmor); ask the site for "
    "kernel.apparmor_restrict_unprivileged_userns=0"
)


@value
class Sandbox:
    uid: int  # the user's own, outside
    gid: int
    is_isolated: bool  # user, mount, ipc and uts namespaces
    has_id_range: bool  # more ids than one are mapped
    has_own_pids: bool  # children live in a process namespace that dies with its first
    problem: str = ""
    has_own_ipc: bool = True


def enter(hostname: str, shared: Sequence[str] = ()) -> Sandbox:
    """Move this process, which must have one thread, into the pod's namespaces.

    `shared` may name what the pod is to have of its node: hostPids, hostIpc.
    """
    uid, gid = os.getuid(), os.getgid()
    if _reads(APPARMOR, "1"):
        return Sandbox(uid, gid, False, False, False, _RESTRICTED)
    own_pids, own_ipc = "hostPids" not in shared and _proc_is_whole(), "hostIpc" not in shared
    maps = _IdMaps(uid, gid)
    flags = syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS
    flags |= syscalls.CLONE_NEWUTS | (syscalls.CLONE_NEWIPC if own_ipc else 0)
    try:
        syscalls.unshare(flags | (syscalls.CLONE_NEWPID if own_pids else 0))
    except OSError as error:
        maps.abandon()
        return Sandbox(uid, gid, False, False, False, _denied(error))
    has_range = maps.write()
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_SLAVE)
    syscalls.sethostname(hostname)
    return Sandbox(uid, gid, True, has_range, own_pids, has_own_ipc=own_ipc)


def _reads(path: str, text: str) -> bool:
    try:
        with open(path) as file:
            return file.read().strip() == text
    except OSError:
        return False


def _denied(error: OSError) -> str:
    remedy = "ask the site for user.max_user_namespaces > 0 and kernel.unprivileged_userns_clone=1"
    return f"user namespaces are not permitted on this node ({error.strerror}); {remedy}"


def _proc_is_whole() -> bool:
    """Return whether the kernel lets us mount a /proc: not where parts of it are hidden."""
    with open("/proc/self/mountinfo", "rb") as file:
        points = [line.split(b" ", 5)[4].decode() for line in file]
    below = [point for point in points if point.startswith("/proc/")]
    return all(point in _HARMLESS_BELOW_PROC for point in below)


def _range_of(path: str, names: list[str]) -> tuple[int, int] | None:
    """Return the first range of subordinate ids that a file gives the user, by name or number."""
    try:
        with open(path) as file:
            lines = [line.strip().split(":") for line in file]
    except OSError:
        return None
    for words in lines:
        if len(words) == 3 and words[0] in names and int(words[2]) > 0:
            return int(words[1]), int(words[2])
    return None


class _IdMaps:
    """Writes the id maps of this process: a whole range by the setuid helpers, or one id.

    The helpers must be outside the new user namespace, so they are forked before it is made and
    wait for it.
    """

    def __init__(self, uid: int, gid: int) -> None:
        self._uid, self._gid = uid, gid
        self._helpers: list[tuple[str, int]] = []
        self._read_end, self._write_end = os.pipe()
        if os.path.exists(SUBUID) and os.path.exists(SUBGID):
            self._fork_helpers()
        os.close(self._read_end)

    def _fork_helpers(self) -> None:
        import pwd

        names = [str(self._uid)]
        try:
            names.append(pwd.getpwuid(self._uid).pw_name)
        except KeyError:
            pass
        for program, path, own in (
            ("newuidmap", SUBUID, self._uid),
            ("newgidmap", SUBGID, self._gid),
        ):
            found = _range_of(path, names)
            if found is None:
                return
            start, count = found
            words = [str(n) for n in (os.getpid(), 0, own, 1, 1, start, count)]
            self._helpers.append((program, self._fork([program, *words])))

    def _fork(self, argv: list[str]) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                os.close(self._write_end)
                if os.read(self._read_end, 1):
                    become(argv, os.environ, os.environ.get("PATH", os.defpath))
            finally:
                os._exit(127)
        return pid

    def abandon(self) -> None:
        """Close the pipe, so that the helpers end: there is no namespace to map."""
        os.close(self._write_end)
        for _, pid in self._helpers:
            os.waitpid(pid, 0)

    def write(self) -> bool:
        """Map ids; return True when a whole range is mapped."""
        if self._helpers:
            os.write(self._write_end, b"gg")
        os.close(self._write_end)
        done = {program: os.waitpid(pid, 0)[1] == 0 for program, pid in self._helpers}
        if not done.get("newgidmap"):
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/gid_map", f"0 {self._gid} 1")
        if not done.get("newuidmap"):
            _write("/proc/self/uid_map", f"0 {self._uid} 1")
        return len(done) == 2 and all(done.values())


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
