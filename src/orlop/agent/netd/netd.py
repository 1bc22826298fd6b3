"""Answers the socket calls of one pod's containers, in a process of its own: netd.

Forked by the agent, which keeps every listener and every port that netd has made, so that one that
dies is followed by another that goes on. A thread for each listener receives and answers; what must
wait is left with `pending_calls`, in the first thread. Messages to and from the kubelet go by the
agent.
"""

from __future__ import annotations

import os
import threading
from ctypes import create_string_buffer
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

from ..connection.frames import Broken
from ..linux.fast_imports import loads
from .call_threads import CallThreads
from .native import CALL_SIZE, Quick
from .netd_supervisor import receive
from .pod_network import build
from .relay import Line
from .seccomp.caller_process import Target
from .seccomp.notify import Listener
from .syscall_table import SyscallTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .netd_supervisor import NetdState

IDLE = 60.0


class Netd:
    def __init__(self, network: dict[str, Any], node: str, inherited: NetdState) -> None:
        """Take `network` as the plan has it, and what the netd before has left."""
        self._porch, self._line = inherited.porch, Line(inherited.line)
        self._threads = CallThreads()
        self._network = build(network, node, inherited, self._line.send, self._threads.step_aside)
        self._table = SyscallTable(self._network)
        self._network.endpoints.located(inherited.address, self._network.notices.port)
        for message, holder in inherited.bindings:
            self._network.bindings.remember(message, holder)
            self._network.agent.publish(message)

    def run(self, listeners: dict[bytes, int], first: Sequence[tuple[int, bytes]] = ()) -> None:
        """Serve until the agent is gone; `first`: calls already taken, and where they came in."""
        _, most = getrlimit(RLIMIT_NOFILE)  # calls that wait have a descriptor here, too
        setrlimit(RLIMIT_NOFILE, (most, most))
        network, quick = self._network, self._network.quick
        threading.Thread(target=self._hear, name="line", daemon=True).start()
        self._serials = set(listeners)
        for fd in listeners.values():
            self._threads.start(Listener(fd, quick), self._table)
        if quick is not None:
            threading.Thread(target=self._take_back, args=(quick,), daemon=True).start()
        network.pending.watch(self._porch.fileno(), self._on_porch)
        network.pending.watch(network.notices.inbox, network.notices.read)
        network.agent.ready()
        for fd, raw in first:
            taken = Listener(fd).call(raw), Target()
            threading.Thread(target=self._table.answer, args=taken, daemon=True).start()
        while True:
            network.pending.turn(network.next_sweep(IDLE))

    def _hear(self) -> None:
        """Take what the kubelet says."""
        try:
            while True:
                for payload in self._line.receive():
                    self._network.endpoints.on_message(loads(payload))
        except Broken:
            pass  # the agent ends, and we with it

    def _take_back(self, quick: Quick) -> None:
        """Handle calls that turned out to be for Python after a while; each may take another."""
        buffer = create_string_buffer(CALL_SIZE)
        target = Target()
        while True:
            listener = self._threads.find(quick.returned(buffer))
            if listener is not None:
                self._table.answer(listener.call(buffer.raw), target)

    def _on_porch(self) -> None:
        """Take a new listener, unless we have it from the netd before us."""
        serial, fds = receive(self._porch)
        for fd in fds:
            if serial in self._serials:
                os.close(fd)
            else:
                self._serials.add(serial)
                self._threads.start(Listener(fd, self._network.quick), self._table)
