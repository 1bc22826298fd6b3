"""Makes the pod's volumes on its node: folders, files of the plan, paths, images; and their mounts.

`Volumes` is made once by `main`; every volume exists before the first container starts, and each
container asks for its binds. Sub-paths never leave their volume, whatever links a container may
have laid in it. What cannot be had is a VolumeError with upstream's words.
"""

from __future__ import annotations

import binascii
import errno
import os
import stat
import time

from ..linux import syscalls
from ..linux.fast_imports import value
from ..linux.untrusted_files import remove_tree
from ..plan import Container, Mount
from .nfs_exports import MOUNTINFO, huge_pages, mounted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class VolumeError(Exception):
    """A volume that cannot be mounted, in words for `kubectl describe`."""


@value
class Bind:
    """A folder or file of the node, and where a container sees it."""

    source: str
    path: str
    read_only: bool = False
    propagates: bool = False  # what the node mounts below it later is seen too


# hostPath types that must exist already: what they are called, and the test on st_mode.
_KINDS = {
    "Directory": ("a directory", stat.S_ISDIR),
    "File": ("a file", stat.S_ISREG),
    "Socket": ("a socket", stat.S_ISSOCK),
    "CharDevice": ("a character device", stat.S_ISCHR),
    "BlockDevice": ("a block device", stat.S_ISBLK),
}


def absolute(path: str) -> str:
    """Return a path in a container, without what would make two spellings of one place."""
    return "/" + os.path.normpath(path).lstrip("/")  # normpath keeps two leading slashes


