"""Runs a target in a worker and watches it: what ends the worker, or never ends, is a fault, too.

Called by the command line and by tests. Each fault's input is written to a file of its own. An
input that stands still is tried once more, alone, before it counts, since the machine may be busy
with something else.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.devroot import PROJECT

from .board import Board
from .faults import CRASH, HANG, Fault, Outcome, Task
from .native import environment
from .target import Entry

FOLDER = PROJECT / ".fuzz"  # where inputs at fault are kept
STILL = 15.0  # seconds of work on one input, or of sleep over it
STILL_ALONE = 10.0
_LOOK = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")
_SAID = 6000  # characters of what a worker said at its end


def hunt(
    entries: Sequence[Entry], inputs: int, seed: int = 1, folder: Path = FOLDER
) -> dict[str, Outcome]:
    """Run targets with so many inputs each; the same seed makes the same ones."""
    names = [entry.name for entry in entries]
    with tempfile.TemporaryDirectory(prefix="orlop-fuzz-") as place:
        watched = Watched(Path(place), _task(entries, inputs=inputs, seed=seed))
        end = watched.wait(STILL)
        faults: dict[str, list[Fault]] = {name: [] for name in names}
        numbers: dict[str, dict[str, Any]] = {name: {} for name in names}
        for line in watched.report():
            name = line["target"]
            if "fault" in line:
                data = bytes.fromhex(line["input"])
                faults[name].append(_fault(folder, name, line["fault"], line["words"], data))
            else:
                numbers[name] = line
        if end is not None:
            index, reached = watched.place
            name = names[index]
            faults[name] += _judged(watched, folder, entries[index], end)
            numbers[name].setdefault("done", reached)
        return {name: Outcome(tuple(faults[name]), numbers[name]) for name in names}


def replay(entry: Entry, data: bytes) -> list[str]:
    """What is wrong with one input; empty: nothing."""
    end, found = _alone(entry, data)
    said = [f"{kind}: {words}" for kind, words in found]
    return said + ([end] if end is not None else [])


def _alone(entry: Entry, data: bytes) -> tuple[str | None, list[tuple[str, str]]]:
    """How a worker ends that has one input alone, if not by itself, and what it finds wrong."""
    with tempfile.TemporaryDirectory(prefix="orlop-fuzz-") as place:
        watched = Watched(Path(place), _task([entry], replay=data.hex()))
        end = watched.wait(STILL_ALONE)
        found = [(one["fault"], one["words"]) for one in watched.report() if "fault" in one]
        return (f"{end}: {watched.said()}" if end is not None else None), found


def _task(entries: Sequence[Entry], **options: Any) -> Task:
    targets = tuple((entry.module, entry.name) for entry in entries)
    return Task(targets, is_native=any(entry.is_native for entry in entries), **options)


def _judged(watched: Watched, folder: Path, entry: Entry, end: str) -> Iterator[Fault]:
    data = watched.input
    if end == HANG:
        end_alone, found = _alone(entry, data)
        if end_alone is None:  # the machine had no time for it, and now had
            for kind, words in found:
                yield _fault(folder, entry.name, kind, words, data)
            return
    yield _fault(folder, entry.name, end, watched.said(), data)


def _fault(folder: Path, name: str, kind: str, words: str, data: bytes) -> Fault:
    if not data:
        return Fault(kind, words)
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"{kind}-{hashlib.sha256(data).hexdigest()[:12]}"
    file.write_bytes(data)
    return Fault(kind, words, file)


class Progress:
    """Whether a process gets on, by what it writes, its own time, and whether it sleeps."""

    def __init__(self, pid: int) -> None:
        self._pid, self._writes = pid, -1
        self._worked_at = self._slept_since = 0.0

    def stands_still(self, writes: int, seconds: float) -> bool:
        try:
            stat = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False  # it has just ended
        worked, now = (int(stat[11]) + int(stat[12])) / _TICKS, time.monotonic()
        if writes != self._writes:
            self._writes, self._worked_at, self._slept_since = writes, worked, now
        if stat[0] not in "SD":
            self._slept_since = now
        return worked - self._worked_at > seconds or now - self._slept_since > seconds


class Watched:
    """One worker."""

    def __init__(self, folder: Path, task: Task) -> None:
        self._folder = folder
        self._board = Board(folder / "board", is_new=True)
        (folder / "task.json").write_text(json.dumps(asdict(task)))
        (folder / "report.json").touch()
        extra = environment() if task.is_native else {}
        with (folder / "said").open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzzing.worker", str(folder)],
                cwd=PROJECT,
                env={**os.environ, "PYTHONHASHSEED": "0", **extra},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def wait(self, still: float) -> str | None:
        """Until it is over; how it ended, if not by itself.

        It hangs if it has worked on one input for `still` seconds of its own time, or has slept
        over it for as long; a machine that has no time for it says nothing.
        """
        progress = Progress(self._process.pid)
        try:
            while True:
                try:
                    code = self._process.wait(_LOOK)
                    return None if code == 0 else CRASH
                except subprocess.TimeoutExpired:
                    pass
                has_begun = self._board.place[1] > 0  # before that it imports what it needs
                if progress.stands_still(self._board.writes, still if has_begun else 4 * still):
                    return HANG
        finally:
            self._process.kill()
            self._process.wait()

    @property
    def place(self) -> tuple[int, int]:
        """Which of its targets it was at, and at which input."""
        return self._board.place

    @property
    def input(self) -> bytes:
        return self._board.input

    def report(self) -> list[dict[str, Any]]:
        lines = (self._folder / "report.json").read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def said(self) -> str:
        code = self._process.returncode
        words = (self._folder / "said").read_bytes()[:_SAID].decode(errors="replace")
        return f"ended with {code}: {words}"
