"""Serves what the kubelet opens over the agent's connection: commands, attachments, ports.

Used by the thread of the kubelet connection. Each session has a number, which is its stream of
input and output; the next number is its standard error. Processes are the supervisor's: they are
asked for there and spoken of here. With the connection go all sessions, and with them their
commands.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import time

from ..plan import added_container
from .processes import Exec, Execs
from .streams import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..connection.upgraded_connection import Link
    from ..pod.supervisor import Supervisor
    from .group_exec import Errand, Group

    class Session(Protocol):
        number: int

        def streams(self) -> list[Stream]: ...

        def register(self, poll: select.poll) -> None:
            """Ask for what the streams do not ask for."""
            ...

        def turn(self) -> bool:
            """Do what is due; return False when the session is over and all is said."""
            ...

        def deadline(self) -> float | None: ...

        def resize(self, width: int, height: int) -> None:
            """Resize its terminal; do nothing where there is none."""
            ...

        def close(self, is_lost: bool = False) -> None:
            """End, as the other side has gone.

            `is_lost`: the connection has gone, or the other side wants the rest to go on.
            """
            ...
else:
    from _collections import deque  # without the rest of `collections`, which is slow to import


DRAIN_TIME = 0.3  # for output of those who outlive the command and hold its pipes
PIPE_SIZE = 1 << 20  # of what an attached client may be behind
F_SETPIPE_SZ = 1031


class Sessions:
    def __init__(self, supervisor: Supervisor, execs: Execs, group: Group | None = None) -> None:
        self._supervisor, self._execs, self._group = supervisor, execs, group
        self._errands: dict[int, Errand] = {}  # those of the sessions that we asked for
        self._sessions: dict[int, Session] = {}
        self._streams: dict[int, Stream] = {}
        self._asked: dict[int, Stream] = {}
        self._news: deque[Callable[[], None]] = deque()
        self._turns = 0
        self.wake: Callable[[], None] = lambda: None

    def __bool__(self) -> bool:
        return bool(self._sessions)

    # Messages

    def on_message(self, link: Link, message: dict[str, Any]) -> None:
        kind, number = message.get("type"), int(message.get("stream") or 0)
        if kind in ("exec", "attach", "forward"):
            self._open(link, kind, number, message)
        elif kind == "add":
            added = added_container(message["container"], self._supervisor.kubelet)
            self._supervisor.call(lambda: self._supervisor.add(added))
        elif kind == "resize" and number in self._sessions:
            self._sessions[number].resize(int(message["width"]), int(message["height"]))
        elif kind == "close" and number in self._sessions:
            self._drop(number, is_lost=bool(message.get("keep")))
        elif kind in ("opened", "closed") and number in self._errands:
            self._errands[number].on_answer(message)
        elif number in self._streams:
            if kind == "credit":
                self._streams[number].allow(int(message["bytes"]))
            elif kind == "eof":
                self._streams[number].end()

    def _open(self, link: Link, kind: str, number: int, message: dict[str, Any]) -> None:
        if kind == "forward":
            from .port_forward import Forward  # sockets are slow to import

            self._sessions[number] = Forward(link, number, int(message["port"]))
        elif kind == "exec":
            self._sessions[number] = Command(self, link, number, message)
        else:
            self._sessions[number] = Attachment(self, link, number, message)

    def on_data(self, number: int, data: bytes) -> None:
        if number in self._streams:
            self._streams[number].take(data)

    # The loop

    def register(self, poll: select.poll, has_room: bool) -> None:
        self._asked = {}
        for stream in self._streams.values():
            for fd in stream.register(poll, has_room):
                self._asked[fd] = stream
        for session in self._sessions.values():
            session.register(poll)
        if self._group is not None:
            poll.register(self._group.ring, select.POLLIN)

    def timeout(self, longest: float) -> float:
        due = [s.deadline() for s in self._sessions.values()]
        times = [when - time.monotonic() for when in due if when is not None]
        return max(0.0, min([longest, *times]))

    def on_ready(self, fds: list[int], has_room: Callable[[], bool]) -> None:
        """Serve those that are ready, each time beginning with another."""
        ready = [fd for fd in fds if fd in self._asked]
        self._turns += 1
        start = self._turns % len(ready) if ready else 0
        for fd in ready[start:] + ready[:start]:
            stream = self._asked[fd]
            if fd != stream.source or has_room():
                stream.on_ready(fd)

    def turn(self, link: Link) -> None:
        if self._group is not None:
            self._group.listen()
            for errand in self._group.begin(link):
                self._sessions[errand.number] = self._errands[errand.number] = errand
        while self._news:
            self._news.popleft()()
        for number, session in list(self._sessions.items()):
            if not session.turn():
                del self._sessions[number]
                self._errands.pop(number, None)
        self._streams = {s.number: s for x in self._sessions.values() for s in x.streams()}

    def _drop(self, number: int, is_lost: bool) -> None:
        self._sessions.pop(number).close(is_lost)
        self._errands.pop(number, None)
        self._streams = {s.number: s for x in self._sessions.values() for s in x.streams()}

    def close(self) -> None:
        """Close all sessions: the connection has broken."""
        for number in list(self._sessions):
            self._drop(number, is_lost=True)

    # Of the supervisor's thread

    def later(self, what: Callable[[], None]) -> None:
        """Queue a function for our thread; called from the supervisor's."""
        self._news.append(what)
        self.wake()

    def start(self, command: Exec) -> None:
        self._supervisor.call(lambda: self._execs.start(command))

    def hang_up(self, command: Exec) -> None:
        self._supervisor.call(lambda: self._execs.hang_up(command))

    def attach(self, name: str, taps: dict[str, int], answer: Callable[[int, str], None]) -> None:
        """Attach to a container's output; answer with its input and an error, in our thread."""

        def do() -> None:
            run = self._supervisor.run_of(name)
            if run is None or not run.pid or run.has_ended:
                for fd in taps.values():
                    os.close(fd)
                self.later(lambda: answer(-1, f'container not found ("{name}")'))
                return
            for stream, fd in taps.items():
                run.tap(stream, fd)
            stdin = os.dup(run.stdin) if run.stdin >= 0 else -1
            self.later(lambda: answer(stdin, ""))

        self._supervisor.call(do)

    def end_input(self, name: str) -> None:
        """End the container's own standard input: it wanted to be attached to once."""

        def do() -> None:
            run = self._supervisor.run_of(name)
            if run is not None and run.box.container.stdin_once:
                run.close_stdin()

        self._supervisor.call(do)


