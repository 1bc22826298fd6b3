"""Keeps connections on their way to a caller where neither a signal nor our own end loses them.

From when it is taken until its caller has it, a connection is in a socket of the agent's, too,
where the next netd finds it. The first half of those sockets is the compiled part's
(agent/netd/native/handover.c). Used by `accept`.
"""

from __future__ import annotations

import os

from .. import layout
from ..netd_supervisor import receive, send
from ..seccomp.notify import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from typing import Optional

    Room = tuple[socket.socket, socket.socket]

_TICKET = layout.TICKET.struct


class AcceptHandoff:
    def __init__(self, rooms: list[Room]) -> None:
        self._rooms, self._free = rooms, rooms[len(rooms) // 2 :]

    def deposit(self, call: Call, listening: int, connection: int) -> Optional[Room]:
        """Put a connection in a room and return that.

        None: so many at once have never been seen, they go without.
        """
        try:
            room = self._free.pop()
        except IndexError:
            return None
        send(room[0], _TICKET.pack(listening, call.pid), [connection])
        return room

    def collect(self, room: Optional[Room]) -> None:
        if room is not None:
            for copy in receive(room[1])[1]:
                os.close(copy)
            self._free.append(room)

    def left(self) -> Iterator[tuple[int, int, int]]:
        """Return what an earlier netd had in hand: listening socket, connection.

        And the number that the caller has it by already, or -1.
        """
        for _, end in self._rooms:
            words, fds = receive(end)
            for connection in fds:
                listening, pid = _TICKET.unpack(words)
                yield listening, connection, _number(pid, connection)


def _number(pid: int, connection: int) -> int:
    """Return the descriptor by which a process has a connection already; -1 if it has none."""
    socket = os.readlink(f"/proc/self/fd/{connection}")
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            if _link(f"{folder}/{name}") == socket:
                return int(name)
    except OSError:
        pass  # it is gone, and others may accept in its stead
    return -1


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # closed meanwhile
