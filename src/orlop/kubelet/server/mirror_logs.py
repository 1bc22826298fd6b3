"""Shows logs of mirror pods, which are files that no agent wrote, as kubectl asks for them.

Called by the server for pods that only show what runs without them. Such a file has just lines:
whatever asks for times gets that of the file's last change, and a stream is as good as another.
What is no regular file, as /dev/null or a pipe, has no lines.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from ...api.objects import Obj, annotations_of
from ...api.times import rfc3339_micro
from ...files import open_regular
from ...wellknown import MIRROR
from .log_files import CHUNK
from .logs import FILE_POLL, LogOptions

Outputs = Callable[[Obj, str], Path | None]
"""For a pod and a container of it, the file with its output."""


def is_mirror(pod: Obj) -> bool:
    return MIRROR in annotations_of(pod)


def no_outputs(pod: Obj, container: str) -> Path | None:
    return None


async def read_plain(
    path: Path, options: LogOptions, is_over: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """Yield the file as the client wants it, followed until the job is over."""
    left = options.limit_bytes
    offset = await asyncio.to_thread(_start, path, options)
    is_line_start = True
    while True:
        was_over = is_over()
        while data := await asyncio.to_thread(_chunk, path, offset):
            offset += len(data)
            if options.timestamps:
                data, is_line_start = _stamped(data, path, is_line_start)
            if left is not None:
                data = data[:left]
                left -= len(data)
            yield data
            if left is not None and left <= 0:
                return
        if was_over or not options.follow:
            return
        await asyncio.sleep(FILE_POLL)


def _start(path: Path, options: LogOptions) -> int:
    """Return where to begin: at the end for what has not changed since, else as many lines before
    it.
    """
    try:
        facts = path.stat()
        if options.since is not None and facts.st_mtime < options.since:
            return facts.st_size
        return 0 if options.tail_lines is None else _tail(path, options.tail_lines)
    except OSError:
        return 0


def _tail(path: Path, lines: int) -> int:
    with open_regular(path) as file:
        start = end = file.seek(0, os.SEEK_END)
        # The newline at the very end ends the last line and begins none.
        wanted, last = lines, end - 1
        if lines == 0:
            return end
        while start > 0:
            begin = max(0, start - CHUNK)
            file.seek(begin)
            block = file.read(start - begin)
            position = len(block)
            while (position := block.rfind(b"\n", 0, position)) >= 0:
                if begin + position == last:
                    continue
                wanted -= 1
                if wanted == 0:
                    return begin + position + 1
            start = begin
    return 0


def _stamped(data: bytes, path: Path, is_line_start: bool) -> tuple[bytes, bool]:
    try:
        stamp = rfc3339_micro(path.stat().st_mtime).encode() + b" "
    except OSError:
        return data, is_line_start
    lines = data.splitlines(keepends=True)
    shown = [line if index == 0 and not is_line_start else stamp + line
             for index, line in enumerate(lines)]  # fmt: skip
    return b"".join(shown), data.endswith(b"\n")


def _chunk(path: Path, offset: int) -> bytes:
    try:
        with open_regular(path) as file:
            file.seek(offset)
            return file.read(CHUNK)
    except OSError:
        return b""