class Volumes:
    """All volumes of the pod; `disk` is node-local, `memory` a tmpfs (or as good as there is)."""

    def __init__(
        self, volumes: list[dict[str, Any]], disk: str, memory: str, can_mount: bool
    ) -> None:
        self._disk, self._memory, self._can_mount = disk, memory, can_mount
        self._paths: dict[str, str] = {}
        self._read_only: set[str] = set()
        self._elsewhere: list[str] = []
        self._files: set[str] = set()  # those that we write ourselves, and may change
        for volume in volumes:
            try:
                self._paths[volume["name"]] = self._set_up(volume)
            except OSError as error:
                text = f"{error.strerror}: {error.filename}"
                raise VolumeError(_failed(volume["name"], text)) from error

    def path(self, name: str) -> str:
        return self._paths[name]

    def update(self, name: str, files: list[dict[str, Any]]) -> None:
        """Give a volume of files new contents, all at one moment."""
        if name in self._files and not has_files(self._paths[name], files):
            write_files(self._paths[name], files)

    def _set_up(self, volume: dict[str, Any]) -> str:
        name, kind = volume["name"], volume["kind"]
        setter = _SETTERS.get(kind)
        if setter is None:
            raise VolumeError(_failed(name, f"this agent knows no volume of kind {kind!r}"))
        if volume.get("readOnly"):
            self._read_only.add(name)
        path = setter(self, volume)
        if volume.get("fsGroup") is not None:
            give_to_group(path, volume["fsGroup"], volume.get("fsGroupPolicy") or "")
        return path

    def _written(self, volume: dict[str, Any]) -> str:
        name = volume["name"]
        self._read_only.add(name)
        self._files.add(name)
        path = os.path.join(self._memory, "volumes", name)
        os.makedirs(path, exist_ok=True)
        write_files(path, volume["files"])
        return path

    def _image(self, volume: dict[str, Any]) -> str:
        self._read_only.add(volume["name"])
        return volume["path"]  # type: ignore[no-any-return]

    def _folder(self, volume: dict[str, Any]) -> str:
        """Return a folder of ours in a root of ours: neither it nor what holds it may be a link."""
        path = volume["path"]
        for place in (os.path.dirname(path), path):
            if not stat.S_ISDIR(os.lstat(place).st_mode):
                raise VolumeError(_failed(volume["name"], f"{place} is not a folder of ours"))
        return path  # type: ignore[no-any-return]

    def _export(self, volume: dict[str, Any]) -> str:
        server, export = volume["server"], volume["path"]
        with open(MOUNTINFO, errors="surrogateescape") as file:
            path = mounted(server, export, file.read())
        if not path:
            words = f"{server}:{export} is not mounted on {_node()}, and only root could mount it; "
            remedy = "ask the site to, or use a hostPath that the nodes do mount"
            raise VolumeError(_failed(volume["name"], words + remedy))
        return path

    def _huge_pages(self, volume: dict[str, Any]) -> str:
        """Make a folder of our own where the node has huge pages mounted for its users."""
        size = volume["medium"].partition("-")[2]
        with open(MOUNTINFO, errors="surrogateescape") as file:
            places = huge_pages(size, file.read())
        usable = [place for place in places if os.access(place, os.W_OK | os.X_OK)]
        if not usable:
            what = f"of {size} " if size else ""
            words = f"{_node()} has no huge pages {what}mounted that its users may write to; "
            remedy = "ask the site for a hugetlbfs mount, e.g. /dev/hugepages with mode=1777"
            raise VolumeError(_failed(volume["name"], words + remedy))
        path = os.path.join(usable[0], f"orlop-{os.urandom(8).hex()}")
        os.mkdir(path, 0o777)
        os.chmod(path, 0o777)
        self._elsewhere.append(path)
        return path

    def remove_elsewhere(self) -> None:
        """Remove what is not in the pod's own folders, and would stay."""
        for path in self._elsewhere:
            remove_tree(path)

    def _empty_dir(self, volume: dict[str, Any]) -> str:
        if str(volume.get("medium") or "").startswith("HugePages"):
            return self._huge_pages(volume)
        in_memory = volume.get("medium") == "Memory"
        base = self._memory if in_memory else self._disk
        path = os.path.join(base, "volumes", volume["name"])
        os.makedirs(path, exist_ok=True)  # ranks on several nodes share it
        if in_memory and self._can_mount:
            limit = volume.get("sizeLimit")
            options = "mode=0777" + (f",size={limit}" if limit else "")
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
            syscalls.mount("tmpfs", path, "tmpfs", flags, options)
        os.chmod(path, 0o777)  # as pkg/volume/emptydir: any user of the pod may write
        return path

    def binds(self, container: Container, staging: str) -> list[Bind]:
        """Return where the container's mounts come from; sub-paths are pinned below `staging`."""
        found = []
        for number, mount in enumerate(container.mounts):
            if mount.volume not in self._paths:
                raise VolumeError(_failed(mount.volume, "the plan has no such volume"))
            source = self._paths[mount.volume]
            if mount.sub_path:
                source = self._pinned(mount, source, os.path.join(staging, str(number)))
            read_only = mount.read_only or mount.volume in self._read_only
            if mount.all_read_only:
                source = self._all_read_only(mount, source, os.path.join(staging, f"ro-{number}"))
            found.append(Bind(source, absolute(mount.path), read_only, mount.propagates))
        return found

    def _all_read_only(self, mount: Mount, source: str, staging: str) -> str:
        """Return the same with every mount below it read-only; as it is where that need not be."""
        try:
            if not self._can_mount:
                raise OSError(errno.EPERM, "mounts cannot be changed here")
            _make_point(staging, os.path.isdir(source))
            syscalls.bind(source, staging)
            syscalls.make_all_read_only(staging)
            return staging
        except OSError as error:
            if mount.all_read_only == "IfPossible":
                return source
            words = f"recursiveReadOnly needs Linux 5.12 and user namespaces: {error.strerror}"
            raise VolumeError(_failed(mount.volume, words)) from error

    def _pinned(self, mount: Mount, root: str, staging: str) -> str:
        """Bind a sub-path of a volume to a path of ours, so that no later link moves it."""
        try:
            if mount.volume in self._files:  # ours: its links lead to the current version
                return _resolved(root, mount.sub_path)
            fd = open_below(root, mount.sub_path, mount.volume not in self._read_only)
        except OSError as error:
            reason = f"subPath {mount.sub_path!r}: {error.strerror}"
            raise VolumeError(_failed(mount.volume, reason)) from error
        try:
            if not self._can_mount:
                return os.readlink(f"/proc/self/fd/{fd}")
            _make_point(staging, stat.S_ISDIR(os.fstat(fd).st_mode))
            syscalls.bind(f"/proc/self/fd/{fd}", staging)
            return staging
        finally:
            os.close(fd)


def _node() -> str:
    """Return this node's name; in the sandbox the host's is the pod's own."""
    return os.environ.get("SLURMD_NODENAME") or "this node"


def _failed(name: str, why: str) -> str:
    return f'MountVolume.SetUp failed for volume "{name}" : {why}'