class _Streaming:
    """The common part of commands and attachments: two streams, and an end when these are over."""

    def __init__(self, sessions: Sessions, link: Link, number: int) -> None:
        self._sessions, self._link, self.number = sessions, link, number
        self._main: Stream | None = None
        self._errors: Stream | None = None
        self._error = ""
        self._is_closed = False

    def streams(self) -> list[Stream]:
        return [stream for stream in (self._main, self._errors) if stream is not None]

    def deadline(self) -> float | None:
        return None

    def register(self, poll: select.poll) -> None:
        pass

    def _begin(
        self, main: tuple[int, int], errors: int, close_input: Callable[[int], None] = os.close
    ) -> None:
        """Begin both ways of the main stream, and the source of the other."""
        self._main = Stream(self._link, self.number, *main, close_input)
        self._errors = Stream(self._link, self.number + 1, errors) if errors >= 0 else None
        self._link.tell({"type": "opened", "stream": self.number})

    def _say_closed(self, code: int = 0) -> None:
        for stream in self.streams():
            stream.close()
        self._link.tell(
            {"type": "closed", "stream": self.number, "error": self._error, "code": code}
        )


class Command(_Streaming):
    """A command in a container, from the kubelet's request to its exit code."""

    def __init__(
        self, sessions: Sessions, link: Link, number: int, message: dict[str, Any]
    ) -> None:
        super().__init__(sessions, link, number)
        self._has_input = bool(message.get("stdin"))
        self._outlives = bool(message.get("keep"))  # the connection over which it was asked for
        self._pipes: tuple[int, int, int] = (-1, -1, -1)  # our ends
        self._size = (0, 0)
        self._code: int | None = None
        self._drain_until = 0.0
        given = None if message.get("tty") else self._make_pipes()
        argv = [str(word) for word in message["argv"]]
        later = lambda command: sessions.later(lambda: self._on_news(command))  # noqa: E731
        self._exec = Exec(message["container"], argv, given, later)
        sessions.start(self._exec)

    def _make_pipes(self) -> tuple[int, int, int]:
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        if self._has_input:
            in_read, in_write = os.pipe()
        else:
            in_read, in_write = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1
        self._pipes = (in_write, out_read, err_read)
        return in_read, out_write, err_write

    def _on_news(self, command: Exec) -> None:
        """Act on news from the supervisor: it has started, could not be started, or has ended."""
        terminal, command.terminal = command.terminal, -1
        if self._is_closed:
            _closed(terminal)
        elif command.error:
            self._error = command.error
            self._code = 0
            self._close_pipes()
        elif self._main is None:
            self._start(terminal)
        if command.code is not None:
            self._code = command.code
            self._drain_until = time.monotonic() + DRAIN_TIME

    def _start(self, terminal: int) -> None:
        in_write, out_read, err_read = self._pipes
        if terminal >= 0:
            out_read, in_write = terminal, os.dup(terminal) if self._has_input else -1
            _set_size(terminal, self._size)
        self._pipes = (-1, -1, -1)
        self._begin((out_read, in_write), err_read)

    def _close_pipes(self) -> None:
        for fd in self._pipes:
            if fd >= 0:
                os.close(fd)
        self._pipes = (-1, -1, -1)

    def resize(self, width: int, height: int) -> None:
        self._size = (width, height)
        if self._main is not None and self._exec.streams is None:
            _set_size(self._main.source, self._size)

    def deadline(self) -> float | None:
        return self._drain_until if self._code is not None else None

    def turn(self) -> bool:
        if self._code is None:
            return True
        if not self._error and time.monotonic() >= self._drain_until:
            # What it printed is read; those who outlived it hold the pipes and are not heard.
            for stream in self.streams():
                if not stream.pump():
                    stream.end_source()
        if any(stream.source >= 0 for stream in self.streams()):
            self._drain_until = max(self._drain_until, time.monotonic() + 0.05)
            return True
        self._say_closed(self._code)
        return False

    def close(self, is_lost: bool = False) -> None:
        self._is_closed = True
        if not (is_lost and self._outlives):
            self._sessions.hang_up(self._exec)
        self._close_pipes()
        for stream in self.streams():
            stream.close()


