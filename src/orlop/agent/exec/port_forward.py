"""Forwards a connection to a port of the pod: wherever that really is, or at its node's loopback.

One session of `sessions`, in the thread of the kubelet connection. It tries what `reach` answers,
of which probes ask the same, and passes bytes both ways until both have ended, without waiting.
"""

from __future__ import annotations

import errno
import os
import select
import time

from .streams import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from ..connection.upgraded_connection import Link
    from ..netd.netd_supervisor import NetdSupervisor
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

CONNECT_TIME = 5.0
NOBODY = os.strerror(errno.ECONNREFUSED).lower()  # where none of the pod's listens
_networks: list[NetdSupervisor] = []  # the pod's own, if it has one


def use(network: NetdSupervisor) -> None:
    """Reach ports by the pod's own network from now on."""
    _networks[:] = [network]


def reach(port: int) -> list[tuple[int, tuple[str, int]]]:
    """Return where a port of the pod may listen, as families and addresses, in the order to try.

    None where nobody of the pod does: who is found there would be another user of the node.
    """
    if _networks:
        return _networks[0].reach(port)
    return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))]


def is_of_pod(connection: socket.socket) -> bool:
    """Return whether a connection to what `reach` answered has ended at the pod."""
    return not _networks or _networks[0].is_of_pod(connection)


def own_host() -> str:
    """Return the pod's own address, as others name it."""
    return _networks[0].address if _networks else "127.0.0.1"


def come_from_pod(connection: socket.socket) -> None:
    """Let the pod know its agent, before this connects to what `reach` answered."""
    if _networks and connection.family == socket.AF_INET:
        connection.bind((_networks[0].loopback, 0))


class Forward:
    def __init__(self, link: Link, number: int, port: int) -> None:
        self._link, self.number = link, number
        self._left = reach(port)
        self._socket: socket.socket | None = None
        self._stream: Stream | None = None
        self._error = "" if self._left else NOBODY
        self._give_up_at = 0.0
        self._next()

    def _next(self) -> None:
        """Begin to connect to the next address there is."""
        self._drop_socket()
        if not self._left:
            return
        family, address = self._left.pop(0)
        try:
            self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self._give_up_at = time.monotonic() + CONNECT_TIME
            come_from_pod(self._socket)
            code = self._socket.connect_ex(address)
        except (OSError, OverflowError) as error:
            code = getattr(error, "errno", None) or errno.EINVAL
        if code not in (0, errno.EINPROGRESS):
            self._fail(code)

    def _fail(self, code: int) -> None:
        # What the first address said is what is told: most programs listen there.
        self._error = self._error or os.strerror(code).lower()
        self._next()

    def _drop_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def register(self, poll: select.poll) -> None:
        if self._socket is not None:
            poll.register(self._socket.fileno(), select.POLLOUT)

    def streams(self) -> list[Stream]:
        return [self._stream] if self._stream is not None else []

    def deadline(self) -> float | None:
        return self._give_up_at if self._socket is not None else None

    def resize(self, width: int, height: int) -> None:
        pass

    def turn(self) -> bool:
        if self._socket is not None:
            self._check()
        if self._stream is not None:
            if self._stream.is_open:
                return True
            self._error = ""
        elif self._socket is not None:
            return True
        self._link.tell({"type": "closed", "stream": self.number, "error": self._error, "code": 0})
        return False

    def _check(self) -> None:
        """Check whether the connection is made by now."""
        assert self._socket is not None, "checked without a socket"
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLOUT)
        if poll.poll(0):
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not code and not is_of_pod(self._socket):
                code = errno.ECONNREFUSED
            if code:
                self._fail(code)
            else:
                self._begin(self._socket)
        elif time.monotonic() >= self._give_up_at:
            self._fail(errno.ETIMEDOUT)

    def _begin(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        source = connection.detach()
        self._socket = None
        self._stream = Stream(self._link, self.number, source, os.dup(source), _half_close)
        self._link.tell({"type": "opened", "stream": self.number})

    def close(self, is_lost: bool = False) -> None:
        self._drop_socket()
        if self._stream is not None:
            self._stream.close()


def _half_close(fd: int) -> None:
    connection = socket.socket(fileno=fd)
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # gone already
    connection.close()
