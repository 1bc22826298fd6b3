"""Unpacks the layers of an image into a folder, as an ordinary user.

Run by `pull` as a child process of its own, `python unpack.py ROOT BYTES FILES`, so that the
control plane goes on answering; it reads one JSON object {"path", "type"} a line from standard
input, a layer each, in order; a squashfs, as a SIF holds one, is a whole root. It imports the
standard library. It never follows a link out of the root, makes no devices, gives no file to
anybody else, and sets no setuid bits. However little a layer is, what it becomes is bounded: in
bytes, in files, in depth, and in the memory that it takes to read.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from typing import IO, Self, cast

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_MOST_LINKS = 40  # as the kernel
_CHUNK = 1 << 20
SQUASHFS = "application/vnd.orlop.squashfs"  # ;offset=<bytes> into the file
_READ = 1 << 15  # tarfile copies what is left of its buffer with every read
# Runtimes mount onto these; images made from scratch lack them.
_FOLDERS = {"dev": 0o755, "etc": 0o755, "proc": 0o555, "run": 0o755, "sys": 0o555, "tmp": 0o1777}
_MEMORY = 1 << 30  # address space; of unsquashfs, which has threads, four times that
_TIME = 1800  # seconds of a processor, by which the largest images are long unpacked
_HEAD = 1 << 16  # bytes of a head with a long name or attributes, which is read as a whole
_LAST_TIME = 1 << 33
_PADDING = 1 << 24  # bytes after the end of an archive
_DEEPEST = 200  # folders in each other; what walks through them later does so on a stack
_WORDS_OF_MEMBER = 4096  # bytes of a stream for each of its entries, beside what is in them
WORDS = 1000  # bytes of what we say
LARGER = "set images.max_size in config.yaml for larger images"
MORE = "set images.max_files in config.yaml for images of more"
_FILES = ("etc/hostname", "etc/hosts", "etc/resolv.conf")


class UnpackError(Exception):
    """A layer that cannot or must not be unpacked."""


class Room:
    """What all layers of an image may take together; what a later one removes counts, too."""

    def __init__(self, size: int, files: int) -> None:
        self.size, self.files = size, files
        self._left, self._files_left = size, files
        self.stream = size + files * _WORDS_OF_MEMBER  # bytes of all archives

    def take_file(self) -> None:
        self._files_left -= 1
        if self._files_left < 0:
            raise UnpackError(f"it holds more than {self.files} files and folders; {MORE}")

    def take(self, size: int) -> None:
        """Count a file by its length: one with holes is as long to whoever reads it."""
        if size < 0:
            raise UnpackError(f"it is no whole tar archive: it holds a file of {size} bytes")
        self._left -= size
        if self._left < 0:
            raise UnpackError(f"it is larger than {self.size} bytes unpacked; {LARGER}")


class Metered:
    """A stream of which no more is read than there is room for."""

    def __init__(self, stream: IO[bytes], room: Room) -> None:
        self._stream, self._room = stream, room

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._room.stream -= len(data)
        if self._room.stream < 0:
            raise UnpackError(f"its layers are longer than all that it may hold; {LARGER}")
        return data


class _Head(tarfile.TarInfo):
    """Of a member; one that says that it is very long is not read, as archives do not have them."""

    def _proc_member(self, archive: tarfile.TarFile) -> Self:
        if self.type in _LONG and not 0 <= self.size <= _HEAD:
            raise UnpackError(f"it has a head of {self.size} bytes, and {_HEAD} are the most")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]


_LONG = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


class Root:
    """A root folder that layers are laid into, one after the other."""

    def __init__(self, path: str, room: Room) -> None:
        self.path = os.path.realpath(path)
        self.room = room
        self._folders: dict[str, str] = {"": self.path}
        self._of_this_layer: set[str] = set()
        self._on_the_way: set[str] = set()  # folders that hold something of this layer
        self._emptied: set[str] = set()  # folders that hold nothing but things of this layer

    def layer(self, archive: tarfile.TarFile) -> None:
        self._of_this_layer, self._on_the_way, self._emptied = set(), set(), set()
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # it would remember all of them
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
        """Give every file the mode that one of a layer would have, and the room that it takes."""
        for folder, folders, files in os.walk(self.path):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                self._check_depth(path)
                self.room.take_file()
                found = os.lstat(path)
                mode = found.st_mode
                if stat.S_ISDIR(mode):  # before it is entered
                    os.chmod(path, (mode & 0o1777) | 0o700)
                elif stat.S_ISREG(mode):
                    self.room.take(found.st_size)
                    os.chmod(path, (mode & 0o777) | 0o400)

    def _lay(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name = _normal(member.name)
        if not name:
            return
        self.room.take_file()
        folder, _, base = name.rpartition("/")
        if base == _OPAQUE:
            self._empty(self._folder(folder))
            return
        target = os.path.join(self._folder(folder), base)
        self._check_depth(target)
        if base.startswith(_WHITEOUT):
            if not base.startswith(_WHITEOUT * 2):
                self._white_out(self._folder(folder), base[len(_WHITEOUT) :])
            return
        self._note(target)
        if member.isdir():
            self._make_folder(target, member)
        else:
            self._remove(target)
            self._make(archive, member, target)

    def _check_depth(self, path: str) -> None:
        """Check how deep a path really is: a link may lead to a folder that is deep already."""
        if path.count("/") - self.path.count("/") > _DEEPEST:
            name = os.path.relpath(path, self.path)
            raise UnpackError(f"{_cut(name)!r} is more than {_DEEPEST} folders deep")

    def _note(self, target: str) -> None:
        self._of_this_layer.add(target)
        folder = os.path.dirname(target)
        while folder not in self._on_the_way and len(folder) > len(self.path):
            self._on_the_way.add(folder)
            folder = os.path.dirname(folder)

    def _white_out(self, folder: str, base: str) -> None:
        if base in ("", ".", ".."):
            raise UnpackError(f"a whiteout of {base!r} leads out of its folder")
        self._remove(os.path.join(folder, base))

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
        if member.isfile():
            self.room.take(member.size)
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
            raise UnpackError(f"hard link to {_cut(source)!r}, which is not there") from None
        except OSError:  # a file system without hard links, or too many of them
            found = os.lstat(existing)
            if not stat.S_ISREG(found.st_mode):
                raise UnpackError(f"hard link to {_cut(source)!r}, which is no file") from None
            self.room.take(found.st_size)
            shutil.copy2(existing, target, follow_symlinks=False)

    def _folder(self, name: str) -> str:
        """Return the real path of a folder in the root, links resolved as if the root were /."""
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
                    raise UnpackError(
                        f"{_cut('/'.join(parts))!r}: too many levels of symbolic links"
                    )
                path = self.path if link.startswith("/") else path
                waiting.extend(reversed(link.split("/")))
        return path

    def _step(self, path: str, part: str) -> tuple[str, str | None]:
        """Take one step down; a missing folder is made, a link is answered with its target."""
        below = os.path.join(path, part)
        try:
            mode = os.lstat(below).st_mode
        except FileNotFoundError:
            self._check_depth(below)
            self.room.take_file()
            os.mkdir(below, 0o755)
            return below, None
        if stat.S_ISLNK(mode):
            return path, os.readlink(below)
        if not stat.S_ISDIR(mode):
            self._remove(below)
            os.mkdir(below, 0o755)
        return below, None

    def _empty(self, folder: str) -> None:
        """Remove from an opaque folder what lower layers put there; keep what this layer put.

        Once a layer for each folder: what comes to it later is of this layer, and a layer may say
        that it is opaque as often as it likes.
        """
        if folder in self._emptied:
            return
        self._emptied.add(folder)
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if path not in self._of_this_layer and path not in self._on_the_way:
                self._remove(path)
            elif stat.S_ISDIR(os.lstat(path).st_mode):
                self._empty(path)

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
        """Forget what was resolved through a link or folder that changed: it may lie elsewhere."""
        self._folders = {"": self.path}


def _normal(name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise UnpackError(f"{_cut(name)!r} leads out of the image")
    return "/".join(parts)


def _cut(name: str) -> str:
    return name if len(name) <= 100 else f"{name[:100]}…"


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
    source = archive.extractfile(member)
    if source is None:
        raise UnpackError(f"{_cut(member.name)!r} has no content")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(target, flags, 0o600)
    with open(descriptor, "wb", buffering=0) as file:
        while chunk := source.read(_CHUNK):
            file.write(chunk)
        os.fchmod(descriptor, (member.mode & 0o777) | 0o400)
        # Python's compiled files are valid for the time of their source only.
        when = member.mtime if 0 <= member.mtime < _LAST_TIME else 0  # it may be no number
        os.utime(descriptor, (when, when))


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Open the tar stream in a layer's file; by its first bytes, for media types lie."""
    # Not a pipe, which would be waited for.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as raw:
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            raise UnpackError(f"layer {path} is no regular file")
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
    """Decompress by the standard library where it has zstd (3.14), else by the zstd command."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        program = shutil.which("zstd") or shutil.which("unzstd")
        if program is None:
            remedy = "install zstd on this host, or push the image with gzip layers"
            raise UnpackError(f"a layer is compressed with zstd; {remedy}") from None
        with subprocess.Popen([program, "-dcq", path], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            is_whole = False
            try:
                yield child.stdout
                # What tar leaves unread would break zstd's pipe; but it may be without an end.
                is_whole = len(child.stdout.read(_PADDING)) < _PADDING
            finally:
                if not is_whole:
                    child.kill()
        if is_whole and child.returncode:
            raise UnpackError(f"zstd ended with {child.returncode}") from None
    else:
        with zstd.open(raw) as stream:
            yield stream


def unsquash(path: str, offset: int, root: Root) -> None:
    """Unpack the whole root in a squashfs, but devices, which an ordinary user cannot make."""
    program = shutil.which("unsquashfs")
    if program is None:
        remedy = f"install squashfs-tools on this host, or `apptainer build --sandbox DIR {path}`"
        raise UnpackError(f"unsquashfs is not here to unpack it; {remedy} and name the folder")
    place = ["-offset", str(offset)]
    _look(program, path, place, Room(root.room.size, root.room.files))
    options = [*_OPTIONS, "-no-xattrs", "-force", "-quiet", "-dest", root.path]
    argv = [program, *options, *place, path]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=_allow_threads
    )
    if done.returncode not in (0, 2):  # 2: it left something out
        words = (done.stderr or done.stdout).strip().splitlines() or ["without a word"]
        raise UnpackError(f"unsquashfs ended with {done.returncode}: {_cut(words[-1])}")
    root.tame()


_OPTIONS = ("-no-progress", "-processors", "2", "-data-queue", "64", "-frag-queue", "64")


def _look(program: str, path: str, place: list[str], room: Room) -> None:
    """Check that all that a squashfs says it holds has room; a name with a newline counts twice."""
    argv = [program, *_OPTIONS, "-lln", *place, path]
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=_allow_threads,
    ) as child:
        assert child.stdout is not None
        line = b"without a word"
        try:
            for line in child.stdout:
                room.take_file()
                words = line.split(None, 5)
                if line.startswith(b"-") and len(words) == 6 and words[2].isdigit():
                    room.take(int(words[2]))
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        said = _cut(line.decode(errors="replace").strip())
        raise UnpackError(f"unsquashfs ended with {child.returncode}: {said}")


def _allow_threads() -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = 4 * _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))


def unpack(root: str, layers: Iterator[dict[str, str]], room: Room) -> None:
    os.umask(0o022)
    os.makedirs(root, exist_ok=True)
    os.chmod(root, 0o755)
    target = Root(root, room)
    for layer in layers:
        if layer.get("type", "").startswith(SQUASHFS):
            unsquash(layer["path"], int(layer["type"].partition("=")[2]), target)
            continue
        try:
            with (
                opened(layer["path"]) as stream,
                tarfile.open(
                    fileobj=cast("IO[bytes]", Metered(stream, room)),
                    mode="r|",
                    bufsize=_READ,
                    tarinfo=_Head,
                ) as archive,
            ):
                target.layer(archive)
        except (UnpackError, OSError):
            raise
        except MemoryError:
            raise UnpackError(f"layer {layer['path']} takes too much memory to read") from None
        except Exception as error:  # tarfile's, zlib's, and of names and numbers that are none
            why = f"{type(error).__name__}: {_cut(str(error))}"
            raise UnpackError(f"layer {layer['path']} is no whole tar archive: {why}") from error
    target.finish()


def _limit(size: int) -> None:
    """Limit this process: whatever else a layer may try ends it, and not the host."""
    for kind, most in (
        (resource.RLIMIT_AS, _MEMORY),
        (resource.RLIMIT_CPU, _TIME),
        (resource.RLIMIT_FSIZE, size),
    ):
        soft, hard = resource.getrlimit(kind)
        least = min((each for each in (soft, hard) if each >= 0), default=most)
        resource.setrlimit(kind, (min(most, least), hard))


def main() -> int:
    size, files = int(sys.argv[2]), int(sys.argv[3])
    _limit(size)
    try:
        unpack(sys.argv[1], (json.loads(line) for line in sys.stdin), Room(size, files))
    except (UnpackError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
