"""Runs commands that this pod's containers start in other pods of their group, as others do by rsh.

A container needs no more than a shell: in a folder that is mounted into it are named pipes, in
numbered places. It takes a place by writing there what it wants, rings, and its input, output and
the exit code pass through the pipes. Used by the sessions, in the thread of the kubelet connection;
who may be reached is the kubelet's to say. The folder is the container's to change at any moment,
and we have rights that it has not: what lies there instead of a pipe or a file is neither read nor
written.
"""

from __future__ import annotations

import os
import select

from ...wellknown import GROUP_HOLD, GROUP_PLACES, GROUP_RING
from ..linux.untrusted_files import make_pipe, open_pipe, read_text
from .streams import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..connection.upgraded_connection import Link

UCX_DEVICES = "UCX_NET_DEVICES"
FIRST_NUMBER = 1 << 31  # of the streams that the agent opens; the kubelet's own are below
_LAST_NUMBER = (1 << 32) - 2
MOST_ASKED = 1 << 20  # bytes of a host's name and a command
PIPES = ("in", "out", "err", "say")
RUNS_ON = b"orlop: the line to the control plane broke; the command runs on, unseen\n"


class Group:
    """The folder: `make` before the first container runs, the rest in the connection's thread."""

    def __init__(self, folder: str) -> None:
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._last = FIRST_NUMBER - 2
        self._waiting: list[int] = []  # rung, and not asked for yet on this connection
        self._heard = b""
        for name in (GROUP_RING, GROUP_HOLD):
            make_pipe(name, self._folder)
        for place in range(GROUP_PLACES):
            for name in PIPES:
                make_pipe(f"{place}.{name}", self._folder)
        # For reading and writing: a ring is then never lost, nor does a ringer wait.
        self.ring = self.pipe(GROUP_RING, os.O_RDWR)

    def pipe(self, name: str, way: int) -> int:
        return open_pipe(name, way, self._folder)

    def listen(self) -> None:
        """Take in what was rung since; what is no number of a place is passed over."""
        try:
            self._heard += os.read(self.ring, 4096)
        except BlockingIOError:
            return
        *lines, rest = self._heard.split(b"\n")
        self._heard = rest[:16]  # no number is longer
        places = [int(line) for line in lines if line.isdigit() and len(line) < 16]
        for place in places:  # who rings twice is asked once
            if place < GROUP_PLACES and place not in self._waiting:
                self._waiting.append(place)

    def begin(self, link: Link) -> list[Errand]:
        """Ask for the commands that were rung for."""
        begun = []
        while self._waiting:
            place = self._waiting.pop(0)
            try:
                asked = read_text(f"{place}.ask", MOST_ASKED, self._folder)
                host, _, command = asked.partition("\n")
            except OSError:
                continue  # nothing was asked here
            self._last = self._last + 2 if self._last + 2 < _LAST_NUMBER else FIRST_NUMBER
            begun.append(Errand(self, link, self._last, place, (host, command.rstrip("\n"))))
        return begun

    def again(self, place: int) -> None:
        self._waiting.append(place)

    def free(self, place: int) -> None:
        """Make new pipes for whoever takes the place next: others keep the old ones they have."""
        for name in (*(f"{place}.{pipe}" for pipe in PIPES), f"{place}.ask"):
            try:
                os.unlink(name, dir_fd=self._folder)
            except OSError:
                pass  # the container has been at it; so much the worse for who wants the place
        for pipe in PIPES:
            try:
                make_pipe(f"{place}.{pipe}", self._folder)
            except OSError:
                pass


