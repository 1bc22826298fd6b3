"""Writes private files all or nothing, reads files warily, removes whole trees.

Used wherever a secret is written, or a file that another process may read at any moment, and
wherever somebody else says which file is read. A half-written file is not seen under the name that
others read, and a pipe or a device is refused, not waited for.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

_DEEPEST = 64  # folders entered at once while a tree is removed


def write_private(path: Path, data: bytes | str, *, mode: int = 0o600) -> None:
    """Replace `path` by `data`, durably; not for a moment readable by others than `mode` says."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_regular(path: Path | str) -> io.BufferedReader:
    """Open a regular file to read; OSError for a pipe or a device, which are not opened."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        mode = os.fstat(place).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "expected a regular file", str(path))
        return open(f"/proc/self/fd/{place}", "rb")
    finally:
        os.close(place)


def read_regular(path: Path | str, most: int) -> bytes:
    """Read all of a regular file; raise OSError for one that is larger than that."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"expected at most {most} bytes", str(path))
    return data


def remove_below(name: str, parent: int) -> None:
    """Remove a folder of an open one, with all in it, whatever its modes and however deep.

    It works by descriptors: a link that somebody lays meanwhile leads nowhere. What is very deep is
    moved to the top first, so that neither descriptors nor the stack run out.
    """
    top = _opened(name, parent)
    try:
        while _empty(top, top, 0):
            pass
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _empty(folder: int, top: int, depth: int) -> bool:
    """Remove all in a folder; return whether there was anything."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            continue
        below = _opened(name, folder)
        try:
            if depth < _DEEPEST:
                _empty(below, top, depth + 1)
        finally:
            os.close(below)
        if depth < _DEEPEST:
            os.rmdir(name, dir_fd=folder)
        else:
            os.rename(name, os.urandom(16).hex(), src_dir_fd=folder, dst_dir_fd=top)
    return bool(found)


def _opened(name: str, parent: int) -> int:
    """Open a folder so that we may list and write it, whatever its mode was."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    path = os.open(name, os.O_PATH | flags, dir_fd=parent)
    try:
        if stat.S_IMODE(os.fstat(path).st_mode) & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{path}", 0o700)
        return os.open(f"/proc/self/fd/{path}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(path)
