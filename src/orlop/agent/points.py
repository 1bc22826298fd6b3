"""Places to mount on: made inside a root that is not ours, without leaving it.

Used by runtimes that mount on what exists already. Links in the root are followed as a process
inside it would see them, so that a link in an image never leads to the node.
"""

from __future__ import annotations

import os

from .volumes import Bind, absolute

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
    """Make a folder or an empty file at `path` in `root`, unless it is there; where it is."""
    real = inside(root, path)
    if is_folder:
        os.makedirs(real, exist_ok=True)
    elif not os.path.lexists(real):
        os.makedirs(os.path.dirname(real), exist_ok=True)
        os.close(os.open(real, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    return real


def inside(root: str, path: str) -> str:
    """The real place of `path` for a process whose root is `root`."""
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
