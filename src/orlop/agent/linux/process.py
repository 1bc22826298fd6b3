"""Starts a child process: its standard streams, its cgroups, then its program.

Called by the supervisor for every launcher. The child is a fork of the agent that does as little as
possible before it becomes another program, because another thread may hold any lock; whoever calls
owns the child and reaps it.
"""

from __future__ import annotations

import fcntl
import os
from resource import RLIM_INFINITY, RLIMIT_NPROC, getrlimit, setrlimit

from .fast_imports import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# Handled by the agent, or ignored by whoever started it (a shell's background does that to INT
# and QUIT): a container's programs start with none of it.
_RESET = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGXFSZ,
)


RESERVE = 256  # of the processes that a user may have, for what is no container's


def most_processes(asked: int) -> int:
    """Return how many processes and threads a pod's containers may have; 0: no limit of ours.

    Linux counts them by user, and from 5.14 on by user namespace, too. One pod must not take all
    that its user may have on the node: our own, of this pod and of others, are among them.
    """
    own = getrlimit(RLIMIT_NPROC)[0]
    if own == RLIM_INFINITY:
        return asked
    left = own - min(RESERVE, own // 4)
    return min(asked, left) if asked else left


def spawn(
    body: Callable[[], object],
    streams: tuple[int, int, int],
    cgroups: Sequence[str] = (),
    processes: int = 0,
) -> int:
    """Fork a child that runs `body` with the given stdin, stdout and stderr; return its pid.

    `cgroups` are cgroup.procs files the child enters first, `processes` how many there may be with
    it. A body that returns or raises ends the child with 127 and the error on its stderr.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        for path in cgroups:
            _enter(path)
        _redirect(streams)
        if processes:
            setrlimit(RLIMIT_NPROC, (processes, processes))
        body()
    except BaseException as error:
        os.write(2, f"{error}\n".encode(errors="replace"))
    finally:
        os._exit(127)
    return 0


def program(argv: list[str], env: Mapping[str, str]) -> Callable[[], object]:
    """Return the body of a child that becomes another program, found in the agent's own PATH."""

    return lambda: become(argv, env, os.environ.get("PATH", os.defpath))


def become(argv: list[str], env: Mapping[str, str], path: str) -> None:
    """Become a program as os.execvpe, without its imports; look in `path`, raise OSError."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, env)
    failure: OSError = FileNotFoundError(2, os.strerror(2), argv[0])
    for folder in path.split(os.pathsep):
        try:
            os.execve(os.path.join(folder, argv[0]), argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failure = error  # of no use here; another folder may have a better one
    raise failure


def close_on_exec() -> None:
    """Keep what the engine left open, a lock for instance, from every container."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                pass  # the descriptor of the listing itself


def _enter(path: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, b"0")
    os.close(fd)


def _redirect(streams: tuple[int, int, int]) -> None:
    # Copies above 2 first, so that no dup2 overwrites a stream that is still to be copied.
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in streams]
    for target, fd in enumerate(copies):
        os.dup2(fd, target)


def exit_of(status: int) -> tuple[int, int]:
    """Return the exit code as Kubernetes counts it (128 + signal), and the signal or 0."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status), os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def reaped() -> Iterator[tuple[int, int]]:
    """Yield every child that has ended, and its status; do not wait."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def run_quickly(argv: list[str]) -> tuple[int, str]:
    """Run a command to its end; return its exit code, and what it printed and complained."""
    read_end, write_end = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    pid = spawn(program(argv, os.environ), (null, write_end, write_end))
    os.close(write_end)
    os.close(null)
    with open(read_end, "rb") as file:
        text = file.read()
    return exit_of(os.waitpid(pid, 0)[1])[0], text.decode(errors="replace")


def parents() -> dict[int, int]:
    """Map every process to its parent, as far as /proc shows them."""
    return _numbers(1)


def children(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`."""
    return [child for child, parent in parents().items() if parent == pid]


def session_of(leader: int) -> list[int]:
    """Return the processes of the session that `leader` began, whether it still lives or not."""
    return [pid for pid, session in _numbers(3).items() if session == leader]


def _numbers(field: int) -> dict[int, int]:
    """Return a field of the stat of every process: state, parent, group, session."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # After the name, which may hold anything.
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            found[int(name)] = int(fields[field])
    return found


def first_child(pid: int) -> int:
    """Return the oldest child of a process; 0 if it has none."""
    return min(children(pid), default=0)
