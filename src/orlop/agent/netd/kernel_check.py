"""Finds out whether this kernel, as this user, can give pods a network of their own.

Asked by the agent before it filters anything, and by `orlop doctor`. Each question is put to the
kernel itself where it can be, because distributions carry features back; what is missing is said in
words for the site's people.
"""

from __future__ import annotations

import ctypes
import os
from errno import ENOSYS

from .seccomp.syscall_numbers import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

_GET_ACTION_AVAIL = 2
_USER_NOTIF = 0x7FC00000
PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
# Descriptors that are made in another process and answered with in one step: not to be asked for.
OLDEST = (5, 14)


def problem(is_isolated: bool, scope_file: str = PTRACE_SCOPE) -> str:
    """Return what is missing, or nothing; `is_isolated`: containers are in our user namespace."""
    try:
        numbers = calls()
    except OSError as error:
        return str(error)
    release = os.uname().release
    if _version(release) < OLDEST:
        return f"Linux {release} is older than {'.'.join(map(str, OLDEST))}"
    libc = ctypes.CDLL(None, use_errno=True)
    action = ctypes.c_uint(_USER_NOTIF)
    if libc.syscall(numbers["seccomp"], _GET_ACTION_AVAIL, 0, ctypes.byref(action)):
        return "the kernel does not notify of calls by seccomp (SECCOMP_RET_USER_NOTIF)"
    if libc.syscall(numbers["pidfd_getfd"], -1, -1, 0) and ctypes.get_errno() == ENOSYS:
        return "the kernel does not have, or does not permit, pidfd_getfd"
    return _tracing(is_isolated, scope_file) or _telling()


def _tracing(is_isolated: bool, scope_file: str) -> str:
    """Say why a process may not look into those beside it, as netd must; or nothing."""
    scope = _number_in(scope_file)
    if scope == 3 or (scope > 0 and not is_isolated):
        remedy = "ask the site for kernel.yama.ptrace_scope=0, or for user namespaces"
        return f"processes may not be looked into (kernel.yama.ptrace_scope={scope}); {remedy}"
    return ""


def _telling() -> str:
    """Say why the kernel does not tell whose a socket is, which proofs need; or nothing."""
    from .identity.sock_diag import TCP, Owners
    from .netd_supervisor import open_diagnostics
    from .sockets.sockaddr import AF_INET, Address

    owners = Owners(open_diagnostics(), [(0, 1 << 32)])
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        ip, port = listener.getsockname()
        if owners.holds(TCP, Address(AF_INET, socket.inet_aton(ip), port)):
            return ""
        return "the kernel does not say whose sockets are (sock_diag, CONFIG_INET_DIAG)"
    except OSError as error:
        return f"127.0.0.1 cannot be listened at: {error}"
    finally:
        listener.close()
        owners.close()


def _version(release: str) -> tuple[int, ...]:
    words = release.split("-")[0].split(".")[:2]
    return tuple(int(word) if word.isdigit() else 0 for word in words)


def _number_in(path: str) -> int:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0
