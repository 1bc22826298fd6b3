"""Runs commands in containers beside their own: started, reaped and hung up here.

Owned by the supervisor and used in its thread, because that is the one that may fork and reap; the
sessions of the kubelet connection ask through `Supervisor.call` and hear through `Exec.tell`. A
command's input and output are moved by `streams`.
"""

from __future__ import annotations

import os

from ..container.cpusets import pinned
from ..container.run import Run
from ..linux.fast_imports import signal
from ..linux.process import exit_of, session_of, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from ..netd.netd_supervisor import NetdSupervisor
    from .nsenter import Command

HANG_UP_TIME = 1.0  # from HUP to KILL


class Exec:
    """One command: what it is, and what has become of it."""

    def __init__(
        self,
        container: str,
        argv: list[str],
        streams: tuple[int, int, int] | None,  # None: a terminal, made in the container
        tell: Callable[[Exec], None],
    ) -> None:
        self.container, self.argv, self.streams, self.tell = container, argv, streams, tell
        self.pid = 0
        self.terminal = -1  # our end of it
        self.error = ""  # why it does not run
        self.code: int | None = None
        self.is_hung_up = False
        self.kill_at: float | None = None


class Execs:
    def __init__(
        self,
        find: Callable[[str], Run | None],
        now: Callable[[], float],
        network: NetdSupervisor | None = None,
        ranks: dict[str, Any] | None = None,
    ) -> None:
        self._find, self._now, self._network = find, now, network
        self._ranks = ranks
        self._helpers: dict[int, tuple[Exec, socket.socket]] = {}
        self._running: dict[int, Exec] = {}
        self._strangers: dict[int, int] = {}  # ended before their helper told us of them

    def start(self, command: Exec) -> None:
        """Fork the helper; the streams it was given are closed here in any case."""
        run = self._find(command.container)
        try:
            if run is None or not run.pid or run.has_ended:
                self._fail(command, f'container not found ("{command.container}")')
                return
            self._launch(command, run)
        except OSError as error:
            self._fail(command, str(error))
        finally:
            for fd in set(command.streams or ()):
                os.close(fd)

    def _launch(self, command: Exec, run: Run) -> None:
        import socket  # slow to import, and not needed for a pod that nobody looks into

        from .nsenter import Command, launch

        ours, theirs = socket.socketpair()
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            what = Command(command.argv, run.box, run.pid, command.streams is None)
            given = command.streams or (null, null, null)
            body: Callable[[], object] = launch(what, theirs)
            if run.launch.leads:  # ranks are on their node's network
                body = self._beside_rank(what, run, theirs) or self._asking(body, run)
            elif self._network is not None:
                body = self._network.around(body)
            pid = spawn(pinned(body, run.cores), given, run.cgroup.procs, run.processes)
        finally:
            theirs.close()
            os.close(null)
        self._helpers[pid] = (command, ours)

    def _beside_rank(
        self, what: Command, run: Run, report: socket.socket
    ) -> Callable[[], object] | None:
        """Return how a command gets to the rank that it names; None if it names none."""
        from ..ranks.entering import launch, rank_of

        rank, ranks = rank_of(what.argv), self._ranks
        if rank is None or ranks is None:
            return None
        return launch(what, rank, ranks, run.launch.meeting, report)

    def _asking(self, body: Callable[[], object], run: Run) -> Callable[[], object]:
        """Let a command beside the first rank reach what that rank does."""
        if not (self._ranks or {}).get("network"):
            return body
        from ..ranks.starter import asking

        return asking(body, run.launch.meeting)

    def _fail(self, command: Exec, words: str) -> None:
        command.error = words
        command.tell(command)

    # What happens

    def on_exit(self, pid: int, status: int) -> bool:
        """Return whether the process that has ended was one of ours, and act on its end."""
        if pid in self._helpers:
            command, report = self._helpers.pop(pid)
            with report:
                self._on_report(command, report)
            if not self._helpers:
                self._strangers.clear()
            return True
        if pid in self._running:
            self._end(self._running.pop(pid), exit_of(status)[0])
            return True
        if self._helpers:
            self._strangers[pid] = status
        return False

    def _on_report(self, command: Exec, report: socket.socket) -> None:
        import socket

        from .nsenter import FAILED

        report.setblocking(False)
        try:
            words, terminals, _, _ = socket.recv_fds(report, 8192, 1)
        except OSError:
            words, terminals = b"", []
        if not words.isdigit():
            text = words[len(FAILED) :].decode(errors="replace")
            self._fail(command, text or "the helper ended without a word")
            return
        command.pid, command.terminal = int(words), (terminals or [-1])[0]
        self._running[command.pid] = command
        command.tell(command)
        if command.is_hung_up:
            self._hang_up(command)
        if command.pid in self._strangers:
            self.on_exit(command.pid, self._strangers.pop(command.pid))

    def _end(self, command: Exec, code: int) -> None:
        command.code = code
        command.kill_at = None
        if command.is_hung_up:
            _signal(command.pid, signal.SIGKILL)  # what it left behind in its session
        command.tell(command)

    # The client has gone

    def hang_up(self, command: Exec) -> None:
        """Send HUP to its session, as nobody listens any more; KILL to what does not heed it."""
        command.is_hung_up = True
        if command.pid in self._running:
            self._hang_up(command)

    def kill(self, command: Exec) -> None:
        """Kill it and what it has begun: its time is over."""
        command.is_hung_up = True
        if command.pid in self._running:
            _signal(command.pid, signal.SIGKILL)

    def drop(self, container: str) -> None:
        """Kill what runs in a container that has ended, where no namespace does that."""
        for command in self._running.values():
            if command.container == container:
                self.kill(command)

    def _hang_up(self, command: Exec) -> None:
        command.kill_at = self._now() + HANG_UP_TIME
        _signal(command.pid, signal.SIGHUP)
        _signal(command.pid, signal.SIGCONT)

    def next_deadline(self) -> float | None:
        times = [c.kill_at for c in self._running.values() if c.kill_at is not None]
        return min(times) if times else None

    def tick(self, now: float) -> None:
        for command in self._running.values():
            if command.kill_at is not None and now >= command.kill_at:
                command.kill_at = None
                _signal(command.pid, signal.SIGKILL)

    def abandon(self) -> None:
        """End what still runs, as the pod is over."""
        running, self._running = self._running, {}
        for command in running.values():
            self._end(command, 128 + signal.SIGKILL)


def _signal(leader: int, number: int) -> None:
    """Signal every process of the session, and those it has sent to groups of their own."""
    for pid in session_of(leader):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
