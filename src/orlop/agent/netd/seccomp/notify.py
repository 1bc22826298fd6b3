"""Installs a seccomp filter with user notification, receives its calls and answers them.

`install` runs in a process that is about to become a container's; netd owns the listeners and
answers. Numbers of linux/seccomp.h; what a call means is decided elsewhere.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import struct
import time

from ..layout import (
    ADDFD_ANSWER,
    ADDFD_AT,
    DESCRIPTOR,
    NOTIF_ADDFD,
    NOTIF_CONTINUE,
    NOTIF_ID_VALID,
    NOTIF_RECV,
    NOTIF_SEND,
    NOTIFICATION,
    REPLY,
    SIGNALLED_FOR,
)
from .syscall_numbers import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Union

    from ..native import Quick

_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
_SPEC_ALLOW = 1 << 2  # else kernels before 5.16 slow all filtered processes down
_SET_FLAGS = 0x40082104
_SYNC_WAKE_UP = 1

CLOSE_ON_EXEC = os.O_CLOEXEC
_NOTICE = NOTIFICATION.struct
_ANSWER, _DESCRIPTOR = REPLY.struct, DESCRIPTOR.struct
_ID = struct.Struct("<Q")
_EMPTY = bytes(_NOTICE.size)


# Looked up here and now: in a fork of an agent with threads the loader's lock may be held for ever.
_syscall = ctypes.CDLL(None, use_errno=True).syscall


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(filter: bytes) -> int:
    """Filter this process and all that come of it; return the listener's descriptor.

    Raise OSError. The process must have no_new_privs, or rights over its user namespace.
    """
    program = _Program(len(filter) // 8, filter)
    flags = _NEW_LISTENER | _SPEC_ALLOW
    number = calls()["seccomp"]
    found = int(_syscall(number, _SET_MODE_FILTER, flags, ctypes.byref(program)))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp user notification: {os.strerror(code)}")
    return found


class Call:
    """One call that waits for its answer."""

    __slots__ = ("args", "cookie", "id", "listener", "number", "pid")

    def __init__(
        self, listener: Listener, id: int, pid: int, number: int, args: tuple[int, ...]
    ) -> None:
        self.listener, self.id, self.pid, self.number, self.args = listener, id, pid, number, args
        self.cookie = 0  # of the socket it has set going, if it has

    @property
    def is_waiting(self) -> bool:
        """Return whether it still waits: not once its caller was killed, or got a signal."""
        try:
            fcntl.ioctl(self.listener.fd, NOTIF_ID_VALID, _ID.pack(self.id))
            return True
        except OSError as error:
            self._note(error)
            return False

    @property
    def has_caller(self) -> bool:
        """Return whether its thread lives, and may call again."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def answer(self, value: int) -> bool:
        """Make the call return `value`, or minus an errno; return whether its caller was still
        there.
        """
        if value < 0:
            return self._send(_ANSWER.pack(self.id, 0, value, 0))
        return self._send(_ANSWER.pack(self.id, value, 0, 0))

    def go_on(self) -> bool:
        """Let the kernel do the call as if it had not been asked about."""
        return self._send(_ANSWER.pack(self.id, 0, 0, NOTIF_CONTINUE))

    def _send(self, packed: bytes) -> bool:
        try:
            fcntl.ioctl(self.listener.fd, NOTIF_SEND, packed)
            return True
        except OSError as error:
            self._note(error)
            return False

    def _note(self, error: OSError) -> None:
        """Remember that signals are about, where a call was interrupted."""
        if error.errno in (errno.ENOENT, errno.ESRCH):
            self.listener.signalled_at = time.monotonic()

    def answer_given(self, number: int, fd: int, flags: int) -> bool:
        """Answer with our `fd`, which the caller has by that number; return whether it heard.

        A caller that is signalled in the moment of an answer may drop it, and the kernel says that
        it was heard. Where signals are about, the answer is therefore part of giving the descriptor
        once more, which the caller does itself or not at all. Else not, for the reason that
        `give_any` has.
        """
        if time.monotonic() - self.listener.signalled_at > SIGNALLED_FOR:
            return self.answer(number)
        how = ADDFD_AT | ADDFD_ANSWER
        try:
            fcntl.ioctl(
                self.listener.fd, NOTIF_ADDFD, _DESCRIPTOR.pack(self.id, how, fd, number, flags)
            )
            return True
        except OSError as error:
            self._note(error)
            return False

    def give_any(self, fd: int, flags: int) -> int:
        """Put our `fd` among the caller's; return its number there; raise OSError, e.g. EMFILE.

        The kernel could answer with it in one step, but whoever asks for that and is killed before
        the caller has run leaves it with the answer 0: its standard input.
        """
        packed = bytearray(_DESCRIPTOR.pack(self.id, 0, fd, 0, flags))  # else no result is told
        try:
            return int(fcntl.ioctl(self.listener.fd, NOTIF_ADDFD, packed, True))
        except OSError as error:
            self._note(error)
            raise

    def give(self, fd: int, at: int, flags: int) -> None:
        """Put our `fd` at a number of the caller's; raise OSError, e.g. beyond its limit."""
        fcntl.ioctl(
            self.listener.fd, NOTIF_ADDFD, _DESCRIPTOR.pack(self.id, ADDFD_AT, fd, at, flags)
        )


class Listener:
    """Where the calls of one container's processes arrive."""

    def __init__(self, fd: int, quick: Optional[Quick] = None) -> None:
        self.fd, self._quick = fd, quick
        self.signalled_at = -SIGNALLED_FOR  # when a call was last found interrupted
        self._desk = quick.desk() if quick is not None else None
        try:
            fcntl.ioctl(fd, _SET_FLAGS, _SYNC_WAKE_UP)  # Linux 6.6: answered on the caller's core
        except OSError:
            pass

    def receive(self) -> Optional[Call]:
        """Return the next call that is for us; None when nobody is left to make one."""
        if self._quick is not None:
            raw = ctypes.create_string_buffer(_NOTICE.size)
            return self.call(raw.raw) if self._quick.next(self._desk, self.fd, raw) else None
        while True:
            found = self.take()
            if found is not None:
                return self.call(found)
            if self.is_abandoned():
                return None

    def take(self) -> Optional[bytearray]:
        """Return the next call as the kernel tells it; None when its caller is gone, or all are."""
        buffer = bytearray(_EMPTY)
        while True:
            try:
                fcntl.ioctl(self.fd, NOTIF_RECV, buffer, True)
                return buffer
            except InterruptedError:
                continue
            except OSError:
                return None

    def call(self, raw: Union[bytes, bytearray]) -> Call:
        id, pid, _, number, _, _, *args = _NOTICE.unpack(raw)
        return Call(self, id, pid, number, tuple(args))

    def close(self) -> None:
        os.close(self.fd)
        if self._quick is not None:
            self._quick.leave(self._desk)

    def is_abandoned(self) -> bool:
        poll = select.poll()
        poll.register(self.fd, 0)
        return bool(poll.poll(0))
