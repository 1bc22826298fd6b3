"""Writes container logs: bytes from a pipe become lines of the CRI's format, in bounded files.

The supervisor feeds what it reads; the kubelet serves the files, and the connection to the kubelet
streams them. Lines longer than 16 KiB are written in parts, as containerd does. The log of a run is
`0.log`, and goes on in `0.log.<offset>` once that is full: a byte has the same offset for ever,
under a name that never means another file, and the oldest files go. Nothing here waits.
"""

from __future__ import annotations

import errno
import os
import sys
import time

from ..linux.fast_imports import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ_SIZE = 65536
MAX_LINE = 16 * 1024
TAIL_LINES, TAIL_BYTES = 80, 2048  # as pkg/kubelet: what FallbackToLogsOnError may show


@value
class Room:
    """The space for a run's log: the size of a file in bytes, and the number of files."""

    size: int = 10 << 20  # as containerLogMaxSize and containerLogMaxFiles of the kubelet
    files: int = 5


class Gone(OSError):
    """Raised when what was asked for has made room for what came later."""


def file_of(path: str, start: int) -> str:
    """Return the file of a log that begins at that offset of it."""
    return f"{path}.{start}" if start else path


def starts_of(path: str) -> list[int]:
    """Return the offsets at which those files of a log begin that are still there."""
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    later = [found[len(name) + 1 :] for found in names if found.startswith(name + ".")]
    return sorted([0] * (name in names) + [int(text) for text in later if text.isdigit()])


