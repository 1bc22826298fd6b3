"""Makes the pod's scratch directories on its node at the start, and removes them at the end.

Used by `main`. A folder in node-local scratch for what may be large, a tmpfs in it that nobody
outside the sandbox sees for all else. What a killed agent had to leave is removed by the next agent
of the same user on the node.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from ..linux import syscalls
from ..linux.fast_imports import value
from ..linux.untrusted_files import remove_tree
from ..plan import Plan
from .sandbox import Sandbox

EPHEMERAL = "ephemeral-storage"
ATTEMPTS = 5


class NoRoom(Exception):
    """Raised where the disk cannot hold what the pod requests; as the kubelet's admission."""


@value
class Places:
    base: str  # node-local scratch, shared with others
    scratch: str  # ours in it
    disk: str  # part of that for what may be large
    memory: str  # a tmpfs, where we may mount


def make_places(plan: Plan, sandbox: Sandbox) -> Places:
    """Make scratch directories for this pod; locked as long as the agent lives."""
    base = plan.scratch or os.environ.get("TMPDIR") or "/tmp"
    _check(base)
    scratch = _own_folder(base, f"orlop-{sandbox.uid}-{plan.pod.uid}")
    places = Places(base, scratch, os.path.join(scratch, "disk"), os.path.join(scratch, "memory"))
    os.mkdir(places.disk, 0o755)
    os.mkdir(places.memory, 0o755)
    if sandbox.is_isolated:
        syscalls.mount("tmpfs", places.memory, "tmpfs", syscalls.MS_NODEV, "mode=0755")
    return places


def _check(base: str) -> None:
    """Raise OSError where anybody could put a folder of theirs in the place of ours."""
    found = os.stat(base)
    is_ours = found.st_uid == os.getuid()
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX and not is_ours:
        words = f"{base} is not safe: everybody may rename what others have there"
        remedy = "name another folder in agent.scratch, or ask the site for `chmod +t`"
        raise OSError(errno.EPERM, f"{words}; {remedy}")


def _own_folder(base: str, name: str) -> str:
    """Make a private folder (0700); by another name where that one was taken."""
    for attempt in range(ATTEMPTS):
        word = f"{name}-{os.urandom(4).hex()}"
        path, unlocked = os.path.join(base, word), os.path.join(base, "." + word)
        os.mkdir(unlocked, 0o700)
        fd = os.open(unlocked, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            os.rename(unlocked, path)  # only now would a sweep see it
            return path
        except OSError:
            os.close(fd)
            os.rmdir(unlocked)
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def check_room(plan: Plan, disk: str) -> None:
    """Raise NoRoom where less is free than the pod's containers request."""
    wanted = int(plan.pod.storage.get("request") or 0)
    if not wanted:
        return
    found = os.statvfs(disk)
    free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    if wanted > free:
        head = f"Node didn't have enough resource: {EPHEMERAL}"
        raise NoRoom(f"{head}, requested: {wanted}, used: {size - free}, capacity: {size}")


def remove_places(places: Places, sandbox: Sandbox) -> None:
    """Remove all of them, so that nothing is left on the node."""
    if sandbox.is_isolated:
        syscalls.umount(places.memory)
    remove_tree(places.scratch)


def sweep(base: str, uid: int) -> None:
    """Remove what agents of this user left that were killed: nobody holds its lock."""
    for name in os.listdir(base):
        if name.startswith(f"orlop-{uid}-"):
            _remove_if_free(os.path.join(base, name))


def _remove_if_free(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        # Never enter what another user made to look like ours: they could move it about.
        if os.fstat(fd).st_uid == os.getuid():
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(path)
    except OSError:
        pass  # it lives
    finally:
        os.close(fd)
