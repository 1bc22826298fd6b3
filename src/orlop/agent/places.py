"""The pod's folders on its node: made at the start, gone at the end.

Used by `main`. A folder in node-local scratch for what may be large, a tmpfs in it that nobody
outside the sandbox sees for all else. What a killed agent had to leave is removed by the next
agent of the same user on the node.
"""

from __future__ import annotations

import fcntl
import os

from . import syscalls
from .lean import value
from .plan import Plan
from .sandbox import Sandbox
from .volumes import remove_tree

EPHEMERAL = "ephemeral-storage"


class NoRoom(Exception):
    """The node's disk cannot hold what the pod asks room for; as the kubelet's admission."""


@value
class Places:
    base: str  # node-local scratch, shared with others
    scratch: str  # ours in it
    disk: str  # part of that for what may be large
    memory: str  # a tmpfs, where we may mount


def make_places(plan: Plan, sandbox: Sandbox) -> Places:
    """Folders for this pod alone; locked as long as the agent lives."""
    base = plan.scratch or os.environ.get("TMPDIR") or "/tmp"
    name = f"orlop-{sandbox.uid}-{plan.pod.uid}-{os.urandom(4).hex()}"
    scratch, unlocked = os.path.join(base, name), os.path.join(base, "." + name)
    os.mkdir(unlocked, 0o700)
    fcntl.flock(os.open(unlocked, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_EX)
    os.rename(unlocked, scratch)  # only now would a sweep see it
    places = Places(base, scratch, os.path.join(scratch, "disk"), os.path.join(scratch, "memory"))
    os.mkdir(places.disk, 0o755)
    os.mkdir(places.memory, 0o755)
    if sandbox.is_isolated:
        syscalls.mount("tmpfs", places.memory, "tmpfs", syscalls.MS_NODEV, "mode=0755")
    return places


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
    """Leave nothing on the node."""
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