class Attachment(_Streaming):
    """The input and output of a container's own command, from now on."""

    def __init__(
        self, sessions: Sessions, link: Link, number: int, message: dict[str, Any]
    ) -> None:
        super().__init__(sessions, link, number)
        self._container = str(message["container"])
        self._has_input = bool(message.get("stdin"))
        self._has_ended = False
        pipes = {"stdout": os.pipe(), "stderr": os.pipe()}
        for _, write_end in pipes.values():
            fcntl.fcntl(write_end, F_SETPIPE_SZ, PIPE_SIZE)
        self._reads = [read_end for read_end, _ in pipes.values()]
        taps = {stream: write_end for stream, (_, write_end) in pipes.items()}
        sessions.attach(self._container, taps, self._on_answer)

    def _on_answer(self, stdin: int, error: str) -> None:
        if self._is_closed or error or not self._has_input:
            stdin = _closed(stdin)
        if self._is_closed:
            return
        if error:
            self._error, self._has_ended = error, True
            self._reads = [_closed(fd) for fd in self._reads]
            return
        out, errors = self._reads
        self._reads = []
        self._begin((out, stdin), errors, self._close_input)

    def _close_input(self, fd: int) -> None:
        os.close(fd)
        self._sessions.end_input(self._container)

    def resize(self, width: int, height: int) -> None:
        if self._main is not None:
            _set_size(self._main.sink, (width, height))

    def turn(self) -> bool:
        is_over = self._main is not None and not any(s.source >= 0 for s in self.streams())
        if not (self._has_ended or is_over):
            return True
        self._say_closed()
        return False

    def close(self, is_lost: bool = False) -> None:
        self._is_closed = True
        self._reads = [_closed(fd) for fd in self._reads]
        for stream in self.streams():
            stream.close()


def _set_size(terminal: int, size: tuple[int, int]) -> None:
    width, height = size
    if terminal >= 0 and width > 0 and height > 0:
        try:
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        except (OSError, struct.error):
            pass  # no terminal, or no size


def _closed(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return -1
