"""Removes images that nobody needs any more, once all of them take too much room.

Used by `cache`. A pod holds an image by a link in `uses/<image>/` to its folder; a link that leads
nowhere holds nothing, so that neither a crash nor a second cluster over the same folder can lose an
image that runs or keep one that does not. The image that was asked for longest ago goes first.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...files import remove_below
from ...log import logger

log = logger(__name__)

USES, SIZE_FILE = "uses", "size"
FRESH = 600.0  # seconds for which a hold counts although its pod's folder is not there yet
PRUNED = 64  # links between two looks for those that hold nothing any more
LOW = 0.8  # of the limit: so much is left, so that not every pull has to clear away


@dataclass(frozen=True, slots=True)
class _Kept:
    folder: Path
    size: int
    last_used: float


def hold(root: Path, name: str, holder: Path) -> None:
    """Note that `holder`, a pod's folder, needs the image of that name as long as it is there."""
    uses = root / USES / name
    uses.mkdir(parents=True, exist_ok=True, mode=0o700)
    link = uses / holder.name
    if link.is_symlink():
        os.utime(uses)
        return
    link.symlink_to(holder)
    held = os.listdir(uses)
    if len(held) % PRUNED == 0:
        _prune(uses, held)


def _prune(uses: Path, names: list[str]) -> None:
    """Take out the links of pods that are gone; those of pods to come are young."""
    for link in map(uses.joinpath, names):
        try:
            if not link.exists() and time.time() - link.lstat().st_mtime > FRESH:
                link.unlink()
        except FileNotFoundError:
            continue


def is_held(root: Path, name: str) -> bool:
    """Return whether a pod that is there, or one that is just being made ready, holds it."""
    uses = root / USES / name
    try:
        is_new = time.time() - uses.stat().st_mtime < FRESH
        return is_new or any(link.exists() for link in uses.iterdir())
    except FileNotFoundError:
        return False


def measure(folder: Path) -> None:
    """Write down how large an unpacked image is: later it costs a walk over all of its files."""
    (folder / SIZE_FILE).write_text(str(_walk(folder)))


def collect(root: Path, limit: int, keep: str = "") -> list[str]:
    """Remove images, but not `keep`, until they fit; return the names of those that went."""
    kept = _kept(root)
    total = sum(image.size for image in kept)
    if total <= limit:
        return []
    gone = []
    for image in sorted(kept, key=lambda image: image.last_used):
        if total <= limit * LOW:
            break
        if image.folder.name != keep and _remove(root, image.folder):
            total -= image.size
            gone.append(image.folder.name)
    if total > limit:
        log.warning("images take more room than they may", used=total, limit=limit, root=root)
    return gone


def _kept(root: Path) -> list[_Kept]:
    folders = [path for path in root.glob("sha256-*") if (path / "image.json").exists()]
    return [_Kept(folder, _size(folder), _last_used(root, folder)) for folder in folders]


def _size(folder: Path) -> int:
    try:
        return int((folder / SIZE_FILE).read_text())
    except (OSError, ValueError):
        return _walk(folder)


def _last_used(root: Path, folder: Path) -> float:
    for path in (root / USES / folder.name, folder / "image.json"):
        try:
            return path.stat().st_mtime
        except FileNotFoundError:
            continue
    return 0.0


def _remove(root: Path, folder: Path) -> bool:
    """Remove an image; return whether it is gone.

    One that somebody takes hold of in this moment is put back.
    """
    if is_held(root, folder.name):
        return False
    away = root / "tmp" / f"{folder.name}.{time.time_ns()}"
    try:
        folder.rename(away)
    except FileNotFoundError:  # another cluster over the same folder was quicker
        return False
    if is_held(root, folder.name):
        try:
            away.rename(folder)
        except OSError:  # it has been pulled anew meanwhile
            remove_tree(away)
        return False
    remove_tree(away)
    shutil.rmtree(root / USES / folder.name, ignore_errors=True)
    return True


def remove_tree(folder: Path) -> None:
    """Remove a tree, also what an image has made unwritable, or unreadable, for its owner."""
    try:
        parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        remove_below(folder.name, parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("cannot remove", folder=folder, error=error)
    finally:
        os.close(parent)


def _walk(folder: Path) -> int:
    """Return the room on the disk, as du counts it; a file of several names once."""
    return sum({entry.st_ino: entry.st_blocks * 512 for entry in _entries(folder)}.values())


def _entries(folder: Path) -> Iterable[os.stat_result]:
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            try:
                yield os.lstat(os.path.join(path, name))
            except FileNotFoundError:
                continue