def forget_runs(folder: str, restart: int) -> None:
    """Remove the logs of runs before the one before this, as the kubelet keeps no more."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        number, _, rest = name.partition(".")
        if number.isdigit() and rest.startswith("log") and int(number) < restart - 1:
            _remove(os.path.join(folder, name))


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


class LogFile:
    """The log of one run of one container."""

    def __init__(self, path: str, room: Room | None = None) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.path, self._room = path, room or Room()
        self._starts = starts_of(path) or [0]  # of a job that was requeued, there may be some
        self._fd = self._open(self._starts[-1])
        self._size = os.fstat(self._fd).st_size
        self._rest: dict[str, bytes] = {}
        self._begun: dict[str, bytes] = {}  # the tag of a line whose first parts are written
        self._second = (-1, b"")

    def _open(self, start: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(file_of(self.path, start), flags, 0o600)

    def feed(self, stream: str, data: bytes) -> None:
        """Append what a container wrote to `stream`.

        `stream` is stdout, stderr, or `stdout-` and a word for another source of the same, whose
        lines are not cut by those of the first.
        """
        lines = (self._rest.get(stream, b"") + data).split(b"\n")
        rest = lines.pop()
        stamp = self._stamp()
        head = stamp + stream.partition("-")[0].encode()
        out: list[bytes] = []
        for line in lines:
            tag = self._begun.pop(stream, None)
            if tag is None:
                tag, line = self.marked(stream, line)
            while len(line) > MAX_LINE:
                out.append(head + b" P" + tag + b" " + line[:MAX_LINE])
                line = line[MAX_LINE:]
            out.append(head + b" F" + tag + b" " + line)
        while len(rest) >= MAX_LINE:
            if stream not in self._begun:
                self._begun[stream], rest = self.marked(stream, rest)
            out.append(head + b" P" + self._begun[stream] + b" " + rest[:MAX_LINE])
            rest = rest[MAX_LINE:]
        self._rest[stream] = rest
        if out:
            self._write(out)

    def marked(self, stream: str, line: bytes) -> tuple[bytes, bytes]:
        """Return what is added to the tag of a line, and the line itself."""
        return b"", line

    def show_anew(self) -> None:
        """Begin anew what attached clients see: one has come who has not seen what was before."""

    def shown(self, stream: str, data: bytes) -> bytes:
        """Return what attached clients see of it."""
        return data

    def end(self, stream: str) -> None:
        """Close the stream: what it left without a newline is a line."""
        if self._rest.get(stream) or stream in self._begun:
            self.feed(stream, b"\n")

    def close(self) -> None:
        for stream in list(self._rest):
            self.end(stream)
        os.close(self._fd)

    def _stamp(self) -> bytes:
        second, nano = divmod(time.time_ns(), 1_000_000_000)
        if second != self._second[0]:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = (second, text.encode())
        return b"%s.%09dZ " % (self._second[1], nano)

    def _write(self, lines: list[bytes]) -> None:
        """Write whole lines; no line is split between two files."""
        if self._size + sum(map(len, lines)) + len(lines) <= (self._room.size or sys.maxsize):
            self._append(lines)
            return
        first, size = 0, 0
        for number, line in enumerate(lines):
            is_full = self._size + size + len(line) >= self._room.size
            if is_full and self._size + size:
                self._append(lines[first:number])
                if not self._turn_over():
                    return
                first, size = number, 0
            size += len(line) + 1
        self._append(lines[first:])

    def _turn_over(self) -> bool:
        """Go on in another file, and remove the oldest; return False where that cannot be."""
        start = self._starts[-1] + self._size
        try:
            fd = self._open(start)
        except OSError:
            return False
        os.close(self._fd)
        self._fd, self._size = fd, os.fstat(fd).st_size
        self._starts.append(start)
        while len(self._starts) > self._room.files:
            _remove(file_of(self.path, self._starts.pop(0)))
        return True

    def _append(self, lines: list[bytes]) -> None:
        data = b"\n".join([*lines, b""])
        try:
            while data:
                written = os.write(self._fd, data)
                data, self._size = data[written:], self._size + written
        except OSError:
            pass  # a full disk loses lines, never the container


class LogReader:
    """Reads a log from an offset; follows it as long as `is_open` says more may come."""

    def __init__(self, path: str, offset: int, is_open: Callable[[], bool] | None) -> None:
        self._path, self._offset, self._is_open = path, offset, is_open
        self._next_look = 0.0
        before = [start for start in starts_of(path) if start <= offset]
        if not before and starts_of(path):
            raise Gone(errno.ESTALE, "the log goes on later than that", path)
        self._start = before[-1] if before else 0
        self._fd = self._open(self._start)

    def _open(self, start: int) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        return os.open(file_of(self._path, start), flags)

    def size(self) -> int:
        """Return how long the log is by now, with what has been removed of it."""
        return self._start + os.fstat(self._fd).st_size

    def read(self) -> bytes | None:
        """Return the next bytes; empty when there are none yet, None when there will be none.

        Raise Gone for a reader that is too slow.
        """
        more_may_come = self._is_open is not None and self._is_open()  # asked before reading
        data = os.pread(self._fd, READ_SIZE, self._offset - self._start)
        if not data and self._goes_on():
            data = os.pread(self._fd, READ_SIZE, self._offset - self._start)
        self._offset += len(data)
        return data if data or more_may_come else None

    def _goes_on(self) -> bool:
        """Return whether the log goes on in another file, which this reader reads from now on."""
        if self._offset == self._start:  # this very file
            return False
        try:
            fd = self._open(self._offset)
        except FileNotFoundError:
            self._look()
            return False
        os.close(self._fd)
        self._fd, self._start = fd, self._offset
        return True

    def _look(self) -> None:
        """Check now and then whether the log went on elsewhere and that file is gone again."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + 1.0
            if starts_of(self._path)[-1:] > [self._offset]:
                raise Gone(errno.ESTALE, "the log goes on later than that", self._path)

    def close(self) -> None:
        os.close(self._fd)


def tail(path: str) -> str:
    """Return the last lines of a log, without their CRI heads."""
    data = b""
    for start in reversed(starts_of(path)):
        if len(data) < READ_SIZE:
            data = _last_bytes(file_of(path, start), READ_SIZE - len(data)) + data
    is_cut = len(data) == READ_SIZE
    lines = data.split(b"\n")[is_cut:][-TAIL_LINES - 1 :]
    words = [line.split(b" ", 3) for line in lines]
    text = b"".join(w[3] + (b"\n" if w[2][:1] == b"F" else b"") for w in words if len(w) == 4)
    return text[-TAIL_BYTES:].decode(errors="replace")


def _last_bytes(path: str, count: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.pread(fd, count, max(0, os.fstat(fd).st_size - count))
    except OSError:
        return b""
    finally:
        os.close(fd)
