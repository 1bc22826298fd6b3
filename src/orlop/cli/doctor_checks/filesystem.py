"""Tells what kind of file system a folder is on, and how much room it has.

Read by `up` and `doctor`, which print it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

# File systems that other hosts see too, by the names the kernel gives them.
SHARED = frozenset(
    (
        *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "fuse.ceph", "glusterfs"),
        *("fuse.glusterfs", "cifs", "smb3", "afs", "orangefs", "pvfs2", "panfs", "wekafs"),
        *("quobyte", "ocfs2", "gfs2", "9p", "virtiofs"),
    )
)


@dataclass(frozen=True, slots=True)
class FileSystem:
    kind: str
    source: str
    free: int
    total: int

    @property
    def is_shared(self) -> bool:
        return self.kind in SHARED

    def __str__(self) -> str:
        return f"{self.kind}, {in_words(self.free)} of {in_words(self.total)} free"


def of(path: Path) -> FileSystem:
    """Return the file system of a path, or of what there is of it."""
    while not path.exists():
        path = path.parent
    sizes = os.statvfs(path)
    kind, source = mount_of(path.resolve(), Path("/proc/self/mountinfo").read_text())
    free, total = sizes.f_bavail * sizes.f_frsize, sizes.f_blocks * sizes.f_frsize
    return FileSystem(kind, source, free, total)


def mount_of(path: Path, mountinfo: str) -> tuple[str, str]:
    """Return the innermost mount's type and source; the last of equals, which hides others.

    Device numbers would be simpler, but those of btrfs are not the ones in mountinfo.
    """
    best, answer = -1, ("unknown", "")
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(_unescaped(before.split()[4]))
        depth = len(point.parts)
        if depth >= best and path.is_relative_to(point):
            kind, source = after.split()[:2]
            best, answer = depth, (kind, _unescaped(source))
    return answer


def _unescaped(text: str) -> str:
    """Decode octal: mountinfo writes spaces and backslashes in it."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def in_words(size: float) -> str:
    """Write a size as `3.2 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
