"""Makes, checks and removes the folders of persistent volumes on a shared file system.

Used by the provisioner. Each volume is `<root>/<name>/data`: the outer folder is private to its
owner (0700), so that the inner one can be open to every user of a pod. Nothing outside the root is
made, entered or removed, whatever names and links say. Files of other uids, which containers with a
range of ids leave behind, are for `remove_foreign`, which has that range too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from ...api.objects import Key
from ...errors import Error
from ...files import remove_below

DATA = "data"
_LONGEST = 120  # characters of a claim's name in its folder's: with all else at most 255


class FolderError(Error):
    """A folder that cannot be made or removed, in words for an Event."""


class VolumeFolders:
    """All volumes below one root; `remove_foreign` removes what is not our own uid's."""

    def __init__(self, root: Path, remove_foreign: Callable[[Path, str], None]) -> None:
        self.root = root
        self._remove_foreign = remove_foreign

    def path_for(self, claim: Key, volume: str) -> Path:
        """Return where the data of a volume are; names of API objects hold neither `/` nor `_`."""
        return self.root / f"{claim.namespace}_{claim.name[:_LONGEST]}_{volume}" / DATA

    def create(self, path: Path) -> None:
        """Make a volume's folder; one that is there already, from an earlier try, will do."""
        name = self._name_in(path)
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _make(name, 0o700, root)
                outer = _enter(name, root)
                try:
                    _make(DATA, 0o777, outer)
                    os.close(_enter(DATA, outer))
                finally:
                    os.close(outer)
            finally:
                os.close(root)
        except OSError as error:
            words = f"cannot make {path}: {error.strerror}; check the rights and quota there"
            raise FolderError(words) from error

    def remove(self, path: Path) -> None:
        """Remove a volume's folder with all in it; one that is gone already is no failure."""
        name = self._name_in(path)
        try:
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            found = os.stat(name, dir_fd=root, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode):
                raise FolderError(f"{self.root / name} is not a folder: it is left as it is")
            remove_below(name, root)
        except FileNotFoundError:
            return
        except PermissionError:
            self._remove_foreign(self.root, name)
        except OSError as error:
            raise FolderError(f"cannot remove {self.root / name}: {error.strerror}") from error
        finally:
            os.close(root)

    def _name_in(self, path: Path) -> str:
        """Return the name of the folder in our root that holds `path`; anything else is refused."""
        outer = path.parent
        is_ours = path.name == DATA and outer.parent == self.root
        if not is_ours or outer.name in ("", ".", "..") or ".." in path.parts:
            raise FolderError(f"{path} is not the folder of a volume in {self.root}")
        return outer.name


def _make(name: str, mode: int, parent: int) -> None:
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        return
    fd = _enter(name, parent)
    try:
        os.fchmod(fd, mode)  # exactly: no umask
    finally:
        os.close(fd)


def _enter(name: str, parent: int) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, dir_fd=parent)
