"""Answers what the ranks of one node ask of the cluster: where names, services and pods are.

A process beside the container server of that node (networking.py), for a pod whose ranks ask for
the cluster's names: a supervisor with its netd, as a pod has, and a connection of their own
(connection.py). Ranks of every node have one, so that none depends on another node. It ends with
the container server.
"""

from __future__ import annotations

import os
import select
import time

from .. import plan
from ..linux.fast_imports import signal
from ..linux.process import reaped
from ..netd.netd_supervisor import NetdSupervisor, receive
from .connection import Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
else:
    import _socket as socket

DOOR = 0  # standard input: listeners of those who are filtered


def main(argv: list[str]) -> int:
    """Run, in words `attendant <pod folder>`."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # meant for the ranks, which may still ask
    _open_many()
    RankNetd(argv[2]).run()
    return 0


def _open_many() -> None:
    from resource import RLIMIT_NOFILE, getrlimit, setrlimit

    _, most = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (most, most))


class RankNetd:
    def __init__(self, folder: str) -> None:
        the_plan = plan.read(os.path.join(folder, "plan.json"))
        assert the_plan.ranks is not None, "a plan without ranks"
        the_plan.network = the_plan.ranks["network"]
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, DOOR)
        self._keeper = NetdSupervisor(the_plan, None, -1)
        self._keeper.elsewhere = lambda: list(self._callers.values())
        node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
        self._line = Line(the_plan, folder, node)
        # Ranks and commands beside them, by listeners: those tell when it is over with them, and
        # their numbers may become another's.
        self._callers: dict[int, int] = {}
        self._is_over = False
        self._poll = select.poll()
        self._watches: dict[int, Callable[[], object]] = {}

    def run(self) -> None:
        wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._watch(wake, lambda: os.read(wake, 4096), select.POLLIN)
        self._keeper.start(self._watch, self._unwatch, time.monotonic)  # before there are threads
        self._watch(DOOR, self._on_door, select.POLLIN)
        self._keeper.carried_by(self._line.carry)
        self._line.start()
        while not self._is_over:
            for fd, _ in self._poll.poll(self._timeout()):
                if fd in self._watches:
                    self._watches[fd]()
            for pid, status in reaped():
                self._keeper.on_exit(pid, status)
            self._keeper.tick(time.monotonic())
        self._keeper.stop()

    def _on_door(self) -> None:
        words, listeners = receive(self._door)
        self._is_over = not words
        for listener in listeners:
            own = os.dup(listener)
            self._callers[own] = int(words)
            self._watch(own, self._forgetting(own), 0)
            self._keeper.take(listener)

    def _forgetting(self, listener: int) -> Callable[[], object]:
        def forget() -> None:
            self._unwatch(listener)
            del self._callers[listener]
            os.close(listener)

        return forget

    def _timeout(self) -> int | None:
        due = self._keeper.next_deadline()
        return None if due is None else max(0, int((due - time.monotonic()) * 1000) + 1)

    def _watch(self, fd: int, read: Callable[[], object], events: int) -> None:
        self._watches[fd] = read
        self._poll.register(fd, events)

    def _unwatch(self, fd: int) -> None:
        if self._watches.pop(fd, None) is not None:
            self._poll.unregister(fd)
