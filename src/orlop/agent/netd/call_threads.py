"""Runs a thread for each listener that takes one call after another and has it answered.

Used by netd. A thread whose call will take a while steps aside: another takes the calls to come, so
that no call holds up the rest of its container.
"""

from __future__ import annotations

import threading

from .seccomp.caller_process import Target
from .seccomp.notify import Listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from .syscall_table import SyscallTable

MAX_ASIDE = 64  # threads that wait for the endpoint cache while others take their post


class CallThreads:
    def __init__(self) -> None:
        self._listeners: dict[int, Listener] = {}  # by descriptor
        self._posts = threading.local()  # what a thread takes calls from, and who answers them
        self._aside = 0

    def start(self, listener: Listener, table: SyscallTable) -> None:
        threading.Thread(target=self._receive, args=(listener, table), daemon=True).start()

    def find(self, fd: int) -> Optional[Listener]:
        return self._listeners.get(fd)

    def _receive(self, listener: Listener, table: SyscallTable) -> None:
        """Take one call after another, until nobody is left or another has taken this post."""
        target, posts = Target(), self._posts
        posts.listener, posts.table = listener, table
        self._listeners[listener.fd] = listener
        while posts.listener is not None:
            call = listener.receive()
            if call is None:
                del self._listeners[listener.fd]
                listener.close()
                table.sweep()
                break
            table.answer(call, target)
        target.close()
        if posts.listener is None:
            self._aside -= 1

    def step_aside(self) -> None:
        """Let another thread take the calls to come: the one at hand will take a while."""
        posts = self._posts
        listener = getattr(posts, "listener", None)
        if listener is not None and self._aside < MAX_ASIDE:
            self._aside += 1
            posts.listener = None
            self.start(listener, posts.table)
