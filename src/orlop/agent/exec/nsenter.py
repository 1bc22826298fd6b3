"""Enters a running container and becomes another command there, as `kubectl exec` asks.

`launch` is the body of a forked helper of the agent. By the container's first process it finds the
namespaces, root and user that the runtime made, whichever that was; it leaves the new process to
the supervisor and tells its number, or why there is none. After it has entered it imports nothing,
because files are the container's then.
"""

from __future__ import annotations

import fcntl
import os
import socket
import termios

from ..container import capabilities
from ..container.runtimes import Box
from ..linux import syscalls
from ..linux.fast_imports import value
from .execve import Failure, execute, go_to
from .trampoline import Interlude, explained

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The user namespace comes last: the rights to enter the others are the sandbox's.
NAMESPACES = ("cgroup", "ipc", "uts", "net", "pid", "mnt")
TIOCSPTLCK = 0x40045431  # to unlock a terminal; the number of x86-64 and aarch64
TIOCGPTPEER = 0x5441  # Linux 4.13: the other end of a terminal, wherever it is mounted
FAILED = b"!"


@value
class Command:
    """A command to run in a container, and where that is."""

    argv: list[str]
    box: Box
    pid: int  # the container's first process
    tty: bool


def launch(command: Command, report: socket.socket) -> Callable[[], None]:
    """Return the helper's body; `report` hears a number, with the terminal, or `!` and words."""

    def body() -> None:
        try:
            spare = os.openpty() if command.tty else None
            ends = os.pipe()
            interlude = Interlude(command.argv, env_of(command), ends[1], _profile(command))
            user = enter(command)
            ours, theirs = _open_terminal(spare) if spare is not None else (-1, -1)
            pid = fork_into(
                lambda: _become(command, user, theirs, interlude), ends, command.argv[0]
            )
            socket.send_fds(report, [str(pid).encode()], [ours] if ours >= 0 else [])
        except (Failure, OSError) as error:
            report.send(FAILED + str(error).encode(errors="replace"))
        os._exit(0)

    return body


def enter(command: Command) -> int:
    """Enter all but the user namespace; return a descriptor of that if it is another, else -1."""
    folder = f"/proc/{command.pid}"
    try:
        root = os.open(f"{folder}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        others = [fd for fd in (_other(folder, name) for name in NAMESPACES) if fd >= 0]
        user = _other(folder, "user")
    except FileNotFoundError:
        raise Failure("the container has just ended") from None
    try:
        for fd in others:
            syscalls.setns(fd)
        if others:
            os.fchdir(root)
            os.chroot(".")
    except PermissionError:
        problem = command.box.sandbox.problem or "the kernel does not let us"
        raise Failure(f"the container cannot be entered: {problem}") from None
    return user


def _other(folder: str, name: str) -> int:
    """Open a namespace of the container's; return -1 where it is our own or does not exist."""
    path, own = f"{folder}/ns/{name}", f"/proc/self/ns/{name}"
    try:
        if os.path.samefile(path, own):
            return -1
    except FileNotFoundError:
        if not os.path.exists(folder):
            raise
        return -1
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _open_terminal(spare: tuple[int, int]) -> tuple[int, int]:
    """Open both ends of a terminal of the container's /dev/pts, or the node's if it has none."""
    flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
    try:
        ours = os.open("/dev/ptmx", flags)
        fcntl.ioctl(ours, TIOCSPTLCK, b"\0\0\0\0")
        return ours, fcntl.ioctl(ours, TIOCGPTPEER, flags)
    except OSError:
        return spare


def fork_into(
    become: Callable[[], object], ends: tuple[int, int] | None = None, name: str = ""
) -> int:
    """Return the number of the new process once it is the command; raise what kept it from that.

    `ends` are those of a pipe of which a successful exec closes the second, `name` the command's.
    """
    read_end, write_end = ends or os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become()
        except (Failure, OSError) as error:
            os.write(write_end, str(error).encode(errors="replace"))
        finally:
            os._exit(127)
    os.close(write_end)
    words = os.read(read_end, 4096)
    if words:
        os.waitpid(pid, 0)
        raise Failure(explained(words, name, is_small=True))
    return pid


def env_of(command: Command) -> dict[str, str]:
    env = dict(command.box.env)
    if command.tty:
        env.setdefault("TERM", "xterm")
    return env


def _profile(command: Command) -> bytes:
    return command.box.seccomp.filter if command.box.seccomp is not None else b""


def _become(command: Command, user: int, terminal: int, interlude: Interlude) -> None:
    os.setsid()
    if terminal >= 0:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        for fd in (0, 1, 2):
            os.dup2(terminal, fd)
    box = command.box
    if box.sandbox.is_isolated:
        _take_user(box, user, terminal)
    syscalls.no_new_privileges()
    os.umask(0o022)
    go_to(box.container.cwd)
    if interlude.is_there:
        interlude.become()
    if box.seccomp is not None:
        syscalls.confine(box.seccomp.filter)
    execute(command.argv, env_of(command))


def _take_user(box: Box, namespace: int, terminal: int) -> None:
    """Take the container's ids: those of its user namespace, or of the sandbox's range."""
    if namespace >= 0:
        syscalls.setns(namespace)
    for number in capabilities.others(box.container.capabilities):
        if not syscalls.drop_from_bounding_set(number):
            break
    user = box.container.user
    if namespace >= 0 or user is None or not box.sandbox.has_id_range:
        return
    if terminal >= 0:
        os.fchown(terminal, user.uid, -1)
    if user.groups:
        os.setgroups(user.groups)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
