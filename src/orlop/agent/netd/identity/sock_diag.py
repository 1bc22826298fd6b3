"""Asks whose the sockets of this node are, by sock_diag(7): both ends of a connection, a listener.

Used at connect and accept, over a socket that the agent opened before it entered its user
namespace: user numbers are the node's own then, and not what the namespace makes of a stranger's.
"""

from __future__ import annotations

import os
import struct
import threading

from .. import layout
from ..sockets.sockaddr import AF_INET, AF_INET6, Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Optional
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

_NO_COOKIE = b"\xff" * 8
_REQUEST = layout.QUESTION.struct
_HEAD = struct.Struct("<4xHxxI")  # of an answer: what it is, and to which question
_STATE_AT, _COOKIE_AT = layout.DIAG_STATE_AT, layout.DIAG_COOKIE_AT
_UID_AT = layout.DIAG_UID_AT
_TELLING = range(1, 4)  # established or about to be: a socket that is closing has lost its owner
_MAPPED = bytes(10) + b"\xff\xff"
TCP, UDP = layout.TCP, layout.UDP
_ESTABLISHED, _SYN_RECV, _CLOSE_WAIT, _LISTEN = 1, 3, 8, 10
_OF_A_CLIENT = (_ESTABLISHED, _SYN_RECV, _CLOSE_WAIT)
_NOBODY = Address(AF_INET, bytes(4), 0)
OTHERS = layout.OTHERS  # in place of a cookie: it is another user's


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
        """Take `uids`: first and count of each range of user numbers that is ours."""
        self._uids, self._lock = uids, threading.Lock()
        self._asked = int.from_bytes(os.urandom(4), "little")
        self._socket: Optional[socket.socket] = None
        if fd >= 0:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4, fileno=fd)
        self._knows_udp: Optional[bool] = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    @property
    def can_tell(self) -> bool:
        """Return whether there is anybody to ask."""
        return self._socket is not None

    @property
    def can_tell_udp(self) -> bool:
        """Return whether the kernel can be asked about UDP: a socket of our own must be found."""
        if self._knows_udp is None:
            probe = socket.socket(AF_INET, socket.SOCK_DGRAM)
            try:
                probe.bind(("127.0.0.1", 0))
                ip, port = probe.getsockname()
                place = Address(AF_INET, socket.inet_aton(ip), port)
                self._knows_udp = self.look(UDP, place, _NOBODY).cookie != 0
            finally:
                probe.close()
        return self._knows_udp

    def look(self, protocol: int, peer: Address, own: Address) -> Owner:
        """Find whose the socket at `peer` is that speaks to `own`."""
        cookie = 0
        # A client of IPv6 that speaks to a mapped address is found under its own family only.
        for family in (AF_INET, AF_INET6):
            answer = self._ask(family, protocol, peer, own)
            if len(answer) < _UID_AT + 4:
                continue
            cookie = struct.unpack_from("<Q", answer, _COOKIE_AT)[0]
            if protocol == UDP or answer[_STATE_AT] in _TELLING:
                return Owner(self._is_ours(answer), cookie)
        return Owner(None, cookie)

    def _is_ours(self, answer: bytes) -> bool:
        uid = struct.unpack_from("<I", answer, _UID_AT)[0]
        return any(first <= uid < first + count for first, count in self._uids)

    def child(self, server: Address, client: Address) -> int:
        """Return the cookie of a server's end of a connection, if it and its listener are ours.

        OTHERS where they are not, and 0 where there is no such end. One that nobody has accepted
        yet has no owner; its listener has. One whose handshake is not complete has the cookie
        already that it will have then.
        """
        for family in _families(server):
            answer = self._ask(family, TCP, server, client)
            if len(answer) < _UID_AT + 4 or answer[_STATE_AT] not in _OF_A_CLIENT:
                continue
            is_taken = struct.unpack_from("<I", answer, _UID_AT)[0] != 0
            if self._is_ours(answer) or (not is_taken and self.holds(TCP, server)):
                return int(struct.unpack_from("<Q", answer, _COOKIE_AT)[0])
            return OTHERS
        return 0

    def holds(self, protocol: int, server: Address) -> bool:
        """Return whether one of ours listens at a real address, or has it for UDP."""
        for family in _families(server):
            answer = self._ask(family, protocol, server, _NOBODY)
            if len(answer) < _UID_AT + 4:
                continue
            if protocol == UDP or answer[_STATE_AT] == _LISTEN:
                return self._is_ours(answer)
        return False

    def _ask(self, family: int, protocol: int, peer: Address, own: Address) -> bytes:
        """Ask the kernel; return its answer, empty when there is no such socket."""
        if self._socket is None:
            return b""
        with self._lock:
            self._asked = (self._asked + 1) & 0xFFFFFFFF
            try:
                # Of UDP the kernel takes them the other way round.
                ends = (own, peer) if protocol == UDP else (peer, own)
                self._socket.send(_request(self._asked, family, protocol, *ends))
                while True:
                    answer = self._socket.recv(8192)
                    kind, number = _HEAD.unpack_from(answer)
                    # A netd that was killed may have left an answer that it did not read.
                    if number == self._asked:
                        return answer if kind == layout.DIAG_BY_FAMILY else b""
            except OSError:
                return b""


def _families(address: Address) -> tuple[int, ...]:
    """Return the families that a socket at an address may have: IPv6 serves IPv4, too."""
    return (AF_INET, AF_INET6) if len(address.ip) == 4 else (AF_INET6,)


def _request(number: int, family: int, protocol: int, peer: Address, own: Address) -> bytes:
    ends = [
        (_MAPPED + end.ip if family == AF_INET6 else end.ip).ljust(16, b"\0")
        if len(end.ip) == 4
        else end.ip
        for end in (peer, own)
    ]
    ports = [end.port.to_bytes(2, "big") for end in (peer, own)]
    head = (_REQUEST.size, layout.DIAG_BY_FAMILY, layout.DIAG_REQUEST, number, 0)
    return _REQUEST.pack(*head, family, protocol, 0, 0xFFFFFFFF, *ports, *ends, 0, _NO_COOKIE)
