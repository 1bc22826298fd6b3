"""Processes that outlive their starter, named so that no other is mistaken for them.

Used for the first process of each node, whose number is kept in a file between two commands. A
number alone is used again by the kernel; with its start time and the boot it belongs to it is not.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    start_time: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Process:
        return cls(pid, _start_time(pid), _boot())

    def is_alive(self) -> bool:
        """Whether this very process still exists, be it as a zombie."""
        try:
            return self.boot == _boot() and self.start_time == _start_time(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return False

    def send(self, number: signal.Signals) -> None:
        if self.is_alive():
            os.kill(self.pid, number)

    def to_json(self) -> dict[str, int | str]:
        return asdict(self)


def _start_time(pid: int) -> int:
    # The command's name, in parentheses, may itself hold spaces and parentheses.
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[19])


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def wait_until(
    is_true: Callable[[], bool], what: str, timeout: float = 30.0, pause: float = 0.02
) -> None:
    """Asks again and again; TimeoutError says what it was that did not come."""
    end = time.monotonic() + timeout
    while not is_true():
        if time.monotonic() > end:
            raise TimeoutError(f"after {timeout:g} s still not so: {what}")
        time.sleep(pause)
