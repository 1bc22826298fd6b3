"""Makes mount points inside a root that is not ours, without leaving it.

Used by runtimes that mount on what exists already. Links in the root are followed as a process
inside it would see them, so that a link in an image leads into that root, and so does one that a
container lays in a volume while we are at it.
"""

from __future__ import annotations

import os
import stat

from ..linux import syscalls
from ..linux.untrusted_files import open_inside
from ..pod.volumes import Bind, absolute

MAX_LINKS = 40  # the kernel's


def make_points(root: str, binds: list[Bind], cwd: str) -> None:
    """Make what each bind is mounted on; `binds` have parents before what is below them.

    And the working directory, which OCI runtimes make too where an image has none.
    """
    points = [*binds, Bind("/proc", "/proc"), Bind("/", absolute(cwd))]
    for number, bind in enumerate(points):
        base, path = root, bind.path
        for outer in points[:number]:
            if path.startswith(outer.path + "/") or outer.path == "/":
                base, path = outer.source, bind.path[len(outer.path) :]
        make_point(base, path, os.path.isdir(bind.source))


def make_point(root: str, path: str, is_folder: bool) -> str:
    """Make a folder or empty file at `path` in `root` unless it is there; return where it is."""
    fd = open_inside(root, path, "folder" if is_folder else "file")
    try:
        if is_folder and not stat.S_ISDIR(os.fstat(fd).st_mode):
            raise FileExistsError(17, os.strerror(17), path)
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


class Placer:
    """Mounts binds in a root: finishes each elsewhere, then moves it to its place at once.

    A path that was looked up is looked up again by mount(2), and a container that shares a volume
    of it may exchange a folder for a link between the two: then the mount would be somewhere on the
    node, and cover what the next ones are taken from.
    """

    def __init__(self, root: str, folder: str) -> None:
        self._root = root
        self._stages = {True: os.path.join(folder, "stage"), False: os.path.join(folder, "staged")}
        self._nothing = os.path.join(folder, "nothing")
        for path in (self._stages[True], self._nothing):
            os.mkdir(path, 0o700)
        os.close(os.open(self._stages[False], os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))

    def place(self, bind: Bind) -> None:
        stage = self._stages[os.path.isdir(bind.source)]
        syscalls.bind(bind.source, stage)
        if not bind.propagates:
            syscalls.mount("none", stage, flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
        if bind.read_only:
            syscalls.make_read_only(stage)
        self.move(stage, bind.path)

    def mount_proc(self, flags: int) -> None:
        """Mount the /proc of the process namespace that we are in."""
        stage = self._stages[True]
        syscalls.mount("proc", stage, "proc", flags)
        self.move(stage, "/proc")

    def hide(self, path: str) -> None:
        """Cover a path that a container is not to see, if it is there."""
        fd = self._looked_up(path)
        if fd < 0:
            return
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        os.close(fd)
        self.place(Bind(self._nothing if is_folder else os.devnull, path, True))

    def write_protect(self, path: str) -> None:
        """Make a path read-only that a container is not to change, if it is there."""
        fd = self._looked_up(path)
        if fd < 0:
            return
        try:
            stage = self._stages[stat.S_ISDIR(os.fstat(fd).st_mode)]
            syscalls.bind(f"/proc/self/fd/{fd}", stage)
            syscalls.make_read_only(stage)
        finally:
            os.close(fd)
        self.move(stage, path)

    def _looked_up(self, path: str) -> int:
        try:
            return open_inside(self._root, path)
        except FileNotFoundError:
            return -1

    def move(self, stage: str, path: str) -> None:
        fd = open_inside(self._root, path)
        try:
            syscalls.mount(stage, f"/proc/self/fd/{fd}", flags=syscalls.MS_MOVE)
        finally:
            os.close(fd)


def inside(root: str, path: str) -> str:
    """Return the real path that `path` is for a process whose root is `root`."""
    todo = [part for part in path.split("/") if part][::-1]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            del done[-1:]
        elif part != ".":
            here = os.path.join(root, *done, part)
            if os.path.islink(here):
                links += 1
                if links > MAX_LINKS:
                    raise OSError(40, "too many levels of symbolic links", path)
                target = os.readlink(here)
                done = [] if target.startswith("/") else done
                todo += [word for word in target.split("/") if word][::-1]
            else:
                done.append(part)
    return os.path.join(root, *done)
