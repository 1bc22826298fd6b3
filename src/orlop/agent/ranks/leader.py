"""Leads a rank set from the pod's first node: starts srun, serves the container, passes signals on.

A runtime to `container_setup`, like those that start one container: its launch is a process which
stays as long as the ranks do and whose exit is theirs. srun runs outside of the pod's network and
under the node's own name. Which rank failed is read from srun's words by log.py.
"""

from __future__ import annotations

import os
import select
import time

from ...wellknown import RANKS_ENV, WARNING_ENV
from ..container.runtimes import Box, Launch, find
from ..linux import syscalls
from ..linux.fast_imports import signal
from ..linux.process import exit_of, reaped, run_quickly
from ..linux.reexec import again
from .container_server import YIELD, ContainerServer, end_holder, leave, map_ids, tasks_on
from .starter import RUN, SECRETS, TERMINAL_ENV, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..container.runtimes import Runtime
    from ..plan import Plan
    from .srun_calls import Calls
    from .srun_shim import Call

MEETING = "/tmp/orlop-{uid}-ranks-{token}"  # and the node's name: some /tmp are of several
BEGUN = b"S"
LEFT = 2.0  # seconds for what a container has left behind, once its own process has ended
LOOK = 200  # milliseconds between two looks at that
GPU_BIND = "SLURM_GPU_BIND"
TRES_BIND = "SLURM_TRES_BIND"  # where newer Slurms (24.11) put it, as gres/gpu:none
BINDS_EACH = (21, 8)  # the first Slurm that knows --gpu-bind=per_task


class RankSet:
    """The runtime of the container that runs once for every task."""

    def __init__(self, inner: Runtime, plan: Plan) -> None:
        assert plan.ranks is not None, "a plan without ranks"
        self.name = inner.name
        self._inner, self._ranks, self._plan = inner, plan.ranks, plan

    def version(self) -> str:
        return self._inner.version()

    def compose(self, box: Box) -> Launch:
        status = os.path.join(box.folder, "ranks")
        os.mkfifo(status)
        token = os.urandom(8).hex()
        meeting = MEETING.format(uid=box.sandbox.uid, token=token)
        leader = Leader(box, self._inner, self._ranks, meeting, status)
        return Launch(
            leader.lead,
            pid_file=os.path.join(box.folder, "rank"),
            error_file=os.path.join(box.folder, "ranks.error"),
            status=status,
            leads=True,
            meeting=meeting,
        )

    def words(self, box: Box, launch: Launch, output: str, report: bytes) -> str:
        try:
            with open(launch.error_file, errors="replace") as file:
                return file.read()
        except OSError:
            return output.strip() or "the ranks were not started, and nothing says why"

    def remove(self, box: Box) -> None:
        end_holder(box)
        self._inner.remove(box)


