"""Keeps calls that cannot be answered yet: a blocking accept, a receive, a connection on its way.

Whoever answers calls leaves them here with a descriptor to wait for; netd's first thread looks
after them, so that no call ever holds up another. A caller that was killed or interrupted is
noticed and its descriptor let go.
"""

from __future__ import annotations

import os
import select
import threading
import time

from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from ..sockets import socket_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

    # What to wait for, and for how many seconds (0: for ever).
    Wait = tuple[int, float]
    # Called when the descriptor is ready (True) or time is up (False); None: all is answered.
    Step = Callable[[Target, bool], Optional[Wait]]
    # Called in its stead when the caller is gone or was interrupted.
    Leave = Callable[[], Optional[Wait]]

SWEEP = 1.0  # seconds between looks for callers that are gone


class _Entry:
    __slots__ = ("call", "deadline", "leave", "step")

    def __init__(self, call: Call, step: Step, leave: Leave, timeout: float) -> None:
        self.call, self.step, self.leave = call, step, leave
        self.wait(timeout)

    def wait(self, timeout: float) -> None:
        self.deadline = time.monotonic() + timeout if timeout else None


class Pending:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._lock = threading.RLock()  # held while an entry is looked after or let go
        self._entries: dict[int, _Entry] = {}  # by a descriptor of our own for each
        self._target = Target()
        self._swept = 0.0
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watched: dict[int, Callable[[], None]] = {}
        self.watch(self._wake_read, lambda: _drain(self._wake_read))

    def watch(self, fd: int, act: Callable[[], None]) -> None:
        """Have `act` called, for ever, when a descriptor is ready that is no caller's."""
        self._watched[fd] = act
        self._epoll.register(fd, select.EPOLLIN)

    def add(self, call: Call, fd: int, wait: Wait, step: Step, leave: Leave = lambda: None) -> None:
        """Wait for `fd`, which is ours to close from now on."""
        events, timeout = wait
        with self._lock:
            self._entries[fd] = _Entry(call, step, leave, timeout)
            self._epoll.register(fd, events | select.EPOLLONESHOT)
        if timeout or len(self._entries) == 1:
            self.wake()

    def wake(self) -> None:
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            pass

    def nudge(self, cookie: int) -> None:
        """Have those who wait for a socket look again, as if their time were up."""
        with self._lock:
            for fd, entry in self._entries.items():
                if socket_calls.cookie(fd) == cookie:
                    entry.deadline = time.monotonic()
        self.wake()

    def take_up(self, call: Call, cookie: int) -> Optional[bool]:
        """Go on for a caller that was interrupted and asks again.

        Return False where the first call still waits, None where nobody waits for the socket any
        more.
        """
        with self._lock:
            for fd, entry in self._entries.items():
                if socket_calls.cookie(fd) == cookie:
                    if entry.call.is_waiting:
                        return False
                    entry.call, entry.deadline = call, time.monotonic()
                    self.wake()
                    return True
        return None

    def turn(self, longest: float) -> None:
        """Wait for something to happen, and do what is due."""
        for fd, _ in self._epoll.poll(self._timeout(longest)):
            if fd in self._watched:
                self._watched[fd]()
            else:
                self._step(fd, True)
        now = time.monotonic()
        for fd, entry in list(self._entries.items()):
            if entry.deadline is not None and now >= entry.deadline:
                self._step(fd, False)
        if self._entries and now - self._swept > SWEEP:
            self.sweep()

    def _timeout(self, longest: float) -> float:
        entries = list(self._entries.values())
        due = [entry.deadline for entry in entries if entry.deadline is not None]
        waits = [max(0.0, when - time.monotonic()) + 0.0005 for when in due]
        return min([longest, *waits, *([SWEEP] if entries else [])])

    def _step(self, fd: int, is_ready: bool) -> None:
        with self._lock:
            entry = self._entries.get(fd)
            if entry is None:
                return
            is_waiting = entry.call.is_waiting
            more = entry.step(self._target, is_ready) if is_waiting else entry.leave()
            if more is None:
                self._drop(fd)
                return
            events, timeout = more
            entry.wait(timeout)
            self._epoll.modify(fd, events | select.EPOLLONESHOT)

    def _drop(self, fd: int) -> None:
        del self._entries[fd]
        self._epoll.unregister(fd)
        os.close(fd)

    def sweep(self) -> None:
        """Close what callers that are gone have left."""
        self._swept = time.monotonic()
        with self._lock:
            for fd, entry in list(self._entries.items()):
                if not entry.call.is_waiting:
                    self._step(fd, False)


def _drain(fd: int) -> None:
    try:
        os.read(fd, 4096)
    except BlockingIOError:
        pass
