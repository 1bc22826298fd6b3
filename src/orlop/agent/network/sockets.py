"""System calls on sockets that are known by their descriptor alone.

Used by whoever answers a call: a socket object of Python's would ask the kernel three questions
before its first use. Each raises OSError with the kernel's errno; nothing here decides anything.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from errno import EINPROGRESS

from .sockaddr import MAX, Address, parse
from .target import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6 = 1, 6, 0, 41
SO_REUSEADDR, SO_TYPE, SO_REUSEPORT, SO_COOKIE, SO_DOMAIN = 2, 3, 15, 57, 39
SO_RCVTIMEO, SO_PROTOCOL = 20, 38
IP_BIND_ADDRESS_NO_PORT, IPV6_V6ONLY, TCP_INFO = 24, 26, 11
SOCK_STREAM, SOCK_DGRAM = 1, 2
TCP_CLOSE, TCP_LISTEN = 7, 10
MSG_DONTWAIT = 0x40
LATER = 1 << 30  # not an answer to a call: it will come from elsewhere

_int, _long, _bytes = ctypes.c_int, ctypes.c_long, ctypes.c_char_p
libc.connect.argtypes = libc.bind.argtypes = [_int, _bytes, _int]
libc.sendto.argtypes = [_int, _bytes, _long, _int, _bytes, _int]
libc.sendto.restype = _long
_one = ctypes.byref(ctypes.c_int(1))


def _fail() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))


def option(fd: int, level: int, name: int) -> int:
    value, length = ctypes.c_int(0), ctypes.c_uint(4)
    if libc.getsockopt(fd, level, name, ctypes.byref(value), ctypes.byref(length)):
        raise _fail()
    return value.value


def switch_on(fd: int, level: int, name: int) -> None:
    if libc.setsockopt(fd, level, name, _one, 4):
        raise _fail()


def switch_off(fd: int, level: int, name: int) -> None:
    if libc.setsockopt(fd, level, name, ctypes.byref(ctypes.c_int(0)), 4):
        raise _fail()


def cookie(fd: int) -> int:
    """A number that no other socket of this machine has or had."""
    value, length = ctypes.c_uint64(0), ctypes.c_uint(8)
    if libc.getsockopt(fd, SOL_SOCKET, SO_COOKIE, ctypes.byref(value), ctypes.byref(length)):
        raise _fail()
    return value.value


def protocol(fd: int) -> str:
    """tcp, udp, or empty for what is none of ours (raw, SCTP, ping)."""
    kind, number = option(fd, SOL_SOCKET, SO_TYPE), option(fd, SOL_SOCKET, SO_PROTOCOL)
    if kind == SOCK_STREAM and number == 6:
        return "tcp"
    return "udp" if kind == SOCK_DGRAM and number == 17 else ""


def tcp_state(fd: int) -> int:
    value, length = ctypes.c_ubyte(0), ctypes.c_uint(1)
    libc.getsockopt(fd, IPPROTO_TCP, TCP_INFO, ctypes.byref(value), ctypes.byref(length))
    return value.value


def receive_timeout(fd: int) -> float:
    """How long the owner wants to wait for something to come; 0: for ever."""
    value, length = (ctypes.c_long * 2)(), ctypes.c_uint(16)
    libc.getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, value, ctypes.byref(length))
    return float(value[0]) + float(value[1]) / 1e6


def own_name(fd: int) -> bytes:
    return _name(libc.getsockname, fd)


def peer_name(fd: int) -> bytes:
    return _name(libc.getpeername, fd)


def _name(function: ctypes._NamedFuncPointer, fd: int) -> bytes:
    buffer, length = ctypes.create_string_buffer(MAX), ctypes.c_uint(MAX)
    if function(fd, buffer, ctypes.byref(length)):
        raise _fail()
    return buffer.raw[: length.value]


def own_address(fd: int) -> Optional[Address]:
    return parse(own_name(fd))


def bind(fd: int, packed: bytes) -> None:
    if libc.bind(fd, packed, len(packed)):
        raise _fail()


def connect(fd: int, packed: bytes) -> int:
    """0, or the errno."""
    return ctypes.get_errno() if libc.connect(fd, packed, len(packed)) else 0


def connect_without_waiting(fd: int, packed: bytes) -> int:
    """As `connect` on a socket that does not block, whatever it is otherwise.

    The flag is the caller's own for the length of the call; other threads of it may see it.
    """
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    if flags & os.O_NONBLOCK:
        return connect(fd, packed)
    fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    try:
        return connect(fd, packed)
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)


def is_blocking(fd: int) -> bool:
    return not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK


def accept(fd: int, flags: int) -> tuple[int, bytes]:
    """A connection that is there now, and where it came from; raises BlockingIOError."""
    buffer, length = ctypes.create_string_buffer(MAX), ctypes.c_uint(MAX)
    blocking = is_blocking(fd)
    if blocking:
        os.set_blocking(fd, False)
    try:
        found = int(libc.accept4(fd, buffer, ctypes.byref(length), flags))
        error = _fail() if found < 0 else None
    finally:
        if blocking:
            os.set_blocking(fd, True)
    if error is not None:
        raise error
    return found, buffer.raw[: length.value]


def send(fd: int, data: bytes, flags: int, to: bytes) -> int:
    sent = int(libc.sendto(fd, data, len(data), flags, to, len(to)))
    if sent < 0:
        raise _fail()
    return sent


CONNECTING = (0, EINPROGRESS)
