"""Keeps one run of one container, from its launch to the last byte of its output.

The supervisor makes one for each start and tells it what poll() and waitpid() say; the run keeps
the log and knows whether the container was refused, runs, or is over. What comes next is decided by
`pod_lifecycle`.
"""

from __future__ import annotations

import os
import select

from ..linux.fast_imports import signal
from ..linux.process import exit_of, first_child, spawn
from .container_setup import Prepared
from .logs import tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from ..ranks.log import Failure

READ_SIZE = 65536
TERMINAL = "stdout-terminal"  # of the first of many ranks, whose own output is another stream
DRAIN_TIME = 2.0  # for what may hold pipes open after the container's end: escaped processes


class Run:
    def __init__(self, prepared: Prepared, log_path: str, poll: select.poll) -> None:
        self.box, self.launch = prepared.box, prepared.launch
        self.cgroup, self._runtime = prepared.cgroup, prepared.runtime
        self.cores, self.processes = prepared.cores, prepared.processes
        self.log = prepared.open_log(log_path)
        self._poll = poll
        self._streams: dict[int, str] = {}
        self._early: list[tuple[str, bytes]] = []  # read before we knew who spoke
        self._status_fd = -1
        self._report = b""
        self._exit: int | None = None
        self._drain_until = 0.0
        self.pid = 0  # the container's first process; 0 until it runs
        self.refusal: str | None = None  # why it does not run
        self.is_told = False  # the pod lifecycle knows that it runs
        self.is_told_to_end = False
        self.was_over_memory = False  # and killed for that, where no cgroup does it
        self.stdin = -1
        self._console: socket.socket | None = None
        self._taps: list[tuple[str, int]] = []  # of those who are attached: stream, descriptor
        self.launcher = self._start()
        self.session = self.launcher  # the launcher begins one; what it starts stays in it

    @property
    def name(self) -> str:
        return self.box.container.name

    @property
    def has_ended(self) -> bool:
        return self._exit is not None

    @property
    def is_over(self) -> bool:
        """Return whether it has ended, and all it said is in its log."""
        return self._exit is not None and not self._streams

    @property
    def drain_until(self) -> float | None:
        """Return when to stop waiting for the last output, if we are waiting."""
        return self._drain_until if self._exit is not None and self._streams else None

    def _start(self) -> int:
        """Fork the launcher with the container's standard streams."""
        kept: dict[int, str] = {}
        if self.launch.console:
            self._listen()
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            given = (null, null, null)
        elif self.box.container.tty:
            ours, theirs = os.openpty()
            given, kept = (theirs, theirs, theirs), {ours: "stdout"}
            self.stdin = os.dup(ours)
            if self.launch.leads:  # it is the first rank's, and the others have none
                given, kept = self._make_outputs(theirs)
                kept[ours] = TERMINAL
        else:
            given, kept = self._make_outputs(self._make_stdin())
        for fd, stream in kept.items():
            self._add_stream(fd, stream)
        if self.launch.status:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            self._status_fd = os.open(self.launch.status, flags)
            self._watch(self._status_fd)
        try:
            return spawn(self.launch.body, given, self.cgroup.procs, self.processes)
        finally:
            for fd in set(given):
                os.close(fd)

    def _make_outputs(self, stdin: int) -> tuple[tuple[int, int, int], dict[int, str]]:
        """Make the streams of the launcher; return them and our ends of its outputs."""
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        return (stdin, out_write, err_write), {out_read: "stdout", err_read: "stderr"}

    def _add_stream(self, fd: int, stream: str) -> None:
        self._watch(fd)
        self._streams[fd] = stream

    def _listen(self) -> None:
        import socket  # not before a container wants a terminal

        self._console = socket.socket(socket.AF_UNIX)
        self._console.bind(self.launch.console)
        self._console.listen(1)

    def _take_console(self) -> None:
        """Accept the terminal that the launcher has left for us before it ended."""
        if self._console is None:
            return
        import socket

        with self._console:
            self._console.settimeout(1.0)
            with self._console.accept()[0] as connection:
                fds = socket.recv_fds(connection, 1024, 1)[1]
        self._console = None
        for fd in fds:
            os.set_inheritable(fd, False)
            self.stdin = os.dup(fd)
            self._add_stream(fd, "stdout")

    def _make_stdin(self) -> int:
        """Make the container's end of its standard input, which is empty unless it asks for one."""
        if not self.box.container.stdin:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        read_end, self.stdin = os.pipe()
        return read_end

    def close_stdin(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def _watch(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._poll.register(fd, select.POLLIN)

    def _unwatch(self, fd: int) -> None:
        self._poll.unregister(fd)
        os.close(fd)

    def signal(self, number: int) -> None:
        """Send a signal to its first process, or to the launcher that stays in its place."""
        ends = (signal.SIGTERM, signal.SIGKILL, self.box.container.stop_signal)
        self.is_told_to_end = self.is_told_to_end or number in ends
        pid = self.launcher if self.launch.leads else self.pid or self.launcher
        if pid:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    @property
    def failure(self) -> Failure | None:
        """Return the worst failure among its ranks, where it has any."""
        return getattr(self.log, "worst", None)

    # What poll() says

    def owns(self, fd: int) -> bool:
        return fd in self._streams or fd == self._status_fd

    def on_readable(self, fd: int) -> None:
        if fd == self._status_fd:
            self._read_status()
            return
        data = _read(fd)
        if data == b"":
            self._end_stream(fd)
        elif data is not None:
            self._look_for_start()
            self._take(self._streams[fd], data)

    def _take(self, stream: str, data: bytes) -> None:
        if self.pid:
            self.log.feed(stream, data)
            self._show(stream, data)
        else:
            self._early.append((stream, data))

    def tap(self, stream: str, fd: int) -> None:
        """Write what the container prints from now on to a descriptor as well; owns it."""
        os.set_blocking(fd, False)
        if not self._taps:
            self.log.show_anew()
        self._taps.append((stream, fd))

    def _show(self, stream: str, data: bytes) -> None:
        if not self._taps:
            return
        data = self.log.shown(stream, data)
        stream = "stdout" if self.box.container.tty else stream
        for tap in [tap for tap in self._taps if tap[0] == stream]:
            try:
                is_whole = os.write(tap[1], data) == len(data)
            except OSError:  # full: who is too slow is let go, the container never waits
                is_whole = False
            if not is_whole:
                self._untap(tap)

    def _untap(self, tap: tuple[str, int]) -> None:
        self._taps.remove(tap)
        os.close(tap[1])

    def _look_for_start(self) -> None:
        """Look whether it runs: a container may be quicker than the news that it does."""
        if self.pid:
            return
        if not self.launch.status:
            number = _number_in(self.launch.pid_file)
            if number:
                self._runs_as(number)
        elif self._status_fd >= 0:
            self._read_status()

    def _read_status(self) -> None:
        """Read the stub's pipe: a byte when it begins, then an error, or EOF as it becomes."""
        while data := _read(self._status_fd):
            self._report += data
        if data is None or not self._report:
            return
        self._close_status()
        if len(self._report) == 1:
            # If it is gone already, its launcher will tell how it ended.
            is_known = self.launch.leads
            self._runs_as(
                _number_in(self.launch.pid_file)
                if is_known
                else first_child(self.launcher) or self.launcher
            )

    def _close_status(self) -> None:
        if self._status_fd >= 0:
            self._unwatch(self._status_fd)
            self._status_fd = -1

    def _end_stream(self, fd: int) -> None:
        self._unwatch(fd)
        self.log.end(self._streams.pop(fd))

    def _runs_as(self, pid: int) -> None:
        self.pid = pid
        early, self._early = self._early, []
        for stream, data in early:
            self.log.feed(stream, data)

    # What waitpid() says

    def on_launcher_exit(self, status: int, now: float) -> None:
        self.launcher = 0
        if self.launch.status:  # its end is the container's, if that ever ran
            if self._status_fd >= 0:
                self._read_status()
            self._close_status()
            if self.pid:
                self.on_exit(status, now)
                return
        elif status == 0:
            self._take_console()
            self._look_for_start()
            if self.pid:
                return
        self._refuse()

    def on_exit(self, status: int, now: float) -> None:
        """Note that the first process, and so the container, has ended; more output may come."""
        self._exit = status
        self._drain_until = now + DRAIN_TIME

    def stop_draining(self) -> None:
        for fd in list(self._streams):
            self._end_stream(fd)

    def _refuse(self) -> None:
        for fd, stream in list(self._streams.items()):
            while data := _read(fd):
                self._early.append((stream, data))
            self._end_stream(fd)
        printed = b"".join(data for _, data in self._early).decode(errors="replace")
        self.refusal = self._runtime.words(self.box, self.launch, printed, self._report)

    # The end

    def exit(self) -> tuple[int, int, bool]:
        """Return exit code, signal, and whether it was killed for its memory."""
        assert self._exit is not None, "asked for the exit of a running container"
        code, number = exit_of(self._exit)
        if self.failure is not None and self.failure.code:
            code, number = self.failure.code, self.failure.signal
        is_oom = self.was_over_memory or self.cgroup.has_oom_kill(number)
        is_oom = is_oom or (self.failure is not None and self.failure.is_oom)
        return code, number, code != 0 and is_oom

    def message(self, code: int) -> str:
        """Return its termination message, by its policy."""
        with open(os.path.join(self.box.folder, "termination-log"), "rb") as file:
            text = file.read(4096).decode(errors="replace")
        if not text and code and self.failure is not None:
            return str(getattr(self.log, "words", ""))
        if text or code == 0 or self.box.container.message_policy != "FallbackToLogsOnError":
            return text
        return tail(self.log.path)

    def close(self) -> None:
        self.stop_draining()
        for tap in list(self._taps):
            self._untap(tap)
        self._close_status()
        if self._console is not None:
            self._console.close()
        self.close_stdin()
        self.log.close()
        self._runtime.remove(self.box)
        self.cgroup.remove()


def _read(fd: int) -> bytes | None:
    """Return what is there: empty at the end, None when there is nothing yet."""
    try:
        return os.read(fd, READ_SIZE)
    except BlockingIOError:
        return None
    except OSError:  # EIO: the last process has closed its terminal
        return b""


def _number_in(path: str) -> int:
    """Return the number in a file; 0 until it is written, as a container may print before that."""
    try:
        with open(path) as file:
            return int(file.read() or 0)
    except FileNotFoundError:
        return 0
