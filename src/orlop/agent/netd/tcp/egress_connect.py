"""Makes connects for a pod that an egress policy restricts, to their very end and on our own copy.

Used where the kernel would otherwise be let go on: it reads the address and looks up the descriptor
a second time, and another thread of the program may have changed either since they were judged. So
what was read once is connected to, and by the very socket that was looked at.
"""

from __future__ import annotations

import os
import select
import time
from collections import OrderedDict
from errno import EACCES, EAGAIN, EALREADY, EINPROGRESS

from ..seccomp.as_caller import Caller
from ..seccomp.bpf import AF_NETLINK
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from ..sockets import socket_calls
from ..sockets.new_socket import AF_ALG
from ..sockets.sockaddr import AF_INET, AF_INET6, AF_UNIX
from ..sockets.socket_calls import LATER, SO_DOMAIN, SOL_SOCKET
from .nonblocking_journal import NonblockingJournal
from .pending_calls import Pending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

    from .pending_calls import Wait

# Families that are judged, or lead to nobody elsewhere.
KNOWN = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_ALG)
MAX_UNHEARD = 64
_TRY_AGAIN: Wait = (0, 0.002)  # a unix server whose queue is full: no descriptor of ours tells


class Held:
    def __init__(self, pending: Pending, journal: NonblockingJournal) -> None:
        self._pending, self._journal = pending, journal
        # Connects whose answer met a signal instead of the caller, by the sockets' cookies.
        self._unheard: OrderedDict[int, tuple[int, ...]] = OrderedDict()

    def not_heard(self, call: Call, result: int) -> None:
        if result not in (0, -EINPROGRESS):
            return  # who asks again tries again
        self._unheard[call.cookie] = _words(call)
        if len(self._unheard) > MAX_UNHEARD:
            self._unheard.popitem(last=False)

    def _was_unheard(self, call: Call, cookie: int) -> bool:
        """Return whether this is a call that the kernel has its caller repeat after a signal."""
        return self._unheard.pop(cookie, None) == _words(call)

    def connect_other(self, call: Call, target: Target, raw: bytes) -> int:
        """Connect to an address that is none of the internet's."""
        fd = target.grab(call, call.args[0])
        try:
            return self.connect(call, fd, raw)
        finally:
            os.close(fd)

    def connect(self, call: Call, fd: int, raw: bytes) -> int:
        """Connect as the kernel would, to an address already judged; return the answer,
        or LATER.
        """
        domain, blocking = (
            socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN),
            socket_calls.is_blocking(fd),
        )
        if domain not in KNOWN:
            return -EACCES  # made before there was a policy
        call.cookie = socket_calls.cookie(fd)
        if self._was_unheard(call, call.cookie):
            return 0 if blocking else -EINPROGRESS
        wait = _TRY_AGAIN if domain == AF_UNIX else (int(select.EPOLLOUT), 0.0)

        def connect(copy: int) -> int:
            if domain == AF_UNIX and _is_path(raw):
                return Caller(call.pid).does(lambda: begin(copy))
            return begin(copy)

        def begin(copy: int) -> int:
            return self._journal.connect(call, copy, raw, blocking)

        code = connect(fd)
        if not blocking or code not in _on_its_way(domain):
            return -code
        making = _Making(call, os.dup(fd), connect, wait, self)
        self._pending.add(call, making.fd, making.wait, making.step)
        return LATER


def _words(call: Call) -> tuple[int, ...]:
    return (call.pid, *call.args[:3])


def _on_its_way(domain: int) -> tuple[int, ...]:
    return (EAGAIN,) if domain == AF_UNIX else (EINPROGRESS, EALREADY)


def _is_path(raw: bytes) -> bool:
    return len(raw) > 2 and raw[:2] == AF_UNIX.to_bytes(2, "little") and raw[2:3] != b"\0"


class _Making:
    """One connect whose caller waits for it."""

    def __init__(
        self,
        call: Call,
        fd: int,
        connect: Callable[[int], int],
        wait: Wait,
        held: Held,
    ) -> None:
        self.fd, self._call, self._connect = fd, call, connect
        self._wait, self._held = wait, held
        self._on_its_way = _on_its_way(socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN))
        timeout = socket_calls.send_timeout(fd)
        self._give_up_at = time.monotonic() + timeout if timeout else None

    @property
    def wait(self) -> Wait:
        events, pause = self._wait
        if self._give_up_at is None or pause:
            return events, pause
        return events, max(self._give_up_at - time.monotonic(), 0.001)

    def step(self, target: Target, is_ready: bool) -> Optional[Wait]:
        try:
            code = self._connect(self.fd)  # asked again, the kernel says what has become of it
        except OSError as error:
            code = error.errno or EACCES
        is_over = self._give_up_at is not None and time.monotonic() >= self._give_up_at
        if code in self._on_its_way and not is_over:
            return self.wait
        if not self._call.answer(-code):
            self._held.not_heard(self._call, -code)
        return None