class Leader:
    """The process between the agent and srun."""

    def __init__(
        self, box: Box, runtime: Runtime, ranks: dict[str, Any], meeting: str, status: str
    ) -> None:
        self._box, self._runtime, self._ranks = box, runtime, ranks
        self._meeting, self._status = meeting, status
        self._srun = 0
        self._code: int | None = None
        self._asked: list[int] = []  # signals that are still to be passed on
        self._ends = {signal.SIGTERM, signal.SIGINT, box.container.stop_signal}
        self._calls = self._take_calls() if ranks.get("launches") else None
        self._main = -1  # the process of one that launches ranks itself, while it runs
        self._left_at = 0.0  # when that had ended

    def lead(self) -> None:
        """Run until srun ends; exit as it does."""
        wake_read = self._listen_to_signals()
        command, meeting = self._command(), place_of(self._meeting)
        terminal = 0 if self._box.container.tty else -1
        _close_copies_of(0)
        what = (self._box, self._runtime, self._ranks)
        self._door = door = ContainerServer(meeting, *what, terminal, self._own_env())
        self._srun = self._start(command)
        try:
            while self._code is None:
                self._turn(wake_read, door, LOOK if self._left_at else door.timeout())
            while door.lines() and _ready(door.lines(), 0):  # said before srun ended
                self._turn(wake_read, door, 0)
        finally:
            if self._calls is not None:
                self._calls.end(self._reap)
            door.close()
            leave(meeting)
        self._begin(door)
        if self._status:
            self._leave_words(door.error)
        os._exit(self._code)

    def _listen_to_signals(self) -> int:
        """Listen before anything else: a warning nobody listens to would end this process."""
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a rank may be killed as it is spoken to
        warning = int(os.environ.get(WARNING_ENV) or 0)  # ahead of the time limit; 0: none
        for number in {*self._ends, *([warning] if warning else [])}:
            signal.signal(number, lambda got, _: self._asked.append(got))
        return wake_read

    def _turn(self, wake: int, door: ContainerServer, timeout: int | None = None) -> None:
        calls = self._calls.fds() if self._calls is not None else []
        mains = [self._main] if self._main >= 0 else []
        for fd in _ready([wake, *door.watched(), *calls, *mains], timeout):
            if fd == wake:
                os.read(wake, 4096)
            elif self._calls is not None and fd in calls:
                self._calls.on_ready(fd, door.holds)
            elif fd in mains:
                self._on_main_end()
            else:
                door.on_ready(fd)
        door.tick()
        if self._status and (door.runs(0) or (door.is_full and not door.lines())):
            self._begin(door)
        self._reap()
        while self._asked and door.step:
            self._pass_on(self._asked.pop(0))
        if not self._ends.isdisjoint(self._asked):  # nobody is there to hear it; a warning waits
            self._asked.clear()
            os.kill(self._srun, signal.SIGKILL)
        if self._left_at and time.monotonic() > self._left_at + LEFT:
            self._left_at = time.monotonic()
            self._pass_on(signal.SIGKILL)

    def _begin(self, door: ContainerServer) -> None:
        """Tell the agent that the container runs, by the number of its first rank."""
        if not self._status or not door.pids or door.error:
            return
        path = os.path.join(self._box.folder, "rank")
        with open(path + ".new", "w") as file:
            file.write(str(door.pids[min(door.pids)]))
        os.rename(path + ".new", path)
        with open(self._status, "wb") as status:
            status.write(BEGUN)
        self._status = ""
        if self._calls is not None:
            self._watch_main(door.pids[0])

    def _leave_words(self, error: str) -> None:
        """Say why a rank could not start; what srun could not do it has said itself."""
        if not error and self._code in (0, 128 + signal.SIGKILL):
            error = f"srun ended with code {self._code} before a rank ran"
        self._code = self._code or 1
        if error:
            with open(os.path.join(self._box.folder, "ranks.error"), "w") as file:
                file.write(error)

    def _reap(self) -> None:
        for pid, status in reaped():
            if pid == self._srun:
                self._code = exit_of(status)[0]
            elif self._calls is not None:
                self._calls.on_end(pid, exit_of(status)[0])

    # For one that launches ranks itself

    def _take_calls(self) -> Calls:
        from .srun_calls import Calls  # most do not

        def starter(number: int) -> list[str]:
            return rank(f"{self._meeting}-{number}", self._ranks, is_own_command=True)

        return Calls(self._box, self._start, starter)

    def _watch_main(self, pid: int) -> None:
        try:
            self._main = os.pidfd_open(pid)
        except ProcessLookupError:
            self._on_main_end()
        except (AttributeError, OSError):
            pass  # an old kernel, on which it cannot call srun either

    def _on_main_end(self) -> None:
        """End all that it has started; srun by itself would wait for their last word."""
        assert self._calls is not None, "only what launches others is watched"
        if self._main >= 0:
            os.close(self._main)
        self._main, self._left_at = -1, time.monotonic()
        self._calls.stop()

    def _own_env(self) -> dict[str, str] | None:
        """Return what it would know of Slurm in the batch script."""
        if self._calls is None:
            return None
        self._calls.open()
        environ = os.environ
        names = [name for name in environ if name.startswith("SLURM") and name not in SECRETS]
        own = {name: environ[name] for name in names}
        tasks = tasks_on(environ.get("SLURM_TASKS_PER_NODE") or "1", 0)
        is_crowded = tasks > len(os.sched_getaffinity(0)) and YIELD not in dict(self._box.env)
        return {**own, **({YIELD: "1"} if is_crowded else {})}

    # Slurm's commands, as oneself

    def _command(self) -> list[str]:
        srun = find(["srun"])
        if not srun:
            raise OSError("ranks are started by srun, which is not in the PATH of this node's jobs")
        ranks, environ, container = self._ranks, os.environ, self._box.container
        if self._calls is not None:
            return [srun, *self._once(), *self._starter()]
        argv = [srun, "--label", "--kill-on-bad-exit=1", "--wait=0", "--export=ALL"]
        argv += [f"--job-name={self._box.container.name}"]
        argv += ["--input=0" if container.stdin and not container.tty else "--input=none"]
        if ranks.get("mpi"):
            argv.append(f"--mpi={ranks['mpi']}")
        if environ.get(RANKS_ENV):
            from .task_layout import of_ranks

            argv += of_ranks(environ, self._box.folder)
        elif environ.get("SLURM_CPUS_PER_TASK"):  # not inherited since Slurm 22.05
            argv.append(f"--cpus-per-task={environ['SLURM_CPUS_PER_TASK']}")
        argv += gpu_binding(ranks, environ, lambda: run_quickly([srun, "--version"])[1])
        if is_shared(environ):
            del environ[GPU_BIND]
        argv += ranks.get("flags") or []
        return argv + self._starter()

    def _starter(self) -> list[str]:
        if self._box.container.tty:
            os.environ[TERMINAL_ENV] = "1"
            return starter(self._meeting, self._ranks["folder"])
        return rank(self._meeting, self._ranks)

    def _once(self) -> list[str]:
        """Return options for the one task that launches others: here, all CPUs, in nobody's way."""
        node = os.environ.get("SLURMD_NODENAME") or self._ranks["hostname"]
        container = self._box.container
        argv = [f"--job-name={container.name}", f"--nodelist={node}", "--nodes=1"]
        argv += ["--ntasks=1", "--overlap", "--mem=0", "--mpi=none", "--quiet"]
        argv.append(f"--cpus-per-task={os.environ.get('SLURM_CPUS_ON_NODE') or 1}")
        argv += ["--input=0" if container.stdin and not container.tty else "--input=none"]
        return [*argv, "--export=ALL"]

    def _pass_on(self, number: int) -> None:
        scancel = find(["scancel"])
        try:
            if scancel:
                self._start([scancel, "--quiet", f"--signal={number}", self._door.step])
        except OSError as error:  # no room for another process; the ranks need not end for that
            words = f"orlop agent: signal {number} did not reach the ranks: {error}\n"
            os.write(2, words.encode(errors="replace"))

    def _start(
        self,
        argv: list[str],
        env: Mapping[str, str] = os.environ,
        call: Call | None = None,
        refusal: str = "",
    ) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            if call is not None:
                call.take_streams()
            if refusal:  # said by a process of its own, as it may have to wait for a reader
                syscalls.die_with_parent(signal.SIGKILL)
                os.write(2, refusal.encode(errors="replace"))
                os._exit(1)
            be_oneself(self._box, self._ranks["hostname"])
            syscalls.die_with_parent(signal.SIGKILL)
            os.execve(argv[0], argv, env)
        except BaseException as error:
            os.write(2, f"{argv[0]}: {error}\n".encode(errors="replace"))
        finally:
            os._exit(127)
        return 0


