"""Whose socket is at the other end of a connection that stays on this node, by sock_diag(7).

Asked at accept, over a socket that the agent opened before it entered its user namespace: user
numbers are the node's own then, and not what the namespace makes of a stranger's. It only reads.
"""

from __future__ import annotations

import os
import struct
import threading

from .sockaddr import AF_INET, AF_INET6, Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Optional
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

_SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 20, 1
_NO_COOKIE = b"\xff" * 8
_REQUEST = struct.Struct("<IHHII" + "BBBxI" + "2s2s16s16sI8s")
_HEAD = struct.Struct("<4xHxxI")  # of an answer: what it is, and to which question
_STATE_AT = 16 + 1  # in the answer, after its header
_COOKIE_AT = 16 + 44
_UID_AT = 16 + 64
_TELLING = range(1, 4)  # established or about to be: a socket that is closing has lost its owner
_MAPPED = bytes(10) + b"\xff\xff"


class Owner:
    """What is told of a socket."""

    __slots__ = ("cookie", "is_ours")

    def __init__(self, is_ours: Optional[bool], cookie: int) -> None:
        # Whether it is of the user the pod runs as; None when that can no longer be told: it is
        # closed, or there is nobody to ask.
        self.is_ours = is_ours
        self.cookie = cookie  # 0: not known


class Owners:
    def __init__(self, fd: int, uids: list[tuple[int, int]]) -> None:
        """`uids`: first and count of each range of user numbers that is ours."""
        self._uids, self._lock = uids, threading.Lock()
        self._asked = int.from_bytes(os.urandom(4), "little")
        self._socket: Optional[socket.socket] = None
        if fd >= 0:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4, fileno=fd)

    def look(self, protocol: int, peer: Address, own: Address) -> Owner:
        """Whose the socket at `peer` is that speaks to `own`."""
        cookie = 0
        # A client of IPv6 that speaks to a mapped address is found under its own family only.
        for family in (AF_INET, AF_INET6):
            answer = self._ask(family, protocol, peer, own)
            if len(answer) < _UID_AT + 4:
                continue
            cookie = struct.unpack_from("<Q", answer, _COOKIE_AT)[0]
            if answer[_STATE_AT] in _TELLING:
                uid = struct.unpack_from("<I", answer, _UID_AT)[0]
                return Owner(any(first <= uid < first + n for first, n in self._uids), cookie)
        return Owner(None, cookie)

    def _ask(self, family: int, protocol: int, peer: Address, own: Address) -> bytes:
        """Empty when there is no such socket."""
        if self._socket is None:
            return b""
        with self._lock:
            self._asked = (self._asked + 1) & 0xFFFFFFFF
            try:
                self._socket.send(_request(self._asked, family, protocol, peer, own))
                while True:
                    answer = self._socket.recv(8192)
                    kind, number = _HEAD.unpack_from(answer)
                    # A netd that was killed may have left an answer that it did not read.
                    if number == self._asked:
                        return answer if kind == _SOCK_DIAG_BY_FAMILY else b""
            except OSError:
                return b""


def _request(number: int, family: int, protocol: int, peer: Address, own: Address) -> bytes:
    ends = [
        (_MAPPED + end.ip if family == AF_INET6 else end.ip).ljust(16, b"\0")
        if len(end.ip) == 4
        else end.ip
        for end in (peer, own)
    ]
    ports = [end.port.to_bytes(2, "big") for end in (peer, own)]
    head = (_REQUEST.size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, number, 0)
    return _REQUEST.pack(*head, family, protocol, 0, 0xFFFFFFFF, *ports, *ends, 0, _NO_COOKIE)
