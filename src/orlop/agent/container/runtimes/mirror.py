"""Makes the node's own root with mount points that the node does not have.

For `image: host`. An ordinary user cannot make folders in / or /dev; so a folder that lacks a mount
point is rebuilt in memory, each of its entries bound to the node's own, and the new point beside
them. The result is seen by the container that asked.
"""

from __future__ import annotations

import os
import stat

from ...linux import syscalls
from ...pod.volumes import Bind
from ..mountpoints import inside, make_point

MAX_ENTRIES = 2000  # each costs a mount


def mirror_root(path: str, binds: list[Bind]) -> str:
    """Make the new folder `path` a view of / that has every mount point; return `path`."""
    os.mkdir(path, 0o755)
    syscalls.bind("/", path)
    own: set[int] = set()  # devices of what is rebuilt
    for number, bind in enumerate(binds):
        if not any(bind.path.startswith(outer.path + "/") for outer in binds[:number]):
            _make_place(path, bind, own)
        else:
            outer = max(
                (o for o in binds[:number] if bind.path.startswith(o.path + "/")),
                key=lambda found: len(found.path),
            )
            rest = bind.path[len(outer.path) :]
            make_point(outer.source, rest, os.path.isdir(bind.source))
    return path


def _make_place(root: str, bind: Bind, own: set[int]) -> None:
    """Make a mount point at bind.path; rebuild the deepest folder that exists on the way."""
    place = inside(root, bind.path)  # /var/run is a link to /run: ours, not the node's
    folder = place
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if folder == place:
        return
    if os.stat(folder).st_dev not in own:
        rebuild(folder)
        own.add(os.stat(folder).st_dev)
    make_point(folder, place[len(folder) :], os.path.isdir(bind.source))


def rebuild(folder: str) -> None:
    """Cover a folder with a copy in memory whose entries are the node's own."""
    original = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    mode = stat.S_IMODE(os.fstat(original).st_mode)
    try:
        syscalls.mount("mirror", folder, "tmpfs", 0, f"mode={mode:04o}")
        fill(folder, f"/proc/self/fd/{original}")
    finally:
        os.close(original)


def fill(folder: str, original: str) -> None:
    """Bind every entry of `original` into `folder`; links are made anew.

    Devices that are not for us are left out: most of /dev, and each would cost a mount.
    """
    entries = list(os.scandir(original))
    if len(entries) > MAX_ENTRIES:
        raise OSError(28, f"too many entries beside a new mount point ({len(entries)})", folder)
    for entry in entries:
        target = os.path.join(folder, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
            continue
        if _is_closed_device(entry.path):
            continue
        make_point(folder, entry.name, entry.is_dir(follow_symlinks=False))
        try:
            syscalls.bind(entry.path, target)
        except OSError:
            pass  # the node does not show it to its users either, e.g. a dead mount


def _is_closed_device(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False  # a dead mount, another user's, or just gone: no reason not to start
    if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        return False
    return not (os.access(path, os.R_OK) or os.access(path, os.W_OK))