def gpu_binding(
    ranks: Mapping[str, Any], environ: Mapping[str, str], version: Callable[[], str]
) -> list[str]:
    """Return srun's option that gives each rank GPUs of its own; none where they are shared.

    With a type in --gpus-per-task srun 22.05 binds no task to any, and tells none of any. Before
    21.08 there is no such option; `version` is what srun says of itself, as `slurm 23.11.4`.
    """
    kind, _, number = environ.get("SLURM_GPUS_PER_TASK", "").rpartition(":")
    gpus = int(number) if kind and number.isdigit() else ranks.get("gpus") or 0
    is_said = GPU_BIND in environ or "gres/gpu:" in environ.get(TRES_BIND, "")
    if not gpus or is_said or is_older(version(), BINDS_EACH):
        return []
    return [f"--gpu-bind=per_task:{gpus}"]


def is_older(said: str, than: tuple[int, int]) -> bool:
    """Return whether a version is older; one that does not say what it is, is not."""
    numbers = said.strip().rpartition(" ")[2].split(".")[:2]
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) < than


def is_shared(environ: Mapping[str, str]) -> bool:
    """Return whether all ranks of a node have all its GPUs.

    srun does that by itself; where it is told to, srun 22.05 tells the ranks of no GPU.
    """
    return environ.get(GPU_BIND) == "none" and "SLURM_GPUS_PER_TASK" not in environ


def be_oneself(box: Box, hostname: str) -> None:
    """Take the user's ids and the node's name, as on the node: Slurm's commands ask for both."""
    sandbox = box.sandbox
    if sandbox.is_isolated:
        syscalls.unshare(syscalls.CLONE_NEWUTS)
        syscalls.sethostname(hostname)
        map_ids(sandbox.uid, sandbox.gid)


def rank(meeting: str, ranks: dict[str, Any], is_own_command: bool = False) -> list[str]:
    """Return what srun starts for each rank: compiled, if that was done and fits, or the agent.

    After it may come a command other than the container's, which is to be said to the agent.
    """
    quick = ranks.get("starter") or ""
    if not quick.endswith("-" + os.uname().machine) or not os.access(quick, os.X_OK):
        return starter(meeting, ranks["folder"], *([RUN] if is_own_command else []))
    make = again("ranks", meeting, ranks["folder"])
    return [quick, meeting, str(len(make)), *make]


def starter(meeting: str, folder: str, *command: str) -> list[str]:
    """Return the command of the agent itself, as a starter."""
    return again("rank", meeting, folder, *command)


def _close_copies_of(fd: int) -> None:
    """Close copies of the agent's end of a pipe that is ours: while we hold it, it does not end."""
    what = os.readlink(f"/proc/self/fd/{fd}")
    if not what.startswith("pipe:"):
        return
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) != fd and os.readlink(f"/proc/self/fd/{name}") == what:
                os.close(int(name))
        except FileNotFoundError:
            pass  # that of the listing itself


def _ready(fds: list[int], timeout: int | None) -> list[int]:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(timeout)]