class Errand:
    """One command in another pod, from the ring to its exit code; a session."""

    def __init__(
        self, group: Group, link: Link, number: int, place: int, wish: tuple[str, str]
    ) -> None:
        self._group, self._link, self.number, self._place = group, link, number, place
        self._main: Stream | None = None
        self._errors: Stream | None = None
        self._say = -1
        self._input = -1  # that is not read any more
        self._is_over = False
        self._code: int | None = None
        host, command = wish
        link.tell({"type": "start", "stream": number, "host": host, "command": command})

    def streams(self) -> list[Stream]:
        return [stream for stream in (self._main, self._errors) if stream is not None]

    def deadline(self) -> float | None:
        return None

    def resize(self, width: int, height: int) -> None:
        pass

    def register(self, poll: select.poll) -> None:
        """Ask to be woken when nobody reads the output any more."""
        if self._main is not None and self._main.sink >= 0 and not self._main.has_waiting:
            poll.register(self._main.sink, 0)

    def on_answer(self, message: dict[str, Any]) -> None:
        """Take an answer: the command has started, or has ended, or does not run for a reason."""
        if message["type"] == "opened":
            self._open()
        elif message["type"] == "closed":
            self._code = int(message.get("code") or 0)
            error = str(message.get("error") or "")
            if error:
                self._code = 255  # as ssh has it
                self._complain(f"orlop: {error}\n".encode(errors="replace"))
            self._leave_input()
            for stream in self.streams():
                stream.end()

    def _open(self) -> None:
        """Open our ends of the pipes; who rang holds the others, unless it is gone."""
        opened: list[int] = []
        try:
            ways = {"out": os.O_WRONLY, "err": os.O_WRONLY, "say": os.O_WRONLY, "in": os.O_RDONLY}
            for name, way in ways.items():  # one by one: those before a failure are closed
                fd = self._open_pipe(name, way)
                opened.append(fd)
        except OSError:
            for fd in opened:
                os.close(fd)
            self._give_up()
            return
        out, errors, self._say, source = opened
        self._main = Stream(self._link, self.number, source, out)
        self._errors = Stream(self._link, self.number + 1, -1, errors)
        self._tell(b"run\n")

    def _open_pipe(self, name: str, way: int) -> int:
        return self._group.pipe(f"{self._place}.{name}", way)

    def _complain(self, words: bytes) -> None:
        """Write to the standard error of who rang, or where it listens before that is open."""
        if self._errors is not None and self._errors.sink >= 0:
            try:
                os.write(self._errors.sink, words)
            except OSError:
                pass
        elif self._main is None:
            try:
                self._say = self._open_pipe("say", os.O_WRONLY)
            except OSError:
                return
            self._tell(b"no " + words)

    def _tell(self, words: bytes) -> None:
        try:
            if self._say >= 0:
                os.write(self._say, words)
        except OSError:
            pass  # gone

    def turn(self) -> bool:
        if self._is_over:
            return False
        if self._code is None:
            if self._main is not None and _is_unread(self._main.sink):
                self._give_up()
                return False
            return True
        if any(stream.sink >= 0 for stream in self.streams()):
            return True  # more is to be read
        self._finish(self._code)
        return False

    def _give_up(self) -> None:
        """Tell the other side that who rang has gone: it may end its command."""
        self._link.tell({"type": "close", "stream": self.number})
        self._finish(255)

    def _leave_input(self) -> None:
        if self._main is not None and self._main.source >= 0:
            self._input, self._main.source = self._main.source, -1

    def _finish(self, code: int) -> None:
        """End with the code; close the input last: a cat that splices holds it until then."""
        self._is_over = True
        self._leave_input()
        for stream in self.streams():
            stream.close()
        self._tell(f"{code}\n".encode())
        for fd in (self._say, self._input):
            if fd >= 0:
                os.close(fd)
        self._say = self._input = -1
        self._group.free(self._place)

    def close(self, is_lost: bool = False) -> None:
        """Give up as the connection has gone: what runs runs on, which is no failure.

        What does not run yet is asked for anew.
        """
        if self._is_over:
            return
        if self._main is None and self._code is None:
            self._is_over = True
            self._group.again(self._place)
            return
        if self._code is None:
            self._complain(RUNS_ON)
        self._finish(self._code or 0)


def devices(address: str, sys: str = "/sys/class") -> str:
    """Return the node's devices that lead out of it, as UCX names them: all but the loopback.

    Pods of one node have one network namespace in common, by which UCX takes their loopbacks for
    one, and these are not.
    """
    from ..netd.interfaces import interface_of

    packed = bytes(int(part) for part in address.split("."))
    found = [interface_of(packed).decode()]
    try:
        for name in sorted(os.listdir(f"{sys}/infiniband")):
            ports = sorted(os.listdir(f"{sys}/infiniband/{name}/ports"))
            found += [f"{name}:{port}" for port in ports]
    except OSError:
        pass  # there are none
    return ",".join(found)


def _is_unread(fd: int) -> bool:
    if fd < 0:
        return False
    poll = select.poll()
    poll.register(fd, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))
