"""The process in which a target is run: `python -m tests.fuzzing.worker FOLDER`.

Started by `hunt`, which says in FOLDER/task.json what is to be done and reads FOLDER/report.json
line by line. It judges what it can see of itself: errors that are none of the target's own, inputs
that take long, memory that grows. What ends it, or never ends, its watcher sees.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import logging
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from .board import Board
from .faults import ERROR, GROWTH, MEMORY, SLOW, Task, signature_of
from .mutation import Mutator
from .target import Target
from .tracing import Tracer

DEADLINE = 1.0  # seconds for one input
MOST_MEMORY = 256 << 20  # bytes more for one input
MOST_GROWTH = 32 << 20  # bytes more at the end than after the warm-up
ADDRESS_SPACE = 3 << 30
WARM_UP = 5  # of so many parts, the first
TRACED = 16  # one of so many inputs
MOST_KEPT = 400  # inputs to go on from, beside the seeds
MOST_FAULTS = 20
FOUND = Path(__file__).parent / "found"
_QUICK = 0.01  # what takes less than this cannot have taken much memory, either
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_PAGE = resource.getpagesize()


class Worker:
    """One target; `index` is its place in the task."""

    def __init__(self, task: Task, index: int, board: Board, report: TextIO) -> None:
        module, self._name = task.targets[index]
        self._task, self._index = task, index
        self._board, self._report = board, report
        self._board.write(index, 0, b"")
        # Only what it needs is imported: that takes long enough.
        self._target: Target = importlib.import_module(module).target.find(self._name).make()
        self._seeds = (*self._target.seeds, *found(self._name))
        self._chance = random.Random(f"{task.seed} {self._name}")
        self._tracer = Tracer()
        self._kept: list[bytes] = []
        self._known: set[str] = set()
        self._number = 0
        self._refused = 0
        self._is_over = False
        self._most = _peak()

    # One input after the other

    def hunt(self) -> None:
        target, task = self._target, self._task
        mutator = Mutator(
            self._chance,
            target.words,
            is_json=target.is_json,
            longest=target.longest,
            largest=target.largest,
        )
        began, worked, warm = time.monotonic(), time.process_time(), 0
        for seed in self._seeds:
            self._run(seed, is_traced=True)
        while self._number < task.inputs and not self._is_over:
            if not warm and self._number >= task.inputs // WARM_UP:
                warm = self._resident()
            self._run(mutator.change(self._pick(), self._pick()), self._number % TRACED == 0)
        grown = self._resident() - warm if not self._is_over else 0
        if grown > MOST_GROWTH:
            words = f"{grown >> 20} MiB more after {self._number} inputs than after a fifth of them"
            self._tell({"fault": GROWTH, "words": words, "input": ""})
        self._tell(
            {
                "done": self._number,
                "seconds": time.monotonic() - began,
                "worked": time.process_time() - worked,
                "refused": self._refused,
                "kept": len(self._kept),
                "lines": self._tracer.reached,
                "grown": grown,
            }
        )

    def replay(self, data: bytes) -> None:
        """One input alone."""
        self._run(data, is_traced=False)
        self._tell({"done": 1, "seconds": 0.0, "refused": self._refused})

    def _pick(self) -> bytes:
        kept = self._kept
        if kept and self._chance.random() < 0.5:
            return kept[int(self._chance.random() * len(kept))]
        return self._seeds[int(self._chance.random() * len(self._seeds))]

    def _keep(self, data: bytes) -> None:
        if len(data) > self._target.longest:
            return
        if len(self._kept) < MOST_KEPT:
            self._kept.append(data)
        else:
            self._kept[int(self._chance.random() * MOST_KEPT)] = data

    def _run(self, data: bytes, is_traced: bool) -> None:
        self._number += 1
        self._board.write(self._index, self._number, data)
        target, error = self._target, None
        began = time.perf_counter()
        try:
            if is_traced:
                self._tracer.watch(target.run, data)
            else:
                target.run(data)
        except target.refuses as refused:
            self._refused += 1
            error = refused
        except KeyboardInterrupt:
            raise
        except BaseException as wrong:
            error = wrong
            self._tell_error(data, wrong)
        took = time.perf_counter() - began
        is_worth = is_traced and self._tracer.was_worth(data)
        if is_worth or (error is not None and self._tracer.is_refused_anew(error)):
            self._keep(data)
        if took > _QUICK:
            self._look_at_memory(data)
            if took > DEADLINE and not self._is_over:  # so much memory takes its time, too
                self._look_at_time(data)

    # Faults

    def _tell_error(self, data: bytes, error: BaseException) -> None:
        words = "".join(traceback.format_exception(error))[-4000:]
        self._tell_fault(ERROR, signature_of(error), data, words)

    def _look_at_time(self, data: bytes) -> None:
        """Once more, by the clock of this process alone: others may have had the machine."""
        self._board.write(self._index, self._number, data)
        began = time.process_time()
        try:
            self._target.run(data)
        except Exception:
            pass  # told already
        took = time.process_time() - began
        if took > DEADLINE:
            words = f"{took:.1f} s for {len(data)} bytes, twice"
            self._tell_fault(SLOW, "", data, words)

    def _look_at_memory(self, data: bytes) -> None:
        most = _peak()
        grown, self._most = most - self._most, most
        if grown > MOST_MEMORY:
            words = f"{grown >> 20} MiB more for {len(data)} bytes"
            self._tell_fault(MEMORY, "", data, words)

    def _tell_fault(self, kind: str, signature: str, data: bytes, words: str) -> None:
        """Once for each place that it can come from."""
        if f"{kind} {signature}" not in self._known:
            self._known.add(f"{kind} {signature}")
            self._is_over = kind in (SLOW, MEMORY) or len(self._known) >= MOST_FAULTS
            self._tell({"fault": kind, "words": words, "input": data.hex()})

    def _tell(self, words: dict[str, Any]) -> None:
        self._report.write(json.dumps({"target": self._name, **words}) + "\n")

    def _resident(self) -> int:
        gc.collect()
        _LIBC.malloc_trim(0)  # what is free and not given back is no growth
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * _PAGE


def found(name: str) -> list[bytes]:
    """What parsers once fell over: each must take it for ever, and more like it is tried."""
    return [path.read_bytes() for path in sorted((FOUND / name).glob("*"))]


def _peak() -> int:
    """The most memory of this very program: ru_maxrss begins with that of who started it."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def main(folder: Path) -> int:
    said = json.loads((folder / "task.json").read_text())
    task = Task(**said)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # nobody would look at what it finds
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not task.is_native:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    logging.disable(logging.CRITICAL)  # a line for each input that is refused is no finding
    os.chdir(folder)
    folder.chmod(0o711)  # for targets that run as somebody who may do less
    tempfile.tempdir = str(folder)
    board = Board(folder / "board")
    with (folder / "report.json").open("a", buffering=1) as report:
        for index in range(len(task.targets)):
            worker = Worker(task, index, board, report)
            if task.replay is not None:
                worker.replay(bytes.fromhex(task.replay))
            else:
                worker.hunt()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
