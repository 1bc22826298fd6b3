"""Reads and writes the memory and the descriptors of the process that made a call.

Used by whoever answers a call, one `Target` for each thread that does. What is read there is what a
stranger wrote: lengths are bounded here and contents checked by the caller. Nothing is written
before the kernel has confirmed that the process still waits for its answer.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections import OrderedDict
from errno import EFAULT, EINVAL, ESRCH

from ..sockets.sockaddr import MAX
from .notify import Call
from .syscall_numbers import calls

LONGEST = 1 << 18  # a datagram is at most 64 KiB
MAX_PIDFDS = 256
_PIDFD_THREAD = os.O_EXCL  # Linux 6.9: any thread; before, the process it belongs to
_INT = struct.Struct("<I")

# Calls that never wait keep the interpreter's lock: to give it up costs more than they do.
libc = ctypes.PyDLL(None, use_errno=True)
_long, _pointer, _int = ctypes.c_long, ctypes.c_void_p, ctypes.c_int
libc.syscall.restype = _long
libc.syscall.argtypes = [_long, _long, _long, _long]
for _name in ("process_vm_readv", "process_vm_writev"):
    getattr(libc, _name).argtypes = [_int, _pointer, _long, _pointer, _long, _long]
    getattr(libc, _name).restype = _long


class _Iov(ctypes.Structure):
    _fields_ = [("base", ctypes.c_uint64), ("length", ctypes.c_uint64)]


_Pair = _Iov * 2


class Target:
    """Memory of callers, through one buffer, and their descriptors."""

    def __init__(self) -> None:
        descriptors = Descriptors()
        self.grab, self.peek, self.close = descriptors.grab, descriptors.peek, descriptors.close
        self.has = descriptors.has
        self._buffer = ctypes.create_string_buffer(LONGEST)
        self._bytes = memoryview(self._buffer).cast("B")
        self._ours, self._theirs = _Iov(ctypes.addressof(self._buffer), 0), _Iov()
        self._our_address = ctypes.addressof(self._ours)
        self._their_address = ctypes.addressof(self._theirs)
        self._pair = _Pair()
        self._pair_address = ctypes.addressof(self._pair)

    def read(self, call: Call, address: int, length: int) -> bytes:
        """Read exactly so many bytes; raise OSError EFAULT as the kernel would."""
        if length > LONGEST:
            raise OSError(EINVAL, "too long")
        self._ours.length = self._theirs.length = length
        self._theirs.base = address
        got = libc.process_vm_readv(call.pid, self._our_address, 1, self._their_address, 1, 0)
        if got != length:
            raise OSError(EFAULT, "the caller's memory")
        return self._bytes[:length].tobytes()

    def write(self, call: Call, address: int, data: bytes) -> None:
        if len(data) > LONGEST or not call.is_waiting:
            raise OSError(EFAULT, "the caller's memory")
        self._bytes[: len(data)] = data
        self._ours.length = self._theirs.length = len(data)
        self._theirs.base = address
        put = libc.process_vm_writev(call.pid, self._our_address, 1, self._their_address, 1, 0)
        if put != len(data):
            raise OSError(EFAULT, "the caller's memory")

    def read_address(self, call: Call, address: int, length: int) -> bytes:
        """Read a socket address argument."""
        if length > MAX:
            raise OSError(EINVAL, "address too long")
        return self.read(call, address, length)

    def write_address(self, call: Call, address: int, length_at: int, raw: bytes) -> None:
        """Write an address as the kernel answers one: what fits, and how long it really is."""
        if not address:
            return
        room = _INT.unpack(self.read(call, length_at, 4))[0]
        if room > 1 << 31:
            raise OSError(EINVAL, "negative length")
        if not call.is_waiting:
            raise OSError(EFAULT, "the caller's memory")
        part = raw[:room] + _INT.pack(len(raw))
        count = len(part)
        self._bytes[:count] = part
        self._ours.length = count
        name, length = self._pair
        name.base, name.length = address, count - 4
        length.base, length.length = length_at, 4
        put = libc.process_vm_writev(call.pid, self._our_address, 1, self._pair_address, 2, 0)
        if put != count:
            raise OSError(EFAULT, "the caller's memory")


class Descriptors:
    """Copies of callers' descriptors: the same open socket, not another one."""

    def __init__(self) -> None:
        numbers = calls()
        self._open, self._get = numbers["pidfd_open"], numbers["pidfd_getfd"]
        self._flag = _PIDFD_THREAD
        self._pidfds: OrderedDict[int, int] = OrderedDict()

    def grab(self, call: Call, number: int) -> int:
        """Copy a descriptor for whoever asked, who closes it. Raise OSError, e.g. EBADF."""
        fd = self.peek(call, number)
        if fd < 0:
            code = ctypes.get_errno()
            if code == ESRCH:  # the number had another owner
                self._forget(call.pid)
                fd = self.peek(call, number)
                code = ctypes.get_errno()
            if fd < 0:
                raise OSError(code, "the caller's descriptor")
        return fd

    def peek(self, call: Call, number: int) -> int:
        """Copy as `grab` does, but return -1 where there is none."""
        # Numbers of descriptors are ints in the kernel, whatever else is in the register.
        return self.copy(call.pid, number & 0xFFFFFFFF)

    def copy(self, pid: int, number: int) -> int:
        """Copy as `peek` does, without a call; raise OSError where there is no such thread."""
        return int(libc.syscall(self._get, self._pidfd(pid), number, 0))

    def has(self, call: Call, number: int, fd: int) -> bool:
        """Return whether the caller has our socket by that number."""
        try:
            copy = self.grab(call, number)
        except OSError:
            return False
        try:
            ours, theirs = os.fstat(fd), os.fstat(copy)
            return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)
        finally:
            os.close(copy)

    def _pidfd(self, pid: int) -> int:
        fd = self._pidfds.get(pid)
        if fd is None:
            fd = self._open_pidfd(pid)
            self._pidfds[pid] = fd
            if len(self._pidfds) > MAX_PIDFDS:
                os.close(self._pidfds.popitem(last=False)[1])
        return fd

    def _open_pidfd(self, pid: int) -> int:
        fd = int(libc.syscall(self._open, pid, self._flag, 0))
        if fd < 0 and ctypes.get_errno() == EINVAL and self._flag:
            self._flag = 0
            return self._open_pidfd(pid)
        if fd < 0 and not self._flag:
            fd = int(libc.syscall(self._open, _process_of(pid), 0, 0))
        if fd < 0:
            raise OSError(ESRCH, "the caller is gone")
        return fd

    def _forget(self, pid: int) -> None:
        fd = self._pidfds.pop(pid, None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        for pid in list(self._pidfds):
            self._forget(pid)


def _process_of(thread: int) -> int:
    try:
        with open(f"/proc/{thread}/status") as file:
            return next(int(line[5:]) for line in file if line.startswith("Tgid:"))
    except (OSError, StopIteration):
        return thread
