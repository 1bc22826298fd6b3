"""Serves container logs as kubectl asks for them: cut, stamped, followed; from files and agents.

Called by the server for one request at a time. Logs lie in the pod's folder in the CRI's format;
what is there is read from there, and what is yet to come from the agent, because a shared file
system may be seconds behind. Errors are upstream's own sentences.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...api.objects import Obj, condition_of, meta
from ...api.times import parse as parse_time
from ...errors import BadRequest, NotFound
from ...wellknown import ALLOCATED
from ..agents.connection import LogStream
from .log_files import CHUNK, LogFiles

FILE_POLL = 0.25  # seconds between two looks at a file that no agent speaks for


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The content of PodLogOptions; `rank` is ours, for a container that runs once for every
    task.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: float | None = None
    limit_bytes: int | None = None
    stream: str = "All"
    rank: int | None = None

    @property
    def mark(self) -> bytes:
        """Return the mark on the lines of that rank; empty for those of all."""
        return b"" if self.rank is None else b":%d" % self.rank

    @classmethod
    def parse(cls, query: Mapping[str, str], now: float) -> LogOptions:
        since_seconds = _number(query, "sinceSeconds", 1)
        since = None if since_seconds is None else now - since_seconds
        if query.get("sinceTime"):
            try:
                since = parse_time(query["sinceTime"])
            except ValueError as error:
                raise BadRequest(f"sinceTime: {error}") from error
        return cls(
            follow=_flag(query, "follow"),
            previous=_flag(query, "previous"),
            timestamps=_flag(query, "timestamps"),
            tail_lines=_number(query, "tailLines", 0),
            since=since,
            limit_bytes=_number(query, "limitBytes", 1),
            stream=query.get("stream") or "All",
            rank=_number(query, "rank", 0),
        )


_MOST_DIGITS = 19  # upstream's are of 64 bits


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("1", "true", "t")


def _number(query: Mapping[str, str], name: str, least: int) -> int | None:
    text = query.get(name)
    if not text:
        return None
    is_number = len(text) < _MOST_DIGITS and text.lstrip("-").isdecimal()
    if not is_number or int(text) < least:
        found = text[:_MOST_DIGITS]
        raise BadRequest(f"{name}: expected a number not less than {least}, found {found!r}")
    return int(text)


def which_run(pod: Obj, status: Obj, container: str, *, previous: bool) -> int:
    """Return the number of the run whose log is asked for.

    As validateContainerLogStatus of pkg/kubelet/kubelet_pods.go, with its sentences.
    """
    name = meta(pod)["name"]
    spec = pod["spec"]
    groups = ("containers", "initContainers", "ephemeralContainers")
    known = [c["name"] for group in groups for c in spec.get(group) or []]
    if container not in known:
        raise NotFound(f'container "{container}" not found in pod "{name}"')
    lists = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    each = [item for key in lists for item in status.get(key, [])]
    found = next((item for item in each if item["name"] == container), None)
    who = f'container "{container}" in pod "{name}"'
    if found is None:
        raise BadRequest(f"{who} is waiting to start: {_why_queued(status)}")
    state, last = found.get("state") or {}, (found.get("lastState") or {}).get("terminated")
    if previous:
        if not last or not last.get("containerID"):
            raise BadRequest(f"previous terminated {who} not found")
        return _run_of(last["containerID"])
    if "running" in state:
        return _run_of(found["containerID"])
    ended = state.get("terminated") or last
    if ended and ended.get("containerID"):
        return _run_of(ended["containerID"])
    if ended:
        raise BadRequest(f"{who} is terminated")
    raise BadRequest(f"{who} is waiting to start: {_why_waiting(state.get('waiting') or {})}")


def _why_waiting(waiting: Obj) -> str:
    reason = str(waiting.get("reason", ""))
    words = {
        "ErrImagePull": "image can't be pulled",
        "ImagePullBackOff": "trying and failing to pull image",
    }
    return words.get(reason, reason or "no logs yet")


def _why_queued(status: Obj) -> str:
    if status.get("phase") in ("Succeeded", "Failed"):
        return f"it never did; the pod has {status['phase'].lower()}: {status.get('message', '')}"
    condition = condition_of({"status": status}, ALLOCATED)
    return str(condition.get("message") or condition.get("reason")) if condition else "Pending"


def _run_of(container_id: str) -> int:
    return int(container_id.rpartition(".")[2])


class Cutter:
    """Cuts lines in the CRI's format to what the client wants to see of them."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._rest = b""
        self._left = options.limit_bytes
        self._is_line_start = True

    @property
    def is_full(self) -> bool:
        return self._left is not None and self._left <= 0

    def cut(self, data: bytes) -> bytes:
        """Return what is to be shown of the next bytes of the file."""
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if not newline:
            return b""
        shown = b"".join(self._shown(line) for line in whole.split(b"\n"))
        if self._left is not None:
            shown = shown[: self._left]
            self._left -= len(shown)
        return shown

    def _shown(self, line: bytes) -> bytes:
        """Return what is shown of `<time> <stream> <F|P>[:<rank>] <text>`; a partial line goes on
        in the next.
        """
        parts = line.split(b" ", 3)
        if len(parts) < 3:
            return b""
        stamp, stream, flag, text = (*parts, b"")[:4]
        if not flag.endswith(self._options.mark) or not self._is_wanted(stamp, stream):
            return b""
        head = stamp + b" " if self._options.timestamps and self._is_line_start else b""
        self._is_line_start = not flag.startswith(b"P")
        return head + text + (b"\n" if self._is_line_start else b"")

    def _is_wanted(self, stamp: bytes, stream: bytes) -> bool:
        wanted = self._options.stream
        if wanted != "All" and stream.decode(errors="replace") != wanted.lower():
            return False
        if self._options.since is None:
            return True
        try:
            return parse_time(stamp.decode()) >= self._options.since
        except (ValueError, UnicodeDecodeError):
            return True


