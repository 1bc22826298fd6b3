"""Enters the container of its node and becomes a rank's command; started by srun for each rank.

Run as the agent is, with the words `rank <meeting point> <pod folder> [<rank> <command>]`, a
thousand at a time, so that it imports next to nothing and reads no file. The first one on a node
without a container has it made (node_main.py). It keeps what srun gave it: descriptors, limits,
place. With a rank's number the command is one beside that rank; with `run`, the rank's own, as a
container that called srun wants it (srun_shim.py).
"""

from __future__ import annotations

import _socket
import os
import sys
import time

from ..exec.execve import Failure, execute, go_to
from ..linux import syscalls
from .wire import BESIDE, FAILED, LISTENER, NO_RANK, TERMINAL, Answer, Hello

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PATIENCE = 120.0  # seconds for a node to make its container; a slow file system may need many
BRIEFLY = 1.0  # seconds for a container server that many ask, of those who can do without
PAUSE = 0.003
CODE = 127
TERMINAL_ENV = "ORLOP_TERMINAL"  # set for those whose first rank has a terminal
RUN = "run"
MARK = "."  # before each word of such a command: a lone colon would be srun's
SAID = "ORLOP_SAID_"  # before the names of variables that only the container is to see
CWD = "ORLOP_CWD"  # where its caller was, in the container
MAX_DESCRIPTORS = 8
# What Slurm and its PMI tell a task, and what a container is therefore told.
TOLD = ("SLURM", "PMI", "OMPI_", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
        "GPU_DEVICE_ORDINAL")  # fmt: skip
# But not this, where there is a PMI to be asked on a descriptor: Intel MPI takes it for its layout,
# and reads tasks that are not the same number on every node, in their order, as if they were.
UNTOLD, ASKED = "SLURM_TASKS_PER_NODE", "PMI_FD"
# By which a container would be its user to Slurm.
SECRETS = ("SLURM_JWT", "SLURM_SACK_KEY")


def main(argv: list[str]) -> int:
    """Become the rank; return where that cannot be."""
    folder, *command = argv[3:]
    meeting, is_rank = place_of(argv[2]), not command or command[0] == RUN
    has_terminal = is_rank and os.environ.get("SLURM_PROCID") == "0" and TERMINAL_ENV in os.environ
    if has_terminal:
        from .terminal import stand_before

        stand_before()  # what comes is done by a child, which may begin a session
    line = None
    try:
        if is_rank and os.environ.get("SLURM_LOCALID") == "0" and not os.path.exists(meeting):
            _have_it_made(meeting, folder)
        line = _connect(meeting)
        hello = _hello() if is_rank else Hello(int(command[0]), kind=BESIDE)
        line.sendall(hello.encoded())
        answer, descriptors = _answer(line)
        install = _installer() if answer.asks else None  # now: files are the container's later
        if has_terminal:
            _take_terminal(meeting)
        _enter(answer, descriptors)
        env = {**answer.env, **(_told(os.environ) if is_rank and answer.is_told else {})}
        if not _is_at(os.environ.get(CWD, "")):
            go_to(answer.cwd)
        if install is not None:
            _hand_over(line, install, answer.asks)
        if answer.seccomp:
            syscalls.confine(answer.seccomp)
        own = [word[len(MARK) :] for word in command[1:]] if is_rank else command[1:]
        execute(own or answer.argv, env)
    except (Failure, OSError) as error:
        words = str(error)
        os.write(2, f"orlop agent: {words}\n".encode(errors="replace"))
        try:
            if line is not None and is_rank:
                line.sendall(FAILED + words.encode(errors="replace"))
        except OSError:
            pass  # who would hear it is gone
    return CODE


def place_of(meeting: str) -> str:
    """Return where those of this node meet; several nodes may be one machine."""
    return f"{meeting}-{os.environ.get('SLURMD_NODENAME') or os.uname().nodename}"


def _hello() -> Hello:
    environ = os.environ
    folders = {environ[name] for name in environ if _is_folder_of_pmix(name)}
    return Hello(
        int(environ.get("SLURM_PROCID") or 0),
        os.getpid(),
        f"{environ.get('SLURM_JOB_ID')}.{environ.get('SLURM_STEP_ID')}",
        environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE") or "",
        int(environ.get("SLURM_NODEID") or 0),
        tuple(sorted(folders)),
    )


def _is_folder_of_pmix(name: str) -> bool:
    """Return whether a variable names a folder of PMIx's server; the system's would be /tmp."""
    return name == "PMIX_SERVER_TMPDIR" or (name.startswith("PMIX_DSTORE") and "PATH" in name)


