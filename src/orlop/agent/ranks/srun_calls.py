"""Runs the calls of srun of a container that launches its ranks itself: heard, answered, ended.

Kept by the leader, which forks for it and tells it who has ended. Each call is the site's srun, as
the pod's user and in the job's own environment; its tasks meet at a point of their own, because
Slurm ends with a step all that came of it. No call outlives whoever waits for it, nor the
container.
"""

from __future__ import annotations

import os
import time

from ..container.runtimes import find
from ..linux.fast_imports import signal
from .srun_options import Refused
from .srun_shim import Call, StandIn
from .starter import MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..container.runtimes import Box

MOST = 64  # at once; each is a process of Slurm's, with threads of its own
LAST = 15.0  # seconds for srun to end its tasks, once the container has ended
PAUSE = 0.05


class Calls:
    """`start` runs srun for a call, or has its caller told why not; `starter` is what srun runs."""

    def __init__(
        self,
        box: Box,
        start: Callable[[list[str], dict[str, str], Call, str], int],
        starter: Callable[[int], list[str]],
    ) -> None:
        self._standin, self._start, self._starter = StandIn(box), start, starter
        self._running: dict[int, Call] = {}  # by the number of srun's process
        self._number = 0

    def open(self) -> None:
        self._standin.open()

    def fds(self) -> list[int]:
        """Return descriptors to read: the bell, and those that tell that a caller is gone."""
        waiting = [call for call in self._running.values() if not call.is_left]
        return [self._standin.ring, *(fd for call in waiting for fd in (call.process, call.answer))]

    def on_ready(self, fd: int, holds: Callable[[int], bool]) -> None:
        if fd == self._standin.ring:
            for call in self._standin.calls(holds):
                self._run(call)
            return
        for pid, call in self._running.items():
            if fd in (call.process, call.answer) and not call.is_left:
                call.is_left = True
                os.kill(pid, signal.SIGTERM)

    def _run(self, call: Call) -> None:
        self._number += 1
        argv, env, refusal = [], {}, ""
        try:
            if len(self._running) >= MOST:
                raise Refused(f"{MOST} calls run at once; wait for one of them to end")
            job = os.environ.get("SLURM_JOB_ID", "")
            wanted = call.wanted(job)
            argv = [find(["srun"]) or "srun", f"--jobid={job}", *wanted.options(), "--export=ALL"]
            # All variables, for whoever makes the container; which it shows is the starter's.
            argv += [*self._starter(self._number), *(MARK + word for word in wanted.command)]
            env = call.env(os.environ, wanted)
        except Refused as error:
            refusal = f"srun: error: {error}\n"
        if len(self._running) >= 2 * MOST:  # and nobody reads what the others are told
            call.end(1)
            return
        try:
            self._running[self._start(argv, env, call, refusal)] = call
        except OSError as error:  # the container may have left no room for another process
            os.write(2, f"orlop agent: a call of srun: {error}\n".encode(errors="replace"))
            call.end(None)

    def on_end(self, pid: int, code: int) -> None:
        call = self._running.pop(pid, None)
        if call is not None:
            call.end(code)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Tell all to end."""
        for pid in self._running:
            os.kill(pid, number)

    def end(self, reap: Callable[[], None]) -> None:
        """End what still runs when the container has ended."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.stop(number)
            until = time.monotonic() + LAST
            while self._running and time.monotonic() < until:
                time.sleep(PAUSE)
                reap()
