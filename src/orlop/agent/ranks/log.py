"""Writes the log of a rank set: what all ranks printed, each line marked with its rank.

Used by a run in place of an ordinary log. srun labels every line of its tasks, which becomes a tag
of the CRI's format (`F:3` is a whole line of rank 3); what has no label are srun's own words, and
they tell which rank failed first, and which worst. What finds no room is dropped, so that ranks go
on.
"""

from __future__ import annotations

import re

from ..container.logs import MAX_LINE, LogFile, Room
from ..linux.fast_imports import signal

_LABEL = re.compile(rb"\A *(\d+): ?")
_FAILED = re.compile(rb"srun: error: (\S+): tasks? (\S+): (.*)")
_ENDED_BY_SRUN = (128 + signal.SIGTERM, 128 + signal.SIGKILL)
_CODE = re.compile(r"Exited with exit code (\d+)")
_OUT_OF_MEMORY = "Out Of Memory"


class Failure:
    """The ranks that ended first of those that ended badly, in srun's words."""

    def __init__(self, node: str, ranks: str, what: str) -> None:
        self.node, self.ranks, self.what = node, ranks, what

    @property
    def code(self) -> int:
        """Return the code as Kubernetes counts: 128 + signal; 0 where srun's words are unknown."""
        found = _CODE.match(self.what)
        return int(found.group(1)) if found else 128 + self.signal if self.signal else 0

    @property
    def is_oom(self) -> bool:
        return self.what.startswith(_OUT_OF_MEMORY)

    @property
    def signal(self) -> int:
        if self.is_oom:
            return int(signal.SIGKILL)
        name = self.what.replace("(core dumped)", "").strip()
        numbers = range(1, signal.NSIG)
        return next((number for number in numbers if signal.strsignal(number) == name), 0)

    def __str__(self) -> str:
        who = "ranks" if any(mark in self.ranks for mark in ",-") else "rank"
        found = _CODE.match(self.what)
        if found:
            how = f"exited with code {found.group(1)}"
        else:
            how = f"ended by signal {self.signal} ({self.what})" if self.signal else self.what
        return f"{who} {self.ranks} on node {self.node}: {how}"


class RankLog(LogFile):
    """The log of one run; `is_labelled`: lines keep the label that srun gave them."""

    def __init__(
        self,
        path: str,
        is_labelled: bool = False,
        newline: bytes = b"\n",
        room: Room | None = None,
    ) -> None:
        super().__init__(path, room)
        self._is_labelled, self._newline = is_labelled, newline
        self._unshown: dict[str, bytes] = {}  # beginnings of lines
        self.failure: Failure | None = None  # the first
        self.worst: Failure | None = None  # by its exit code

    def marked(self, stream: str, line: bytes) -> tuple[bytes, bytes]:
        if "-" in stream:  # the terminal of the first rank, which srun knows nothing of
            return b":0", b"0: " + line if self._is_labelled else line
        label = _LABEL.match(line)
        if label is None:
            self._listen(line)
            return b"", line
        return b":" + label.group(1), line if self._is_labelled else line[label.end() :]

    def show_anew(self) -> None:
        self._unshown.clear()

    def shown(self, stream: str, data: bytes) -> bytes:
        """Return whole lines, without labels that nobody asked for; a terminal's as they come."""
        if "-" in stream:
            return data
        *lines, rest = (self._unshown.get(stream, b"") + data).split(b"\n")
        if len(rest) > MAX_LINE:  # a line without an end is not waited for
            lines, rest = [*lines, rest], b""
        self._unshown[stream] = rest
        if not self._is_labelled:
            lines = [_LABEL.sub(b"", line, count=1) for line in lines]
        return b"".join(line + self._newline for line in lines)

    def _listen(self, line: bytes) -> None:
        found = _FAILED.match(line)
        if found is None:
            return
        failure = Failure(*(text.decode(errors="replace") for text in found.groups()))
        if self.failure is None or self.worst is None:
            self.failure = self.worst = failure
        # Once one has failed srun ends the others, whose end tells nothing.
        elif failure.code > self.worst.code and (
            failure.is_oom or failure.code not in _ENDED_BY_SRUN
        ):
            self.worst = failure

    @property
    def words(self) -> str:
        """Return what to say of the end of it; empty where no rank failed."""
        told = [self.failure] if self.failure is self.worst else [self.failure, self.worst]
        return "; ".join(str(failure) for failure in told if failure is not None)
