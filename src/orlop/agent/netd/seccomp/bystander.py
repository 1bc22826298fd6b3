"""Answers what is none of the network's business, so that a pod may do without a whole netd.

Used by the netd supervisor in the process that will be netd. Every C program that looks up a user
connects to nscd, a unix socket with a path; the filter cannot tell it from an address of the
internet, and a pod that does just that shall not pay for a network. What it does not know at once
is for netd.
"""

from __future__ import annotations

from ..sockets.sockaddr import AF_UNIX
from .caller_process import Target
from .notify import Listener
from .syscall_numbers import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional


class Bystander:
    """`is_held`: an egress policy was planned for the pod: then no call is let go on by itself."""

    def __init__(self, is_held: bool) -> None:
        self._is_held, self._connect = is_held, calls()["connect"]
        self._target = Target()

    def take(self, fd: int) -> Optional[bytes]:
        """Take a call; return it if it is for netd.

        Empty: netd shall look itself; None: there was none.
        """
        if self._is_held:
            return b""
        listener = Listener(fd)
        taken = listener.take()
        if taken is None:
            return None
        raw = bytes(taken)
        call = listener.call(raw)
        if call.number != self._connect:
            return raw
        try:
            length = call.args[2] & 0xFFFFFFFF
            name = self._target.read_address(call, call.args[1], length)
        except OSError:
            return raw
        is_path = name[:2] == AF_UNIX.to_bytes(2, "little") and name[2:3] != b"\0"
        if not is_path:
            return raw
        call.go_on()
        return None
