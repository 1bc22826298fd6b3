"""Lets the ranks of one node reach names and services: the container server's part of it.

Used by the container server of a pod whose ranks ask for them. Starters filter themselves and hand
over the listener; a rank netd (rank_netd.py), a process of its own, answers what is asked there.
All listeners are known here, too, so that a rank netd that is killed is followed by another.
"""

from __future__ import annotations

import os
import select
import time

from ..linux.process import program, spawn
from ..linux.reexec import again
from ..netd.netd_supervisor import PACKETS, send
from ..netd.seccomp import bpf
from ..netd.seccomp.restart_syscalls import ask_again

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket

# Seconds before the next rank netd but one, if both ended before they were STEADY; then twice as
# many each time, since what keeps one from starting may last.
PAUSE, LONGEST_PAUSE = 0.2, 10.0
STEADY = 5.0


class Reach:
    """Starts rank netds and gives them the listeners; `folder` is the pod's."""

    def __init__(self, folder: str) -> None:
        self.filter = bpf.build(os.uname().machine, is_node=True)
        self._folder = folder
        self._listeners: list[tuple[int, int]] = []  # process and descriptor
        self._attendant = 0
        self._started = 0.0
        self._pause = 0.0
        self._due: float | None = None  # when the next rank netd is to be started
        self._line: socket.socket | None = None

    def fileno(self) -> int:
        """Return what tells of the rank netd's end; -1 while there is none."""
        return -1 if self._line is None else self._line.fileno()

    def take(self, pid: int, listener: int) -> None:
        """Take the listener of a filtered process that will become a rank, or runs beside one."""
        self._let_go_of_the_dead()
        self._listeners.append((pid, listener))
        if self._line is not None:
            self._hand_over(pid, listener)
        elif self._due is None:
            self._start()

    def on_end(self) -> None:
        """Replace a rank netd that was killed: those who ask wait until the next one is there.

        Its netd has the connection, too, so that both are gone when that ends.
        """
        self._close_line()
        try:
            os.waitpid(self._attendant, 0)
        except ChildProcessError:
            pass  # reaped with others
        self._put_off()
        self.tick()

    def timeout(self) -> int | None:
        """Return the milliseconds until the next rank netd is due; None while none is."""
        if self._due is None:
            return None
        return max(0, int((self._due - time.monotonic()) * 1000) + 1)

    def tick(self) -> None:
        """Start the next rank netd, if it is time for that and anybody is left to ask."""
        if self._due is None or time.monotonic() < self._due:
            return
        self._due = None
        self._let_go_of_the_dead()
        if self._listeners:
            self._start()
            ask_again([], [pid for pid, _ in self._listeners])

    def _put_off(self) -> None:
        now = time.monotonic()
        if now > self._started + STEADY:
            self._pause = 0.0
        self._due = now + self._pause
        self._pause = min(max(PAUSE, 2 * self._pause), LONGEST_PAUSE)

    def close(self) -> None:
        """Close the connection, with which the rank netd ends."""
        self._close_line()
        for _, listener in self._listeners:
            os.close(listener)
        self._listeners.clear()

    def _close_line(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _start(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, PACKETS)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        argv = again("attendant", self._folder)
        self._started = time.monotonic()
        try:
            self._attendant = spawn(program(argv, os.environ), (theirs.fileno(), null, null))
        except OSError:  # no room for another process
            self._close_line()
            self._put_off()
            return
        finally:
            theirs.close()
            os.close(null)
        for pid, listener in self._listeners:
            self._hand_over(pid, listener)

    def _hand_over(self, pid: int, listener: int) -> None:
        assert self._line is not None, "an attendant was started"
        try:
            send(self._line, str(pid).encode(), [listener])
        except OSError:
            pass  # it has ended; its socket says so, and the next one is given all

    def _let_go_of_the_dead(self) -> None:
        """Close listeners whose processes are gone."""
        poll = select.poll()
        for _, listener in self._listeners:
            poll.register(listener, 0)
        gone = {fd for fd, _ in poll.poll(0)}
        for fd in gone:
            os.close(fd)
        self._listeners = [one for one in self._listeners if one[1] not in gone]
