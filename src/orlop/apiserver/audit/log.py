"""The file that audit events go to: a JSON object a line, in pieces of bounded size.

Filled from the event loop, written by a thread of its own, because a home on a slow file system
must not hold up requests. Readable by its owner (0600). When the file is full it gets the time as
part of its name and a new one begins; of the old ones the newest are kept.
"""

from __future__ import annotations

import json
import os
import queue
import re
import threading
import time
from pathlib import Path

import msgspec

from ...api.objects import Obj
from ...log import logger

MAX_SIZE = 100 << 20  # bytes of one file, and
MAX_FILES = 10  # files beside the present one, as upstream's flags are usually set
_CONTROL = re.compile(rb"\x7f|\xc2[\x80-\x9f]")  # DEL, and those from U+0080 on in UTF-8
_BACKLOG = 10_000  # events that wait for the disk; more are lost, and that is said

log = logger(__name__)


def _line(event: Obj) -> bytes:
    """Encode an event as one line, which a terminal may be shown.

    JSON escapes but the first of the two sets of control characters, and some of a request's bytes
    may be no text at all.
    """
    try:
        line = msgspec.json.encode(event)
    except UnicodeEncodeError:
        line = json.dumps(event, separators=(",", ":")).encode()
    if b"\xc2" in line or b"\x7f" in line:
        line = _CONTROL.sub(lambda found: b"\\u%04x" % found[0][-1], line)
    return line + b"\n"


class AuditLog:
    def __init__(self, path: Path, *, size: int = MAX_SIZE, files: int = MAX_FILES) -> None:
        self._path = path
        self._size, self._files = size, files
        self._events: queue.Queue[bytes | None] = queue.Queue(_BACKLOG)
        self._lost = 0
        self._fd = self._open()
        self._thread = threading.Thread(target=self._write_all, name="audit log", daemon=True)
        self._thread.start()

    def write(self, event: Obj) -> None:
        try:
            self._events.put_nowait(_line(event))
        except queue.Full:
            self._lost += 1
            if self._lost & (self._lost - 1) == 0:  # 1, 2, 4, 8, ...
                log.error("audit events lost: the disk is too slow", lost=self._lost)

    def close(self) -> None:
        """Return when everything is in the file."""
        self._events.put(None)
        self._thread.join()
        os.close(self._fd)

    def _open(self) -> int:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)

    # In the thread

    def _write_all(self) -> None:
        while True:
            line = self._events.get()
            if line is None:
                return
            try:
                self._write(line)
            except OSError as error:
                log.error("cannot write the audit log", path=self._path, error=error)

    def _write(self, line: bytes) -> None:
        if os.fstat(self._fd).st_size + len(line) > self._size:
            self._begin_another()
        while line:
            line = line[os.write(self._fd, line) :]

    def _begin_another(self) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(now))
        stem, suffix = self._path.stem, self._path.suffix
        full = self._path.with_name(f"{stem}-{stamp}.{int(now % 1 * 1e6):06d}{suffix}")
        self._path.rename(full)
        os.close(self._fd)
        self._fd = self._open()
        older = sorted(self._path.parent.glob(f"{stem}-*{suffix}"))
        for old in older[: max(len(older) - self._files, 0)]:
            old.unlink(missing_ok=True)