def _told(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a caller of srun said, overridden by what Slurm tells."""
    said = {name[len(SAID) :]: environ[name] for name in environ if name.startswith(SAID)}
    untold = (*SECRETS, UNTOLD) if ASKED in environ else SECRETS
    told = [name for name in environ if name.startswith(TOLD) and name not in untold]
    return {**said, **{name: environ[name] for name in told}}


def _is_at(folder: str) -> bool:
    """Go where a caller of srun was; return False where just its own node has that folder."""
    try:
        os.chdir(folder)
    except OSError:
        return False
    return True


def _have_it_made(meeting: str, folder: str) -> None:
    """Leave a process behind that makes the container; not a child of the rank to be."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    code = 1
    try:
        if os.fork() == 0:
            from .node_main import build

            build(meeting, folder)
        code = 0
    finally:
        os._exit(code)


def _connect(meeting: str, patience: float = PATIENCE) -> _socket.socket:
    """Connect to the container server of this node; its folder must be our own, and its process.

    Its name is on command lines, and it is in a folder of everybody's.
    """
    until = time.monotonic() + patience
    while True:
        try:
            if os.lstat(meeting).st_uid != os.getuid():
                raise Failure(f"{meeting} belongs to somebody else")
            line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            line.connect(os.path.join(meeting, "door"))
            if _peer(line) != os.getuid():  # what was looked at may be another by now
                raise Failure(f"{meeting} belongs to somebody else")
            return line
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            if time.monotonic() > until:
                raise Failure("no container was made on this node") from None
            time.sleep(PAUSE)


def _peer(line: _socket.socket) -> int:
    """Return the number of the process that listens at the other end."""
    raw = line.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[4:8], sys.byteorder)


def _take_terminal(meeting: str) -> None:
    """Take the leader's terminal; it is on this node unless the user arranged otherwise."""
    from .terminal import take

    line = _connect(meeting)
    line.sendall(Hello(0, kind=TERMINAL).encoded())
    _, descriptors = _answer(line)
    line.close()
    for fd in descriptors:
        take(fd)


def _answer(line: _socket.socket) -> tuple[Answer, list[int]]:
    """Return what to become, and the namespaces to do it in."""
    size = _socket.CMSG_SPACE(4 * MAX_DESCRIPTORS)
    data, ancillary, _, _ = line.recvmsg(65536, size)
    descriptors = [
        int.from_bytes(raw[at : at + 4], sys.byteorder)
        for _, _, raw in ancillary
        for at in range(0, len(raw) - 3, 4)
    ]
    for fd in descriptors:
        os.set_inheritable(fd, False)
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
        more = line.recv(1 << 20)
        if not more:
            raise Failure("the container of this node is gone")
        data += more
    answer = Answer.decoded(data[4:])
    if answer.error:
        raise Failure(answer.error)
    return answer, descriptors


def asking(body: Callable[[], object], meeting: str) -> Callable[[], object]:
    """Return the body of a command of the agent's that reaches what the ranks of this node do."""

    def asked() -> object:
        try:
            line = _connect(place_of(meeting), BRIEFLY)
            line.sendall(Hello(NO_RANK, kind=BESIDE).encoded())
            answer, descriptors = _answer(line)
            for fd in descriptors:
                os.close(fd)
            syscalls.no_new_privileges()
            _hand_over(line, _installer(), answer.asks)
            line.close()
        except (Failure, OSError):
            pass  # no rank is there yet, or any more; it runs without
        return body()

    return asked


def _installer() -> Callable[[bytes], int]:
    from ..netd.seccomp.notify import install

    return install


def _hand_over(line: _socket.socket, install: Callable[[bytes], int], asks: bytes) -> None:
    """Have calls that may mean the cluster asked about; without that it runs all the same."""
    try:
        listener = install(asks)
    except OSError as error:
        os.write(2, f"orlop agent: no names of the cluster: {error}\n".encode(errors="replace"))
        return
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))
    line.sendmsg([LISTENER + str(os.getpid()).encode()], [rights])
    os.close(listener)


def _enter(answer: Answer, descriptors: list[int]) -> None:
    """Enter the sandbox first: its user namespace gives rights over the other namespaces."""
    if descriptors:
        root, *others = descriptors
        users = others.pop() if answer.has_user else -1
        for fd in others:
            syscalls.setns(fd)
        os.fchdir(root)
        os.chroot(".")
        for number in answer.dropped:
            if not syscalls.drop_from_bounding_set(number):
                break
        if users >= 0:
            syscalls.setns(users)
        elif answer.user:
            uid, gid, groups = answer.user
            if groups:
                os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
    if descriptors or answer.seccomp or answer.asks:
        syscalls.no_new_privileges()
    os.umask(0o022)
