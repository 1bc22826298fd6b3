"""Unpacks the layers of an image into a folder, as an ordinary user.

Run by `pull` as a child process of its own, `python unpack.py ROOT`, so that the control plane
goes on answering; it reads one JSON object {"path", "type"} a line from standard input, a layer
each, in order; a squashfs, as a SIF holds one, is a whole root. Standard library only. It never
follows a link out of the root, makes no devices, gives no file to anybody else, and sets no setuid
bits.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from typing import IO

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_MOST_LINKS = 40  # as the kernel
_CHUNK = 1 << 20
SQUASHFS = "application/vnd.orlop.squashfs"  # ;offset=<bytes> into the file
_READ = 1 << 15  # tarfile copies what is left of its buffer with every read
# Runtimes mount onto these; images made from scratch lack them.
_FOLDERS = {"dev": 0o755, "etc": 0o755, "proc": 0o555, "run": 0o755, "sys": 0o555, "tmp": 0o1777}
_FILES = ("etc/hostname", "etc/hosts", "etc/resolv.conf")


class UnpackError(Exception):
    """A layer that cannot or must not be unpacked."""


class Root:
    """A root folder that layers are laid into, one after the other."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self._folders: dict[str, str] = {"": self.path}
        self._of_this_layer: set[str] = set()

    def layer(self, archive: tarfile.TarFile) -> None:
        self._of_this_layer = set()
        for member in archive:
            self._lay(archive, member)

    def finish(self) -> None:
        """Make what runtimes mount onto, where the image has nothing there."""
        for name, mode in _FOLDERS.items():
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.join(self.path, name))
                os.chmod(os.path.join(self.path, name), mode | 0o700)
        for name in _FILES:
            folder, _, base = name.rpartition("/")
            target = os.path.join(self._folder(folder), base)
            if not os.path.lexists(target):
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o644))

    def tame(self) -> None:
        """Give every file the mode that one of a layer would have."""
        for folder, folders, files in os.walk(self.path):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                mode = os.lstat(path).st_mode
                if stat.S_ISDIR(mode):  # before it is entered
                    os.chmod(path, (mode & 0o1777) | 0o700)
                elif stat.S_ISREG(mode):
                    os.chmod(path, (mode & 0o777) | 0o400)

    def _lay(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name = _normal(member.name)
        if not name:
            return
        folder, _, base = name.rpartition("/")
        if base == _OPAQUE:
            self._empty(self._folder(folder))
            return
        target = os.path.join(self._folder(folder), base)
        if base.startswith(_WHITEOUT):
            if not base.startswith(_WHITEOUT * 2):
                self._white_out(self._folder(folder), base[len(_WHITEOUT) :])
            return
        self._of_this_layer.add(target)
        if member.isdir():
            self._make_folder(target, member)
        else:
            self._remove(target)
            self._make(archive, member, target)

    def _white_out(self, folder: str, base: str) -> None:
        if base in ("", ".", ".."):
            raise UnpackError(f"a whiteout of {base!r} leads out of its folder")
        self._remove(os.path.join(folder, base))

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
        if member.isfile():
            _write(archive, member, target)
        elif member.issym():
            os.symlink(member.linkname, target)
            self._forget()
        elif member.islnk():
            self._link(_normal(member.linkname), target)
        elif member.isfifo():
            os.mkfifo(target, member.mode & 0o777)

    def _make_folder(self, target: str, member: tarfile.TarInfo) -> None:
        try:
            if not stat.S_ISDIR(os.lstat(target).st_mode):
                self._remove(target)
                os.mkdir(target)
        except FileNotFoundError:
            os.mkdir(target)
        # Kept writable for its owner: the next layer, and the cache's cleaning, must get in.
        os.chmod(target, (member.mode & 0o1777) | 0o700)

    def _link(self, source: str, target: str) -> None:
        folder, _, base = source.rpartition("/")
        existing = os.path.join(self._folder(folder), base)
        try:
            os.link(existing, target, follow_symlinks=False)
        except FileNotFoundError:
            raise UnpackError(f"hard link to {source!r}, which is not there") from None
        except OSError:  # a file system without hard links, or too many of them
            shutil.copy2(existing, target, follow_symlinks=False)

    def _folder(self, name: str) -> str:
        """The real path of a folder in the root, links resolved as if the root were /."""
        known = self._folders.get(name)
        if known is None:
            known = self._folders[name] = self._resolve(name.split("/"))
        return known

    def _resolve(self, parts: list[str]) -> str:
        waiting = list(reversed(parts))
        path = self.path
        links = 0
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                path = path if path == self.path else os.path.dirname(path)
                continue
            path, link = self._step(path, part)
            if link is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise UnpackError(f"{'/'.join(parts)!r}: too many levels of symbolic links")
                path = self.path if link.startswith("/") else path
                waiting.extend(reversed(link.split("/")))
        return path

    def _step(self, path: str, part: str) -> tuple[str, str | None]:
        """One step down; a missing folder is made, a link is answered with its target."""
        below = os.path.join(path, part)
        try:
            mode = os.lstat(below).st_mode
        except FileNotFoundError:
            os.mkdir(below, 0o755)
            return below, None
        if stat.S_ISLNK(mode):
            return path, os.readlink(below)
        if not stat.S_ISDIR(mode):
            self._remove(below)
            os.mkdir(below, 0o755)
        return below, None

    def _empty(self, folder: str) -> None:
        """An opaque folder hides what lower layers put there, not what this one did."""
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            is_new = path in self._of_this_layer
            if not is_new and not self._holds_new(path):
                self._remove(path)
            elif stat.S_ISDIR(os.lstat(path).st_mode):
                self._empty(path)

    def _holds_new(self, folder: str) -> bool:
        return any(path.startswith(f"{folder}/") for path in self._of_this_layer)

    def _remove(self, path: str) -> None:
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISDIR(mode):
            shutil.rmtree(path)
            self._forget()
        else:
            os.unlink(path)
            if stat.S_ISLNK(mode):
                self._forget()

    def _forget(self) -> None:
        """A link or folder changed: what was resolved through it may lie elsewhere now."""
        self._folders = {"": self.path}


def _normal(name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise UnpackError(f"{name!r} leads out of the image")
    return "/".join(parts)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
    source = archive.extractfile(member)
    if source is None:
        raise UnpackError(f"{member.name!r} has no content")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(target, flags, 0o600)
    with open(descriptor, "wb", buffering=0) as file:
        while chunk := source.read(_CHUNK):
            file.write(chunk)
        os.fchmod(descriptor, (member.mode & 0o777) | 0o400)
        # Python's compiled files are valid for the time of their source only.
        os.utime(descriptor, (member.mtime, member.mtime))


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """The tar stream in a layer's file; by its first bytes, for media types lie."""
    with open(path, "rb") as raw:
        magic = raw.read(4)
        raw.seek(0)
        if magic[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=raw) as stream:
                yield stream  # type: ignore[misc]  # reads bytes like any file
        elif magic == b"\x28\xb5\x2f\xfd":
            with _zstd(path, raw) as stream_zstd:
                yield stream_zstd
        else:
            yield raw


@contextlib.contextmanager
def _zstd(path: str, raw: IO[bytes]) -> Iterator[IO[bytes]]:
    """From the standard library where it has zstd (3.14), else by the zstd command."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        program = shutil.which("zstd") or shutil.which("unzstd")
        if program is None:
            remedy = "install zstd on this host, or push the image with gzip layers"
            raise UnpackError(f"a layer is compressed with zstd; {remedy}") from None
        with subprocess.Popen([program, "-dcq", path], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            yield child.stdout
            child.stdout.read()  # what tar leaves unread would break zstd's pipe
        if child.returncode:
            raise UnpackError(f"zstd ended with {child.returncode}") from None
    else:
        with zstd.open(raw) as stream:
            yield stream


def unsquash(path: str, offset: int, root: Root) -> None:
    """The whole root in a squashfs; devices, which an ordinary user cannot make, are left out."""
    program = shutil.which("unsquashfs")
    if program is None:
        remedy = f"install squashfs-tools on this host, or `apptainer build --sandbox DIR {path}`"
        raise UnpackError(f"unsquashfs is not here to unpack it; {remedy} and name the folder")
    options = ["-no-progress", "-no-xattrs", "-force", "-quiet", "-offset", str(offset)]
    argv = [program, *options, "-dest", root.path, path]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode not in (0, 2):  # 2: it left something out
        words = (done.stderr or done.stdout).strip().splitlines() or ["without a word"]
        raise UnpackError(f"unsquashfs ended with {done.returncode}: {words[-1]}")
    root.tame()


def unpack(root: str, layers: Iterator[dict[str, str]]) -> None:
    os.umask(0o022)
    os.makedirs(root, exist_ok=True)
    os.chmod(root, 0o755)
    target = Root(root)
    for layer in layers:
        if layer.get("type", "").startswith(SQUASHFS):
            unsquash(layer["path"], int(layer["type"].partition("=")[2]), target)
            continue
        try:
            with (
                opened(layer["path"]) as stream,
                tarfile.open(fileobj=stream, mode="r|", bufsize=_READ) as archive,
            ):
                target.layer(archive)
        except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
            raise UnpackError(f"layer {layer['path']} is no whole tar archive: {error}") from error
    target.finish()


def main() -> int:
    try:
        unpack(sys.argv[1], (json.loads(line) for line in sys.stdin))
    except (UnpackError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
