"""Serves the container of a rank set on one node: makes it, and lets its ranks enter.

Run by the leader on the pod's first node, by node_main.py on every other. The container is made
when the first rank asks, because until then it is not known what its PMI wants to see; what keeps
it there are open namespaces, and for a runtime's sake a process that waits. The container's own
command is run by the ranks.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import sys

from ..container import capabilities
from ..container.runtimes import Box, native, stub
from ..linux import syscalls
from ..linux.fast_imports import signal
from ..linux.process import children, spawn
from ..pod.volumes import Bind
from .wire import BESIDE, FAILED, LISTENER, NO_RANK, TERMINAL, Answer, Hello

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ..container.runtimes import Launch, Runtime
    from .networking import Reach

HOLD = "/.orlop-hold"  # the program that waits, removed by itself
YIELD = "OMPI_MCA_mpi_yield_when_idle"  # a rank that spins keeps others from the core they share
HOLDER = "holder"  # the number of its process, in the folder of the run
AT_FDCWD = -100
START_TIME = 60.0  # for a runtime to tell that its container runs


class ContainerServer:
    """Serves one container to the ranks of this node, and keeps what is known of them."""

    def __init__(
        self,
        meeting: str,
        box: Box,
        runtime: Runtime,
        ranks: dict[str, Any],
        terminal: int = -1,
        own_env: dict[str, str] | None = None,
    ) -> None:
        self._box, self._runtime, self._hostname = box, runtime, ranks["hostname"]
        self._reach = _reach(ranks)
        self._terminal = terminal  # for the first rank; it is the leader's
        self._own_env = own_env  # what ranks know of Slurm, in place of what their task is told
        self._lines: dict[int, tuple[_socket.socket, int]] = {}  # descriptor -> connection, rank
        self._descriptors: list[int] = []
        self._mounts = -1  # of these, that of the container's mounts
        self._holder = 0
        self._is_made = False
        self.pids: dict[int, int] = {}  # of the ranks that run or ran
        self.expected = 0  # how many there will be; 0: not known yet
        self.step = ""
        self.error = ""
        self._listener, self._lock = _listen(meeting)

    def watched(self) -> list[int]:
        """Return the descriptors to poll; `on_ready` is for each that has something."""
        reach = self._reach.fileno() if self._reach is not None else -1
        return [self._listener.fileno(), *self._lines, *([reach] if reach >= 0 else [])]

    def on_ready(self, fd: int) -> None:
        if fd == self._listener.fileno():
            self.on_knock()
        elif fd in self._lines:
            self.on_line(fd)
        elif self._reach is not None:
            self._reach.on_end()

    def timeout(self) -> int | None:
        """Return milliseconds until `tick` is due; None where descriptors are all that counts."""
        return self._reach.timeout() if self._reach is not None else None

    def tick(self) -> None:
        """Do what is due after some time, if that has passed."""
        if self._reach is not None:
            self._reach.tick()

    def lines(self) -> list[int]:
        """Return the descriptors of those who are about to become a rank."""
        return list(self._lines)

    @property
    def is_full(self) -> bool:
        return bool(self.expected) and len(self.pids) >= self.expected

    def on_knock(self) -> None:
        """Answer the next one; tell all who ask what kept the container from being made."""
        fd, _ = self._listener._accept()  # type: ignore[attr-defined]
        line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)
        line.setblocking(True)
        try:
            hello = Hello.decoded(line.recv(65536))
        except (OSError, ValueError):
            line.close()  # ended before it said who it is; the others are no worse for it
            return
        if hello.kind == TERMINAL:
            terminals = [self._terminal] if self._terminal >= 0 else []
            _say(line, Answer([], {}), terminals)
            line.close()
            return
        if hello.kind == BESIDE:
            self._let_in_beside(line, hello.rank)
            return
        try:
            if self.error:
                raise OSError(self.error)
            if not self._is_made:
                self._make(hello)
            _say(line, self._answer(), self._descriptors)
        except (OSError, ValueError) as error:
            self.error = self.error or str(error)
            _say(line, _refusal(error), [])
        self._lines[line.fileno()] = line, hello.rank
        self.pids[hello.rank] = hello.pid

    def _let_in_beside(self, line: _socket.socket, rank: int) -> None:
        try:
            _say(line, self._answer_exec(rank), self._descriptors)
        except OSError as error:
            _say(line, _refusal(error), [])
        self._lines[line.fileno()] = line, NO_RANK

    def on_line(self, fd: int) -> None:
        """Read a connection; one that ends without a word is that of a rank which runs."""
        line, rank = self._lines[fd]
        words, listeners = _heard(line)
        if words.startswith(LISTENER):
            self._take(int(words[len(LISTENER) :]), listeners)
            return
        del self._lines[fd]
        line.close()
        if words.startswith(FAILED) and rank != NO_RANK:
            self.error = self.error or words[1:].decode(errors="replace")
            self.pids.pop(rank, None)

    def _take(self, pid: int, listeners: list[int]) -> None:
        for listener in listeners:
            if self._reach is not None:
                self._reach.take(pid, listener)
            else:
                os.close(listener)

    def runs(self, rank: int) -> bool:
        return rank in self.pids and all(rank != each for _, each in self._lines.values())

    def holds(self, pid: int) -> bool:
        """Return whether a process is in the container: nobody else sees its mounts."""
        if self._mounts < 0:
            return False
        theirs, ours = os.stat(f"/proc/{pid}/ns/mnt"), os.fstat(self._mounts)
        return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)

    def close(self) -> None:
        for line, _ in self._lines.values():
            line.close()
        for fd in self._descriptors:
            os.close(fd)
        if self._reach is not None:
            self._reach.close()
        self._listener.close()
        os.close(self._lock)
        end_holder(self._box)

    # The container

    def _make(self, hello: Hello) -> None:
        """Make the container by the first rank's words: its step, number of ranks, PMI folders."""
        self._is_made = True
        self.step, self.expected = hello.step, tasks_on(hello.tasks or "1", hello.node)
        box = self._box
        if not box.sandbox.is_isolated:
            if box.root:
                words = "ranks in an image cannot be had without user namespaces: "
                raise OSError(words + box.sandbox.problem)
            return
        for folder in _outermost(hello.folders):
            box.binds.append(Bind(folder, folder))
        if box.root and self._runtime.name != "native":
            root, mounts = self._by_runtime(box)
        else:
            root, mounts = _opened_of(lambda: native.enter_root(box), ["root", "ns/mnt"])
        own = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("user", "ipc")]
        names = _opened_of(self._take_name, ["ns/uts"])
        self._descriptors, self._mounts = [root, *own, *names, mounts], mounts
        if self._has_own_user:
            self._descriptors += _opened_of(self._take_user, ["ns/user"])

    @property
    def _has_own_user(self) -> bool:
        """Return whether ranks take their user by a namespace; PMIx wants them to be oneself."""
        return self._box.container.user is None or not self._box.sandbox.has_id_range

    def _take_name(self) -> None:
        """Take the node's name: each rank must be found by its own node's name."""
        syscalls.unshare(syscalls.CLONE_NEWUTS)
        syscalls.sethostname(self._hostname)

    def _take_user(self) -> None:
        user, sandbox = self._box.container.user, self._box.sandbox
        map_ids(user.uid if user else sandbox.uid, user.gid if user else sandbox.gid)

    def _by_runtime(self, box: Box) -> tuple[int, int]:
        """Have the runtime make a container, whose one process waits."""
        machine = os.uname().machine
        if machine not in stub.ARCHITECTURES:
            known = ", ".join(stub.ARCHITECTURES)
            raise OSError(f"ranks in a container of {self._runtime.name} run on {known} only")
        path = box.root + HOLD
        with open(path, "wb") as file:
            file.write(_hold(machine).elf())
        os.chmod(path, 0o755)
        fields = {"argv": [HOLD], "tty": False, "stdin": False, "user": None}
        container = type(box.container)(**{**box.container.__dict__, **fields})
        # Ranks get the container's filter; what only waits needs none, and may be no use behind it.
        held = type(box)(**{**box.__dict__, "container": container, "seccomp": None})
        launch = self._runtime.compose(held)
        self._holder = self._started(held, launch)
        with open(os.path.join(box.folder, HOLDER), "w") as file:
            file.write(str(self._holder))
        flags = os.O_RDONLY | os.O_CLOEXEC
        folder = f"/proc/{self._holder}"
        root = os.open(f"{folder}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return root, os.open(f"{folder}/ns/mnt", flags)

    def _started(self, box: Box, launch: Launch) -> int:
        """Return the number of the process that waits, once the runtime says that it runs."""
        read_end, write_end = os.pipe()
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        status = -1
        if launch.status:
            status = os.open(launch.status, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        launcher = spawn(launch.body, (null, write_end, write_end))
        os.close(write_end)
        report = b""
        if launch.status:
            report = _report(status, launcher)
            if len(report) == 1:
                os.close(read_end)
                return (children(launcher) or [launcher])[0]
            is_late = not report and not _has_ended(launcher)
            if is_late:
                os.killpg(launcher, signal.SIGKILL)  # nobody listens any more for its word
            os.waitpid(launcher, 0)
            if is_late:
                os.close(read_end)
                raise OSError(f"{self._runtime.name}: no container within {START_TIME:g} s")
        elif os.waitpid(launcher, 0)[1] == 0:
            os.close(read_end)
            with open(launch.pid_file) as file:
                return int(file.read())
        printed = os.read(read_end, 65536).decode(errors="replace")
        raise OSError(self._runtime.words(box, launch, printed, report))

    # What ranks are told

    def _answer(self) -> Answer:
        container = self._box.container
        user, profile = container.user, self._box.seccomp
        env = dict(self._box.env)
        if self.expected > len(os.sched_getaffinity(0)):
            env.setdefault(YIELD, "1")
        return Answer(
            container.argv,
            {**env, **(self._own_env or {})},
            container.cwd,
            has_user=bool(self._descriptors) and self._has_own_user,
            user=(user.uid, user.gid, user.groups) if user else None,
            dropped=tuple(capabilities.others(container.capabilities)),
            seccomp=profile.filter if profile is not None else b"",
            is_told=self._own_env is None,
            asks=self._reach.filter if self._reach is not None else b"",
        )

    def _answer_exec(self, rank: int) -> Answer:
        """Answer a command beside a rank, with that rank's own variables."""
        if rank == NO_RANK:
            return self._answer()
        if not self.runs(rank):
            raise OSError(f"rank {rank} does not run on this node")
        with open(f"/proc/{self.pids[rank]}/environ", "rb") as file:
            pairs = [pair.partition(b"=") for pair in file.read().split(b"\0") if pair]
        answer = self._answer()
        answer.env = {os.fsdecode(name): os.fsdecode(text) for name, _, text in pairs}
        return answer


def _reach(ranks: dict[str, Any]) -> Reach | None:
    """Return what ranks reach names and services by; None for those that do not ask for them."""
    if not ranks.get("network"):
        return None
    from .networking import Reach

    return Reach(ranks["folder"])


def _heard(line: _socket.socket) -> tuple[bytes, list[int]]:
    """Return what a starter says, and the listener that may come with it."""
    try:
        words, ancillary, _, _ = line.recvmsg(8192, _socket.CMSG_SPACE(4))
    except OSError:
        return b"", []
    fds = [int.from_bytes(raw[:4], sys.byteorder) for _, _, raw in ancillary if len(raw) >= 4]
    for fd in fds:
        os.set_inheritable(fd, False)
    return words, fds


def _refusal(error: Exception) -> Answer:
    return Answer([], {}, error=str(error) or type(error).__name__)


def _listen(meeting: str) -> tuple[_socket.socket, int]:
    """Listen at the meeting point as soon as its folder is there.

    The folder is locked, lest another agent sweep it away.
    """
    folder, name = os.path.split(meeting)
    new = os.path.join(folder, f".{name}.{os.getpid()}")
    os.mkdir(new, 0o700)
    lock = os.open(new, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    listener.bind(os.path.join(new, "door"))
    listener.listen(1024)
    os.rename(new, meeting)
    return listener, lock


def end_holder(box: Box) -> None:
    """End the process that holds the container, should its maker have been killed."""
    path = os.path.join(box.folder, HOLDER)
    try:
        with open(path) as file:
            os.kill(int(file.read()), signal.SIGKILL)
        os.unlink(path)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        pass  # there was none, it is gone, or its maker was killed before it had written all


def leave(meeting: str) -> None:
    """Remove the meeting point."""
    for remove, path in ((os.unlink, os.path.join(meeting, "door")), (os.rmdir, meeting)):
        try:
            remove(path)
        except OSError:
            pass


def _say(line: _socket.socket, answer: Answer, descriptors: list[int]) -> None:
    data = answer.encoded()
    rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in descriptors)
    ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)] if rights else []
    try:
        sent = line.sendmsg([data], ancillary)
        line.sendall(data[sent:])
    except OSError:
        pass  # it was killed meanwhile, and srun tells of that


