"""The record of a home's control plane: where it runs, as which process, at which port.

Written by `serve` and read by every other command, on this host or another of the same shared home.
It says what was last known; whether that is still true is checked in home_lock.py.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ...files import write_private
from ...settings import Paths


@dataclass(frozen=True, slots=True)
class Record:
    """The record, with pid 0 after the control plane stopped, for next time's port and engine."""

    host: str
    pid: int
    birth: str = ""  # tells this process from a later one with its pid
    started: float = 0.0
    url: str = ""
    port: int = 0
    engine: str = ""
    job: str = ""  # the Slurm job it runs in, if any

    @property
    def is_stopped(self) -> bool:
        return self.pid == 0

    @property
    def is_of_this_host(self) -> bool:
        return self.host == socket.gethostname()

    def stopped(self) -> Record:
        return replace(self, pid=0, birth="", job="")

    def __str__(self) -> str:
        job = f"job {self.job}, " if self.job else ""
        return f"{self.host} ({job}pid {self.pid})"


def mine(**known: Any) -> Record:
    """Return the record of this very process."""
    return Record(
        host=socket.gethostname(),
        pid=os.getpid(),
        birth=birth_of(os.getpid()),
        started=round(time.time(), 3),
        **known,
    )


def read(paths: Paths) -> Record | None:
    try:
        data = json.loads(paths.pid.read_text())
        known = {field.name for field in fields(Record)}
        return Record(**{name: value for name, value in data.items() if name in known})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, AttributeError):
        return None  # half a file, of a version that did not write it atomically: as good as none


def write(paths: Paths, record: Record) -> None:
    write_private(paths.pid, json.dumps(asdict(record), indent=1) + "\n")


def birth_of(pid: int) -> str:
    """Return boot and start time of a process; empty if there is none, or just its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    # The command's name, in parentheses, may hold anything; state is field 3, start time 22.
    after_name = stat.rpartition(")")[2].split()
    return "" if after_name[0] in "ZX" else f"{boot}/{after_name[19]}"
