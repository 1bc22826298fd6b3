"""Knows processes of this host by number and start time, so that a number used again is no mistake.

Used by the local engine for agents that it started, or that an earlier control plane did. A process
that is not our child can be watched and signalled, but how it ended is lost.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Started:
    """Which process: its number, and when it began in clock ticks since which boot."""

    pid: int
    ticks: int
    boot: str


def now() -> float:
    return time.time()


def boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def memory_mib() -> int:
    for line in (_PROC / "meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) // 1024
    return 0


def recorded(path: Path) -> Started | None:
    """Return the process that wrote its boot and its line of /proc/<pid>/stat; None: not whole."""
    text = path.read_text()
    if text.count("\n") < 2:
        return None
    boot, stat = text.splitlines()
    pid, ticks, _ = _parsed(stat)
    return Started(pid, ticks, boot)


def of_child(pid: int, boot: str) -> Started:
    """Identify a process that we have just started and not waited for."""
    found = _stat(pid)
    return Started(pid, found[0] if found is not None else -1, boot)


class Process:
    """A running process, held by a descriptor, which cannot come to mean another."""

    def __init__(self, which: Started) -> None:
        self._which = which
        self._code: int | None = None
        self.descriptor = self._open()

    def _open(self) -> int | None:
        try:
            descriptor = os.pidfd_open(self._which.pid)
        except OSError:  # gone already, or a kernel before 5.3
            return None
        if self._is_same():
            return descriptor
        os.close(descriptor)
        return None

    @property
    def started(self) -> float:
        return _booted_at() + self._which.ticks / _TICKS

    def is_alive(self) -> bool:
        """Return whether it runs; our own child is reaped when it does not."""
        if self._code is None and not self._is_same():
            try:
                pid, status = os.waitpid(self._which.pid, os.WNOHANG)
            except ChildProcessError:
                return False  # an earlier control plane's child
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is None

    def _is_same(self) -> bool:
        found = _stat(self._which.pid)
        return found is not None and found[0] == self._which.ticks and found[1] != "Z"

    def exit_code(self) -> int | None:
        """Return the exit code; None where it was not our child: nobody knows any more."""
        return self._code

    def signal(self, number: signal.Signals) -> None:
        try:
            if self.descriptor is not None:
                signal.pidfd_send_signal(self.descriptor, number)
            elif self._is_same():
                os.kill(self._which.pid, number)
        except ProcessLookupError:
            pass

    def kill_all(self) -> None:
        """End it and everything below it, now."""
        below = descendants(self._which.pid) if self._is_same() else []
        self.signal(signal.SIGKILL)
        for pid in below:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def descendants(pid: int) -> list[int]:
    """Return children, their children and so on, as they are at this moment."""
    parents: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            found = _stat(int(entry.name))
            if found is not None:
                parents.setdefault(found[2], []).append(int(entry.name))
    result, pending = [], [pid]
    while pending:
        children = parents.get(pending.pop(), [])
        result += children
        pending += children
    return result


def _stat(pid: int) -> tuple[int, str, int] | None:
    """Return start time in ticks, state and parent of a process; None where there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    _, ticks, rest = _parsed(text)
    return ticks, rest[0], int(rest[1])


def _parsed(text: str) -> tuple[int, int, list[str]]:
    """Return number, start time, and the fields after the name, which may itself hold anything."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return int(head.split()[0]), int(fields[19]), fields


def _booted_at() -> float:
    for line in (_PROC / "stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return 0.0