def _host_path(_: Volumes, volume: dict[str, Any]) -> str:
    """Return a path of the node, of the type asked for; as pkg/volume/hostpath."""
    name, path, kind = volume["name"], volume["path"], volume.get("type") or ""
    if kind == "DirectoryOrCreate":
        os.makedirs(path, mode=0o755, exist_ok=True)
        kind = "Directory"
    elif kind == "FileOrCreate":
        if not os.path.lexists(path):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o644))
        kind = "File"
    elif not kind and not os.path.exists(path):
        raise VolumeError(_failed(name, f"hostPath {path} does not exist on {_node()}"))
    if kind:
        words, is_kind = _KINDS[kind]
        if not (os.path.exists(path) and is_kind(os.stat(path).st_mode)):
            reason = f"hostPath type check failed: {path} is not {words}"
            raise VolumeError(_failed(name, reason))
    return path  # type: ignore[no-any-return]


def _resolved(root: str, sub_path: str) -> str:
    path = os.path.realpath(os.path.join(root, sub_path))
    if not path.startswith(os.path.realpath(root) + "/"):
        raise PermissionError(1, "must stay in the volume")
    if not os.path.exists(path):
        raise FileNotFoundError(2, "no such file in the volume")
    return path


def open_below(root: str, sub_path: str, may_make: bool = True) -> int:
    """Open a sub-path with O_PATH and return the descriptor; make its missing folders.

    Links are followed as long as they stay in the volume: the kernel itself sees to that, at the
    moment of opening (Linux 5.6). Without its help no link is followed at all.
    """
    base = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        done: list[str] = []
        for part in [part for part in sub_path.split("/") if part not in ("", ".")]:
            if part == "..":
                raise PermissionError(1, "must not contain '..'")
            done.append(part)
            if may_make:
                _make_below(base, done)
        return syscalls.open_beneath(base, "/".join(done) or ".")
    except NotImplementedError:
        return _open_without_links(root, sub_path)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise PermissionError(1, "a symbolic link leads out of the volume") from error
        raise
    finally:
        os.close(base)


def _make_below(base: int, parts: list[str]) -> None:
    try:
        os.close(syscalls.open_beneath(base, "/".join(parts)))
        return
    except FileNotFoundError:
        pass
    parent = syscalls.open_beneath(base, "/".join(parts[:-1]) or ".")
    try:
        try:
            os.mkdir(parts[-1], 0o777, dir_fd=parent)
        except FileExistsError:
            return  # a link to nowhere: opening it says so
        os.chmod(parts[-1], 0o777, dir_fd=parent)
    finally:
        os.close(parent)


def _open_without_links(root: str, sub_path: str) -> int:
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
    for part in [part for part in sub_path.split("/") if part not in ("", ".")]:
        if part == "..":
            os.close(fd)
            raise PermissionError(1, "must not contain '..'")
        parent, fd = fd, -1
        try:
            try:
                fd = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=parent)
            except FileNotFoundError:
                os.mkdir(part, 0o777, dir_fd=parent)
                os.chmod(part, 0o777, dir_fd=parent)
                fd = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=parent)
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                os.close(fd)
                raise PermissionError(1, f"{part} is a symbolic link")
        finally:
            os.close(parent)
    return fd


