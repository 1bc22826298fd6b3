"""Carries out the life of a pod: starts, signals and reaps containers, keeps logs and journal.

`main` runs it as the first process of the pod; Life decides, and this does, in one thread that
sleeps in poll() until a pipe, a child, the uplink or a deadline wakes it. Records are durable
before anyone is told. It never waits for the control plane.
"""

from __future__ import annotations

import os
import select
import time

from . import life
from .journal import Journal
from .lean import signal, value
from .logs import LogFile, tail
from .plan import Container, Plan
from .process import exit_of, spawn
from .runtimes import Box, Launch
from .volumes import VolumeError
from .workshop import Workshop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .runtimes import Runtime

READ_SIZE = 65536
DRAIN_TIME = 2.0  # what may hold a container's pipes open after its end: escaped processes


class Clock:
    """Unix time that never jumps: the wall's at start, then the monotonic clock's steps."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._offset


@value
class Run:
    """One run of one container, from its launch to the last byte of its output."""

    box: Box
    runtime: Runtime
    launch: Launch
    log: LogFile
    launcher: int
    streams: dict[int, str]  # pipe -> stdout or stderr
    stdin: int = -1
    pid: int = 0  # the container's first process; 0: not known (yet)
    output: bytes = b""  # until it runs, all there is to read are the launcher's words
    status: int | None = None
    drain_until: float = 0.0
    is_oom: bool = False


class Supervisor:
    def __init__(
        self,
        plan: Plan,
        machine: life.Life,
        journal: Journal,
        workshop: Workshop,
        runtime_for: Callable[[Container], Runtime],
        folder: str,
    ) -> None:
        self._plan, self._life, self._journal = plan, machine, journal
        self._workshop, self._runtime_for, self._folder = workshop, runtime_for, folder
        self._containers = {container.name: container for container in plan.containers}
        self._runs: dict[str, Run] = {}
        self._orphans: dict[int, int] = {}  # ended before their launcher told us of them
        self._clock = Clock()
        self._poll = select.poll()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll.register(self._wake_read, select.POLLIN)
        self._inbox: list[life.Event] = []
        self._exit_code: int | None = None
        self.on_records: Callable[[], None] = lambda: None
        self.on_log: Callable[[], None] = lambda: None
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    def post(self, event: life.Event) -> None:
        """Hand an event to the supervisor from another thread."""
        self._inbox.append(event)
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            pass  # it will wake anyway

    def watch_signals(self) -> None:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_terminate)

    def _on_terminate(self, *_: object) -> None:
        grace, kill_wait = self._plan.pod.grace, self._plan.kill_wait
        if kill_wait:  # the engine's KILL comes then, whatever the pod asked for
            grace = min(grace, max(kill_wait - 2, 1))
        self._inbox.append(life.Terminate("signal", grace))

    def is_log_open(self, name: str, restart: int) -> bool:
        """Whether more lines may come (asked by the uplink)."""
        run = self._runs.get(name)
        return run is not None and run.box.restart == restart

    def record(self, fields: dict[str, Any]) -> None:
        """Add to the journal; made durable with the next turn."""
        self._journal.append(fields, self.now())

    def now(self) -> float:
        return self._clock.now()

    # The loop

    def begin(self, started: Callable[[], dict[str, Any]]) -> None:
        """Start what comes first; the journal's opening record is made while that starts."""
        actions = self._life.observe(life.Begin(), self.now())
        starts = [action for action in actions if isinstance(action, life.Start)]
        for action in starts:
            self._act(action)
        self.record(started())
        for other in actions:
            if other not in starts:
                self._act(other)

    def run(self) -> int:
        """Until the pod is over; the agent's exit code."""
        self._flush()
        while self._exit_code is None:
            for fd, _ in self._poll.poll(self._timeout()):
                if fd == self._wake_read:
                    self._drain_wakeups()
                else:
                    self._read(fd)
            self._turn()
        return self._exit_code

    def _turn(self) -> None:
        """All that is due, then one write of the journal for all of it."""
        self._reap()
        while self._inbox:
            self._observe(self._inbox.pop(0))
        now = self.now()
        for run in [run for run in self._runs.values() if run.drain_until]:
            if now >= run.drain_until:
                self._close_streams(run)
        deadline = self._life.next_deadline()
        if deadline is not None and now >= deadline:
            self._observe(life.Tick())
        self._flush()

    def _timeout(self) -> int | None:
        """Milliseconds until something is due."""
        times = [run.drain_until for run in self._runs.values() if run.drain_until]
        deadline = self._life.next_deadline()
        if deadline is not None:
            times.append(deadline)
        if not times:
            return None
        return max(0, int((min(times) - self.now()) * 1000) + 1)

    def _drain_wakeups(self) -> None:
        try:
            os.read(self._wake_read, READ_SIZE)
        except BlockingIOError:
            pass

    def _flush(self) -> None:
        if self._journal.flush():
            self.on_records()

    # What Life wants

    def _observe(self, event: life.Event) -> None:
        for action in self._life.observe(event, self.now()):
            self._act(action)

    def _act(self, action: life.Action) -> None:
        if isinstance(action, life.Record):
            self.record(action.fields)
        elif isinstance(action, life.Start):
            self._start(self._containers[action.container], action.restart)
        elif isinstance(action, life.Signal):
            self._signal(action.container, action.number)
        else:
            self._exit_code = action.code

    def _start(self, container: Container, restart: int) -> None:
        """Launch a container; failures come back to Life as events, as all else does."""
        try:
            box = self._workshop.box(container, restart)
            runtime = self._runtime_for(container)
            self._launch(runtime, box, runtime.compose(box))
        except (VolumeError, OSError) as error:
            self._inbox.append(life.NotStarted(container.name, str(error)))
            self._wake()

    def _launch(self, runtime: Runtime, box: Box, launch: Launch) -> None:
        name = box.container.name
        log = LogFile(os.path.join(self._folder, "logs", name, f"{box.restart}.log"))
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        in_read, in_write = os.pipe() if box.container.stdin else (self._null, -1)
        launcher = spawn(launch.body, (in_read, out_write, err_write))
        for fd in (out_write, err_write, *((in_read,) if in_write >= 0 else ())):
            os.close(fd)
        streams = {out_read: "stdout", err_read: "stderr"}
        for fd in streams:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)
        self._runs[name] = Run(box, runtime, launch, log, launcher, streams, in_write)

    def _signal(self, name: str, number: int) -> None:
        run = self._runs.get(name)
        pid = (run.pid or run.launcher) if run else 0
        if run and pid and run.status is None:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    # What happens

    def _read(self, fd: int) -> None:
        run = next(run for run in self._runs.values() if fd in run.streams)
        try:
            data = os.read(fd, READ_SIZE)
        except BlockingIOError:
            return
        if not data:
            self._close_stream(run, fd)
        elif run.pid:
            run.log.feed(run.streams[fd], data)
            self.on_log()
        else:
            self._read_before_start(run, fd, data)

    def _read_before_start(self, run: Run, fd: int, data: bytes) -> None:
        """The launcher speaks, or a container that was quicker than the news of its start."""
        if os.path.exists(run.launch.pid_file):
            self._adopt(run)
            run.log.feed(run.streams[fd], data)
        else:
            run.output += data

    def _close_stream(self, run: Run, fd: int) -> None:
        self._poll.unregister(fd)
        os.close(fd)
        run.log.end(run.streams.pop(fd))
        self._finish_if_done(run)

    def _close_streams(self, run: Run) -> None:
        for fd in list(run.streams):
            self._close_stream(run, fd)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._reaped(pid, status)

    def _reaped(self, pid: int, status: int) -> None:
        for run in self._runs.values():
            if pid == run.launcher:
                self._launched(run, status)
                return
            if pid == run.pid:
                self._ended(run, status)
                return
        if any(not run.pid for run in self._runs.values()):
            self._orphans[pid] = status

    def _launched(self, run: Run, status: int) -> None:
        """The launcher has ended: the container runs, or the launcher says why not."""
        run.launcher = 0
        if status != 0:
            self._not_started(run)
            return
        self._adopt(run)

    def _adopt(self, run: Run) -> None:
        if run.pid:
            return
        with open(run.launch.pid_file) as file:
            run.pid = int(file.read())
        self._observe(life.Started(run.box.container.name))
        if run.output:
            run.log.feed("stderr", run.output)
        if run.pid in self._orphans:
            self._ended(run, self._orphans.pop(run.pid))

    def _not_started(self, run: Run) -> None:
        for fd in list(run.streams):
            try:
                run.output += os.read(fd, READ_SIZE)
            except BlockingIOError:
                pass
        words = run.runtime.words(run.launch, run.output.decode(errors="replace"))
        self._close_streams(run)
        self._discard(run)
        self._observe(life.NotStarted(run.box.container.name, words))

    def _ended(self, run: Run, status: int) -> None:
        """The first process is gone, and all of the container with it; its last words may not."""
        run.status = status
        run.drain_until = self.now() + DRAIN_TIME
        self._finish_if_done(run)

    def _finish_if_done(self, run: Run) -> None:
        if run.status is None or run.streams or not run.drain_until:
            return
        run.drain_until = 0.0
        code, number = exit_of(run.status)
        message = self._message(run, code)
        self._discard(run)
        event = life.Exited(run.box.container.name, code, number, run.is_oom, message)
        self._observe(event)

    def _message(self, run: Run, code: int) -> str:
        text = self._workshop.message(run.box)
        falls_back = run.box.container.message_policy == "FallbackToLogsOnError"
        if not text and code != 0 and falls_back:
            text = tail(run.log.path)
        return text

    def _discard(self, run: Run) -> None:
        run.log.close()  # before the uplink learns that no more comes
        del self._runs[run.box.container.name]
        if run.stdin >= 0:
            os.close(run.stdin)
        run.runtime.remove(run.box)
        self._workshop.discard(run.box)