def tail_offset(files: LogFiles, lines: int, mark: bytes = b"") -> int:
    """Return where the last `lines` lines of a log begin; the parts of a long line count as one.

    Only lines with the `mark` of a rank count, where there is one.
    """
    end, first = files.end(), min(files.starts(), default=0)
    start, step = end, CHUNK
    while start > first:
        start = max(first, end - step)
        step *= 2
        begin, data = files.span(start, end)
        is_whole = start == first or begin > start  # what was before it is gone
        found = _nth_last(data, lines, mark, is_whole=is_whole)
        if found is not None:
            return begin + found
    return first


def _nth_last(buffer: bytes, lines: int, mark: bytes, *, is_whole: bool) -> int | None:
    """Return where the last `lines` lines begin in the end of a file; None if further up than
    this.
    """
    position = last = buffer.rfind(b"\n") + 1
    count = 0
    while position > 0:
        begin = buffer.rfind(b"\n", 0, position - 1) + 1
        if begin == 0 and not is_whole:
            return None
        parts = buffer[begin:position].split(b" ", 3)
        flag = parts[2] if len(parts) > 2 else b""
        # A line ends with what is not a part; the last one may not have ended yet.
        is_end = not flag.startswith(b"P") or position == last
        count += is_end and flag.endswith(mark)
        if count > lines:
            return position
        position = begin
    return 0 if is_whole else None


class Feed(Protocol):
    """The facts known of the run whose log is read."""

    def is_over(self) -> bool:
        """Return whether nothing will be added to the log any more."""
        ...

    def open(self, offset: int, *, follow: bool) -> LogStream | None:
        """Open the log from there on as the agent has it; return None while no agent is
        connected.
        """
        ...


async def read_log(path: Path, options: LogOptions, feed: Feed) -> AsyncGenerator[bytes, None]:
    """Yield what the client sees, as it comes."""
    files, offset = LogFiles(path), 0
    if options.tail_lines is not None:
        offset = await asyncio.to_thread(tail_offset, files, options.tail_lines, options.mark)
    cutter = Cutter(options)
    async with aclosing(_raw(files, offset, options.follow, feed)) as raw:
        async for data in raw:
            shown = cutter.cut(data)
            if shown:
                yield shown
            if cutter.is_full:
                return


async def _raw(
    files: LogFiles, offset: int, follow: bool, feed: Feed
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a log: from its files what is there, from the agent what it has beyond
    that.

    Where the agent's connection breaks, or there is none, or what we wait for has gone meanwhile,
    the files are looked at again and again until the run is over.
    """
    while True:
        was_over = feed.is_over()
        while True:
            offset, data = await asyncio.to_thread(files.read, offset)
            if not data:
                break
            offset += len(data)
            yield data
        if was_over:
            return
        stream = feed.open(offset, follow=follow)
        if stream is not None:
            try:
                while data := await stream.read():
                    offset += len(data)
                    yield data
                if stream.is_complete:
                    return
            finally:
                stream.close()
        if not follow:
            return
        await asyncio.sleep(FILE_POLL)