def _opened_of(body: Callable[[], object], names: list[str]) -> list[int]:
    """Open files of /proc/<pid> of a child that has run `body`; open, they outlive it."""
    ready_read, ready_write = os.pipe()
    gone_read, gone_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(gone_write)
            body()
            os.write(ready_write, b"+")
            os.read(gone_read, 1)
        except BaseException as error:
            os.write(ready_write, f"!{error}".encode(errors="replace"))
        finally:
            os._exit(0)
    os.close(ready_write)
    words = os.read(ready_read, 4096)
    try:
        if words != b"+":
            raise OSError(f"preparing the container: {words[1:].decode(errors='replace')}")
        return [_open(f"/proc/{pid}/{name}") for name in names]
    finally:
        for fd in (ready_read, gone_read, gone_write):
            os.close(fd)
        os.waitpid(pid, 0)


def _open(path: str) -> int:
    kind = os.O_PATH | os.O_DIRECTORY if path.endswith("/root") else os.O_RDONLY
    return os.open(path, kind | os.O_CLOEXEC)


def map_ids(uid: int, gid: int) -> None:
    """Take an id other than the sandbox's root, in a user namespace of its own."""
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} 0 1"), ("gid_map", f"{gid} 0 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _hold(machine: str) -> stub.Program:
    made = stub.Program(machine)
    made.call("unlinkat", AT_FDCWD, made.string(HOLD), 0)
    made.call("ppoll", 0, 0, 0, 0)
    made.call("exit", 0)
    return made


def _report(status: int, launcher: int) -> bytes:
    """Read what the stub in the container says; its pipe ends as it becomes the program."""
    import select
    import time

    report, until = b"", time.monotonic() + START_TIME
    poll = select.poll()
    poll.register(status, select.POLLIN)
    while time.monotonic() < until:
        poll.poll(50)
        try:
            data = os.read(status, 4096)
        except BlockingIOError:
            continue
        report += data
        if not data and (report or _has_ended(launcher)):
            break
    os.close(status)
    return report


def _has_ended(child: int) -> bool:
    """Ask the kernel: /proc calls a program dead whose other thread becomes another."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _outermost(folders: Iterable[str]) -> list[str]:
    """Return the folders that are there, without those below others."""
    clean = sorted({os.path.normpath(folder) for folder in folders if os.path.isdir(folder)})
    return [one for one in clean if not any(one.startswith(other + "/") for other in clean)]


def tasks_on(text: str, node: int) -> int:
    """Return how many tasks a node has, from Slurm's `8(x2),4`; 0 where that does not say."""
    for part in text.split(","):
        count, _, times = part.partition("(x")
        nodes = int(times.rstrip(")") or 1)
        if node < nodes:
            return int(count)
        node -= nodes
    return 0
