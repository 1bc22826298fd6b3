"""Makes system calls on sockets that are known by their descriptor.

Used by whoever answers a call: a socket object of Python's would ask the kernel three questions
before its first use. Each raises OSError with the kernel's errno.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import stat
import struct
from errno import EAGAIN

from ..seccomp.caller_process import libc
from .sockaddr import MAX, Address, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6 = 1, 6, 0, 41
SO_REUSEADDR, SO_REUSEPORT, SO_COOKIE, SO_DOMAIN = 2, 15, 57, 39
SO_RCVTIMEO, SO_SNDTIMEO, SO_PROTOCOL = 20, 21, 38
IP_BIND_ADDRESS_NO_PORT, IPV6_V6ONLY, TCP_INFO, TCP_FASTOPEN_CONNECT = 24, 26, 11, 30
TCP_ESTABLISHED, TCP_SYN_SENT, TCP_CLOSE = 1, 2, 7
MSG_DONTWAIT = 0x40
SHUT_WR = 1
_SIOCGSTAMPNS, _STAMP = 0x8907, struct.Struct("<qq")
_PROTOCOLS = {6: "tcp", 17: "udp"}  # raw sockets of these take no port, and no harm
LATER = 1 << 30  # not an answer to a call: it will come from elsewhere

_int, _uint, _long = ctypes.c_int, ctypes.c_uint, ctypes.c_long
_bytes, byref = ctypes.c_char_p, ctypes.byref
libc.connect.argtypes = libc.bind.argtypes = [_int, _bytes, _int]
libc.sendto.argtypes = [_int, _bytes, _long, _int, _bytes, _int]
libc.sendto.restype = _long
libc.shutdown.argtypes = [_int, _int]
_one = ctypes.byref(ctypes.c_int(1))


def _fail() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))


_Name = ctypes.c_char * MAX


def option(fd: int, level: int, name: int) -> int:
    value, length = _int(0), _uint(4)
    if libc.getsockopt(fd, level, name, byref(value), byref(length)):
        raise _fail()
    return value.value


def switch_on(fd: int, level: int, name: int) -> None:
    if libc.setsockopt(fd, level, name, _one, 4):
        raise _fail()


def switch_off(fd: int, level: int, name: int) -> None:
    if libc.setsockopt(fd, level, name, ctypes.byref(ctypes.c_int(0)), 4):
        raise _fail()


def cookie(fd: int) -> int:
    """Return a number that no other socket of this machine has or had."""
    value, length = _long(0), _uint(8)
    if libc.getsockopt(fd, SOL_SOCKET, SO_COOKIE, byref(value), byref(length)):
        raise _fail()
    return value.value


def is_socket(fd: int) -> bool:
    return stat.S_ISSOCK(os.fstat(fd).st_mode)


def protocol(fd: int) -> str:
    """Return tcp, udp, or empty for what is none of ours (unix, SCTP, ping)."""
    return _PROTOCOLS.get(option(fd, SOL_SOCKET, SO_PROTOCOL), "")


def tcp_state(fd: int) -> int:
    value, length = ctypes.c_ubyte(0), ctypes.c_uint(1)
    libc.getsockopt(fd, IPPROTO_TCP, TCP_INFO, ctypes.byref(value), ctypes.byref(length))
    return value.value


def receive_timeout(fd: int) -> float:
    """Return how long the owner wants to wait for something to come; 0: for ever."""
    return _timeout(fd, SO_RCVTIMEO)


def send_timeout(fd: int) -> float:
    """Return how long the owner wants to wait for a connect; 0: as long as it takes."""
    return _timeout(fd, SO_SNDTIMEO)


def _timeout(fd: int, name: int) -> float:
    value, length = (ctypes.c_long * 2)(), ctypes.c_uint(16)
    libc.getsockopt(fd, SOL_SOCKET, name, value, ctypes.byref(length))
    return float(value[0]) + float(value[1]) / 1e6


def silence(fd: int) -> None:
    """Keep a UDP socket from ever sending by itself, whoever has it and by whatever call.

    On a socket that is not connected the kernel reports an error, and does it nevertheless.
    """
    libc.shutdown(fd, SHUT_WR)


def own_name(fd: int) -> bytes:
    return _name_by(libc.getsockname, fd)


def peer_name(fd: int) -> bytes:
    return _name_by(libc.getpeername, fd)


def _name_by(function: ctypes._NamedFuncPointer, fd: int) -> bytes:
    name, length = _Name(), _uint(MAX)
    if function(fd, name, byref(length)):
        raise _fail()
    return name.raw[: length.value]


def own_address(fd: int) -> Optional[Address]:
    return parse(own_name(fd))


def peer_address(fd: int) -> Optional[Address]:
    """Return the peer's address; None where it has none any more."""
    try:
        return parse(peer_name(fd))
    except OSError:
        return None


def bind(fd: int, packed: bytes) -> None:
    if libc.bind(fd, packed, len(packed)):
        raise _fail()


def listen(fd: int, backlog: int) -> None:
    """Listen; `backlog` as the caller gave it, of which the kernel takes the lower half."""
    if libc.listen(fd, _int(backlog & 0xFFFFFFFF)):
        raise _fail()


def connect(fd: int, packed: bytes) -> int:
    """Connect; return 0, or the errno."""
    return ctypes.get_errno() if libc.connect(fd, packed, len(packed)) else 0


def disconnect(fd: int) -> None:
    """End a connection at once, so that the socket can be connected anew."""
    connect(fd, bytes(16))  # AF_UNSPEC


def stamp(fd: int) -> float:
    """Return when the last received datagram arrived; 0 where the kernel has not noted it.

    The first question has the kernel note it from then on.
    """
    try:
        seconds, parts = _STAMP.unpack(fcntl.ioctl(fd, _SIOCGSTAMPNS, bytes(_STAMP.size)))
        return float(seconds + parts / 1e9)
    except OSError:
        return 0.0


is_blocking = os.get_blocking


def is_readable(fd: int) -> bool:
    """Return whether something is there; a connection, where it listens."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def accept(fd: int, flags: int, blocking: bool) -> tuple[int, Optional[Address]]:
    """Accept a connection that is there now; return it and where it came from.

    Raise BlockingIOError where there is none. One that blocks is asked first whether there is any.
    Its flag is not touched: whoever is killed in between would leave it so, and a server that never
    expects to hear of EAGAIN.
    """
    name, length = _Name(), _uint(MAX)
    if blocking and not is_readable(fd):
        raise BlockingIOError(EAGAIN, os.strerror(EAGAIN))
    found = int(libc.accept4(fd, name, byref(length), flags))
    if found < 0:
        raise _fail()
    return found, parse(name.raw[: length.value])


def send(fd: int, data: bytes, flags: int, to: bytes) -> int:
    sent = int(libc.sendto(fd, data, len(data), flags, to or None, len(to)))
    if sent < 0:
        raise _fail()
    return sent
