"""Handles files and folders that a container, or another user, may change while we use them.

Used by whatever of the agent reads, opens or removes what others may change, with rights that a
container does not have. No link is followed, no pipe or device is waited for, and what was looked
at is what is used.
"""

from __future__ import annotations

import os
import stat

_DEEPEST = 64  # folders entered at once while a tree is removed
_MOST_LINKS = 40  # the kernel's
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_text(path: str, most: int, folder: int | None = None) -> str:
    """Read a small regular file, by its last name; raise OSError for what is none, or larger."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(22, "expected a regular file", path)
        data = b""
        while len(data) <= most and (part := os.read(fd, most + 1 - len(data))):
            data += part
    finally:
        os.close(fd)
    if len(data) > most:
        raise OSError(27, f"expected at most {most} bytes", path)
    return data.decode(errors="surrogateescape")


def open_inside(root: str, path: str, make: str = "") -> int:
    """Open a path with O_PATH as a process whose root is `root` would find it.

    Links are followed inside the root, step by step by descriptors: who exchanges one meanwhile
    leads nobody out of it. `make` is `folder` or `file`: what is missing at the end is made as one,
    and what is missing on the way as folders.
    """
    way = [os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
    todo = _parts(path)
    links = 0
    try:
        while todo:
            part = todo.pop()
            if part == "..":
                _back(way)
                continue
            kind = "" if not make else "folder" if todo else make
            found = _step(part, way[-1], kind)
            mode = os.fstat(found).st_mode
            if not stat.S_ISLNK(mode):
                way.append(found)
                continue
            try:
                target = os.readlink("", dir_fd=found)
            finally:
                os.close(found)
            links += 1
            if links > _MOST_LINKS:
                raise OSError(40, "too many levels of symbolic links", path)
            while target.startswith("/") and len(way) > 1:
                _back(way)
            todo += _parts(target)
        return way.pop()
    finally:
        for fd in way:
            os.close(fd)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")][::-1]


def _back(way: list[int]) -> None:
    if len(way) > 1:
        os.close(way.pop())


def _step(name: str, folder: int, make: str) -> int:
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    try:
        if make == "folder":
            os.mkdir(name, dir_fd=folder)
        else:
            new = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(name, new, 0o644, dir_fd=folder))
    except FileExistsError:
        pass  # somebody was quicker; what it is, we shall see
    return os.open(name, flags, dir_fd=folder)


def read_inside(root: str, path: str, most: int) -> str:
    """Read a small regular file in a root that is not ours; empty where there is none."""
    try:
        fd = open_inside(root, path)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return ""
            with open(f"/proc/self/fd/{fd}", "rb") as file:
                return file.read(most).decode(errors="replace")
        finally:
            os.close(fd)
    except OSError:
        return ""


def open_pipe(name: str, way: int, folder: int) -> int:
    """Open a named pipe in a folder; raise OSError for what somebody has put in its place."""
    fd = os.open(name, way | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(22, "expected a pipe", name)
    return fd


def make_pipe(name: str, folder: int) -> None:
    """Make a named pipe that every user may read and write, whatever our own umask."""
    os.mkfifo(name, 0o600, dir_fd=folder)
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.chmod(f"/proc/self/fd/{fd}", 0o666)
    finally:
        os.close(fd)


def remove_tree(path: str) -> None:
    """Remove a folder and all below it, as far as we may; by descriptors.

    A link that somebody lays meanwhile leads nowhere. What is very deep is moved to the top first.
    """
    parent, name = os.path.split(path)
    try:
        base = os.open(parent or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        top = _opened(name, base)
        try:
            while _empty(top, top, 0):
                pass
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=base)
    except OSError:
        pass
    finally:
        os.close(base)


def _empty(folder: int, top: int, depth: int) -> bool:
    """Remove all that can be in a folder; return whether there is more to do at the top."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    has_moved = False
    for name, is_folder in found:
        try:
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif depth >= _DEEPEST:
                os.rename(name, os.urandom(16).hex(), src_dir_fd=folder, dst_dir_fd=top)
                has_moved = True
            else:
                has_moved = _remove(name, folder, top, depth) or has_moved
        except OSError:
            pass  # it is in use, or somebody else's
    return has_moved


def _remove(name: str, folder: int, top: int, depth: int) -> bool:
    below = _opened(name, folder)
    try:
        has_moved = _empty(below, top, depth + 1)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=folder)
    return has_moved


def _opened(name: str, parent: int) -> int:
    """Open a folder that we may list and write, whatever its mode: overlays leave one of none."""
    try:
        fd = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=parent)
    except PermissionError:
        _allow(name, parent)
        fd = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=parent)
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) & 0o700 != 0o700:
            os.fchmod(fd, 0o700)
    except OSError:
        pass  # somebody else's; its modes may do
    return fd


def _allow(name: str, parent: int) -> None:
    """Let us list a folder of ours.

    By /proc, since the kernel takes no descriptor of what may not be read; the agent's outer
    process has none of its own there, but is root in its namespace and needs no permission.
    """
    path = os.open(name, os.O_PATH | _FOLDER, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{path}", 0o700)
    finally:
        os.close(path)
