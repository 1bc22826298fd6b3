"""Finds NFS exports that the node has mounted already, for volumes of NFS.

Asked by `volumes`. An ordinary user cannot mount an export, but what the site mounts on its nodes
can be bound into a pod: the same server, and a path at or below the one that was mounted.
"""

from __future__ import annotations

import os

MOUNTINFO = "/proc/self/mountinfo"


def mounted(server: str, path: str, mountinfo: str) -> str:
    """Return the folder of this node that is `server:path`; empty where it is not mounted."""
    best, found = -1, ""
    wanted = os.path.normpath(path)
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        words, source = before.split(" "), after.split(" ")
        if len(words) < 5 or len(source) < 2 or source[0] not in ("nfs", "nfs4"):
            continue
        host, _, export = _plain(source[1]).rpartition(":")
        # What is bound elsewhere is only the part of the export that the fourth field names.
        export = os.path.normpath(export + "/" + _plain(words[3]).lstrip("/"))
        if host.strip("[]") != server.strip("[]") or not _is_below(wanted, export):
            continue
        if len(export) > best:
            best = len(export)
            rest = os.path.relpath(wanted, export)
            found = os.path.normpath(os.path.join(_plain(words[4]), rest))
    return found


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _plain(text: str) -> str:
    """Return a path without the octal escapes that the kernel writes for spaces and the like."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


_KIB = {"Ki": 1, "Mi": 1 << 10, "Gi": 1 << 20, "K": 1, "M": 1 << 10, "G": 1 << 20}


def huge_pages(size: str, mountinfo: str) -> list[str]:
    """Return where pages of a size are mounted, e.g. `2Mi`; of any size where none is given."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = (*after.split(" ", 2), "", "")[:3]
        if kind == "hugetlbfs" and (not size or _kib(size) in _page_sizes(options)):
            found.append(_plain(before.split(" ")[4]))
    return found


def _page_sizes(options: str) -> list[int]:
    """Return the page sizes of a mount; the kernel writes them in its own units: 1Gi is 1024M."""
    words = [option.partition("=") for option in options.split(",")]
    return [_kib(size) for name, _, size in words if name == "pagesize"]


def _kib(text: str) -> int:
    digits = text.rstrip("KMGi")
    return int(digits or 0) * _KIB.get(text[len(digits) :], 0)
