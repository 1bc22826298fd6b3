"""Container logs: bytes from a pipe become lines of the CRI's format in a file.

The supervisor feeds what it reads; the file is what the kubelet serves and what the uplink
streams. Lines longer than 16 KiB are written in parts, as containerd does. It never waits.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ_SIZE = 65536
MAX_LINE = 16 * 1024
TAIL_LINES, TAIL_BYTES = 80, 2048  # as pkg/kubelet: what FallbackToLogsOnError may show


class LogFile:
    """The log of one run of one container."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.path = path
        self._fd = os.open(path, flags, 0o600)
        self._rest: dict[str, bytes] = {}
        self._begun: dict[str, bytes] = {}  # the tag of a line whose first parts are written
        self._second = (-1, b"")

    def feed(self, stream: str, data: bytes) -> None:
        """Append what a container wrote to `stream`: stdout, stderr, or `stdout-` and a word for
        another source of the same, whose lines are not cut by those of the first.
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
            self._write(b"\n".join(out) + b"\n")

    def marked(self, stream: str, line: bytes) -> tuple[bytes, bytes]:
        """What is added to the tag of a line, and the line itself."""
        return b"", line

    def show_anew(self) -> None:
        """Somebody watches who has not seen what came before."""

    def shown(self, stream: str, data: bytes) -> bytes:
        """What those who are attached see of it."""
        return data

    def end(self, stream: str) -> None:
        """The stream is closed: what it left without a newline is a line."""
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

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            pass  # a full disk loses lines, never the container


class LogReader:
    """Reads a log file from an offset; follows it as long as `is_open` says more may come."""

    def __init__(self, path: str, offset: int, is_open: Callable[[], bool] | None) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._offset, self._is_open = offset, is_open

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read(self) -> bytes | None:
        """The next bytes; empty when there are none yet, None when there will be none."""
        more_may_come = self._is_open is not None and self._is_open()  # asked before reading
        data = os.pread(self._fd, READ_SIZE, self._offset)
        self._offset += len(data)
        return data if data or more_may_come else None

    def close(self) -> None:
        os.close(self._fd)


def tail(path: str) -> str:
    """The last lines of a log file, without their CRI heads."""
    try:
        with open(path, "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - READ_SIZE)
            file.seek(start)
            lines = file.read().split(b"\n")[1 if start else 0 :][-TAIL_LINES - 1 :]
    except OSError:
        return ""
    words = [line.split(b" ", 3) for line in lines]
    text = b"".join(w[3] + (b"\n" if w[2][:1] == b"F" else b"") for w in words if len(w) == 4)
    return text[-TAIL_BYTES:].decode(errors="replace")