def _make_point(path: str, is_folder: bool) -> None:
    """Make a folder or a file to mount on."""
    if is_folder:
        os.makedirs(path, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def write_files(folder: str, files: list[dict[str, Any]]) -> None:
    """Lay files out so that a later call changes all of them at one moment.

    As pkg/volume/util/atomic_writer.go: the files are in a folder named by the time, `..data` links
    to it, and each name the user sees links into `..data`.
    """
    version = _new_version(folder)
    for file in files:
        _write_file(os.path.join(folder, version, file["path"]), file)
    _share_folders(folder, version, files)
    data = os.path.join(folder, "..data")
    before = os.readlink(data) if os.path.islink(data) else ""
    os.symlink(version, data + "_tmp")
    os.replace(data + "_tmp", data)
    names = {file["path"].split("/")[0] for file in files}
    for name in names:
        if not os.path.lexists(os.path.join(folder, name)):
            os.symlink(f"..data/{name}", os.path.join(folder, name))
    for name in os.listdir(folder):
        if not name.startswith("..") and name not in names:
            os.unlink(os.path.join(folder, name))
    if before:
        remove_tree(os.path.join(folder, before))


def has_files(folder: str, files: list[dict[str, Any]]) -> bool:
    """Return whether a folder holds these very files: its watchers are not woken for nothing."""
    data = os.path.join(folder, "..data")
    names = [
        os.path.relpath(os.path.join(base, name), data)
        for base, _, found in os.walk(data)
        for name in found
    ]
    if sorted(names) != sorted(os.path.normpath(file["path"]) for file in files):
        return False
    return all(_is_same(os.path.join(data, file["path"]), file) for file in files)


def _is_same(path: str, file: dict[str, Any]) -> bool:
    try:
        with open(path, "rb") as found:
            seen = os.fstat(found.fileno())
            same = found.read() == binascii.a2b_base64(file["data"])
            is_mode = stat.S_IMODE(seen.st_mode) == file.get("mode", 0o644)
            return same and is_mode and _has_owner(seen, file)
    except OSError:
        return False


def _has_owner(seen: os.stat_result, file: dict[str, Any]) -> bool:
    """Return whether a file is whose it should be, as far as it can be given to them."""
    for kind, number in (("uid", seen.st_uid), ("gid", seen.st_gid)):
        wanted = file.get(kind)
        if wanted not in (None, number) and _is_mapped(kind, wanted):
            return False
    return True


def _is_mapped(kind: str, number: int) -> bool:
    with open(f"/proc/self/{kind}_map") as file:
        ranges = [[int(word) for word in line.split()] for line in file]
    return any(first <= number < first + count for first, _, count in ranges)


def _new_version(folder: str) -> str:
    now = time.time()
    version = time.strftime("..%Y_%m_%d_%H_%M_%S.", time.gmtime(now))
    version += f"{int(now % 1 * 1e9):09d}{os.urandom(2).hex()}"
    os.mkdir(os.path.join(folder, version), 0o755)
    return version


def _write_file(path: str, file: dict[str, Any]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        data = binascii.a2b_base64(file["data"])
        while data:
            data = data[os.write(fd, data) :]
        _give(fd, file.get("uid", -1), file.get("gid", -1))
        os.fchmod(fd, file.get("mode", 0o644))  # exactly: no umask
    finally:
        os.close(fd)


def _share_folders(folder: str, version: str, files: list[dict[str, Any]]) -> None:
    """Give what holds the files to their group, where they have one; as SetVolumeOwnership."""
    group = next((file["gid"] for file in files if "gid" in file), None)
    if group is None:
        return
    for place in (folder, *(base for base, _, _ in os.walk(os.path.join(folder, version)))):
        _give(place, -1, group)
        os.chmod(place, stat.S_IMODE(os.stat(place).st_mode) | 0o2550)


def _give(place: int | str, uid: int, gid: int) -> None:
    if (uid, gid) == (-1, -1):
        return
    try:
        os.chown(place, uid, gid)
    except OSError:
        pass  # only one id is mapped here, and whoever the container's user is, it is that one


def give_to_group(path: str, group: int, policy: str) -> None:
    """Let a group read and write all of a volume, as far as we may; as SetVolumeOwnership.

    Where a single id is mapped nothing can be given away, and nothing need be.
    """
    try:
        found = os.lstat(path)
        if policy == "OnRootMismatch" and found.st_gid == group and found.st_mode & stat.S_ISGID:
            return
        _give_one(path, None, group)
        for _, folders, files, place in os.fwalk(path):
            for name in (*folders, *files):
                try:
                    _give_one(name, place, group)
                except OSError:
                    pass  # gone meanwhile, or somebody else's
    except OSError:
        return


def _give_one(name: str, place: int | None, group: int) -> None:
    """Give one file away, by a descriptor: other pods of the volume may lay a link there."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    try:
        mode, path = os.fstat(fd).st_mode, f"/proc/self/fd/{fd}"
        if stat.S_ISLNK(mode):
            os.chown(name, -1, group, dir_fd=place, follow_symlinks=False)
            return
        os.chown(path, -1, group)
        if stat.S_ISDIR(mode):
            os.chmod(path, stat.S_IMODE(mode) | 0o2770)
        elif stat.S_ISREG(mode):
            os.chmod(path, stat.S_IMODE(mode) | 0o660)
    finally:
        os.close(fd)


_SETTERS: dict[str, Callable[[Volumes, dict[str, Any]], str]] = {
    "hostPath": _host_path,
    "emptyDir": Volumes._empty_dir,
    "files": Volumes._written,
    "image": Volumes._image,
    "folder": Volumes._folder,
    "nfs": Volumes._export,
}
