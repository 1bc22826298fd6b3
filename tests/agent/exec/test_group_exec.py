"""Commands in other pods: real shells on one side of the pipes, the agent on the other."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from orlop.agent.connection.upgraded_connection import Link
from orlop.agent.exec.group_exec import FIRST_NUMBER, PIPES, Group
from orlop.agent.exec.processes import Execs
from orlop.agent.exec.sessions import Sessions
from orlop.agent.pod.supervisor import Supervisor
from orlop.extensions.mpijob.children import script

SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
TIMEOUT = 60.0


class Line:
    """The kubelet at the other end of a line: what the agent says is kept, answers are ours."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.data: dict[int, bytes] = {}
        self.backlog = 0

    def tell(self, message: dict[str, Any]) -> None:
        self.told.append(message)

    def send(self, stream: int, payload: bytes) -> None:
        self.data[stream] = self.data.get(stream, b"") + payload

    def asks(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.told if message["type"] == kind]


class Bench:
    """A group's folder, its sessions turned by hand, and shells that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.line = Line()
        nobody = cast("Supervisor", None)
        execs = Execs(lambda name: None, lambda: 0.0)
        self.sessions = Sessions(nobody, execs, Group(str(folder)))
        self.rsh = folder.parent / "rsh"
        self.rsh.write_text(script("rsh"))

    @property
    def link(self) -> Link:
        return cast("Link", self.line)

    def start(
        self, shell: list[str], *args: str, stdin: bytes | socket.socket = b""
    ) -> subprocess.Popen[bytes]:
        """With all of its input, or a socket that more may come from."""
        env = {**os.environ, "ORLOP_GROUP_DIR": str(self.folder)}
        argv = [*shell, str(self.rsh), *args]
        pipe = subprocess.PIPE
        given = pipe if isinstance(stdin, bytes) else stdin
        process = subprocess.Popen(argv, env=env, stdin=given, stdout=pipe, stderr=pipe)
        if isinstance(stdin, bytes):
            assert process.stdin is not None
            process.stdin.write(stdin)
            process.stdin.close()
            process.stdin = None
        return process

    def turn_until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not is_so():
            assert time.monotonic() < deadline, f"not so; the agent said {self.line.told}"
            poll = select.poll()
            self.sessions.register(poll, True)
            ready = [fd for fd, _ in poll.poll(20)]
            self.sessions.on_ready(ready, lambda: True)
            self.sessions.turn(self.link)

    def asked(self, number: int) -> list[dict[str, Any]]:
        self.turn_until(lambda: len(self.line.asks("start")) >= number)
        return self.line.asks("start")

    def answer(self, stream: int, kind: str, **fields: Any) -> None:
        self.sessions.on_message(self.link, {"type": kind, "stream": stream, **fields})

    def end(self, process: subprocess.Popen[bytes]) -> tuple[bytes, bytes, int]:
        """What a shell says to its end, while the agent goes on turning."""
        said: list[tuple[bytes, bytes]] = []
        listening = threading.Thread(target=lambda: said.append(process.communicate()))
        listening.start()
        self.turn_until(lambda: said)
        listening.join(TIMEOUT)
        return (*said[0], process.returncode)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "group")
    yield made
    made.sessions.close()


@pytest.fixture(params=SHELLS, ids=lambda shell: str(shell[0]))
def shell(request: pytest.FixtureRequest) -> list[str]:
    found: list[str] = request.param
    assert shutil.which(found[0]), f"expected {found[0]} on this machine, see tools/setup"
    return found


def test_input_output_errors_and_the_exit_code_pass_through(bench: Bench, shell: list[str]) -> None:
    process = bench.start(
        shell, "-x", "-o", "A=b", "me@w-0.job", "echo", "'a b';", "orted", stdin=b"in\n"
    )
    (ask,) = bench.asked(1)
    assert (ask["host"], ask["command"]) == ("w-0.job", "echo 'a b'; orted")
    number = ask["stream"]
    assert number >= FIRST_NUMBER
    bench.answer(number, "opened")
    bench.turn_until(lambda: bench.line.data.get(number) == b"in\n" and bench.line.asks("eof"))
    bench.sessions.turn(bench.link)
    bench.sessions.on_data(number, b"out\n")
    bench.sessions.on_data(number + 1, b"err\n")
    bench.answer(number, "eof")
    bench.answer(number + 1, "eof")
    bench.answer(number, "closed", code=7)
    assert bench.end(process) == (b"out\n", b"err\n", 7)
    assert not list(bench.folder.glob("*.ask"))  # the place is free again


def test_more_output_than_pipes_hold_arrives_whole(bench: Bench, shell: list[str]) -> None:
    process = bench.start(shell, "host", "yes")
    number = bench.asked(1)[0]["stream"]
    bench.answer(number, "opened")
    bench.sessions.turn(bench.link)
    piece = bytes(range(256)) * 1000  # as much as the window allows, and far more than a pipe
    bench.sessions.on_data(number, piece)
    bench.answer(number, "eof")
    bench.answer(number, "closed", code=0)
    assert bench.end(process) == (piece, b"", 0)


@pytest.mark.parametrize("copier", ["dd bs=65536", "busybox cat"])
def test_an_input_that_stays_open_keeps_neither_the_script_nor_the_agent(
    bench: Bench, copier: str
) -> None:
    """Intel's Hydra gives a socket; busybox' cat holds the pipe while it waits for that."""
    bench.rsh.write_text(script("rsh").replace("dd bs=65536", copier))
    near, far = socket.socketpair()
    process = bench.start(["busybox", "sh"], "host", "proxy", stdin=near)
    number = bench.asked(1)[0]["stream"]
    bench.answer(number, "opened")
    bench.sessions.turn(bench.link)
    rescue = threading.Timer(TIMEOUT / 2, far.shutdown, [socket.SHUT_RDWR])  # or all would hang
    rescue.start()
    if not copier.endswith("cat"):
        far.sendall(b"in\n")
        bench.turn_until(lambda: bench.line.data.get(number) == b"in\n")
    bench.answer(number, "closed", code=3)
    assert bench.end(process) == (b"", b"", 3)
    assert rescue.is_alive(), "the input had to end first"
    rescue.cancel()
    near.close()
    far.close()


def test_what_may_not_be_reached_is_said_and_fails(bench: Bench, shell: list[str]) -> None:
    process = bench.start(shell, "stranger", "id")
    bench.answer(bench.asked(1)[0]["stream"], "closed", error="this pod is of no group")
    assert bench.end(process) == (b"", b"orlop: this pod is of no group\n", 255)


def test_many_at_once_have_a_place_each(bench: Bench) -> None:
    processes = [bench.start(["dash"], f"h{i}", f"echo {i}") for i in range(12)]
    asks = bench.asked(12)
    assert {ask["host"] for ask in asks} == {f"h{i}" for i in range(12)}
    for ask in asks:
        bench.answer(ask["stream"], "opened")
    bench.sessions.turn(bench.link)
    for ask in asks:
        bench.sessions.on_data(ask["stream"], ask["host"].encode())
        bench.answer(ask["stream"], "closed", code=int(ask["host"][1:]))
    ends = [bench.end(process) for process in processes]
    assert ends == [(f"h{i}".encode(), b"", i) for i in range(12)]


def test_a_shell_that_is_ended_lets_its_command_go(bench: Bench, shell: list[str]) -> None:
    process = bench.start(shell, "host", "sleep 1000")
    number = bench.asked(1)[0]["stream"]
    bench.answer(number, "opened")
    bench.turn_until(lambda: bench.line.asks("eof"))  # it has come to wait for the output
    process.terminate()
    bench.turn_until(lambda: bench.line.asks("close"))
    assert bench.line.asks("close") == [{"type": "close", "stream": number}]
    assert process.wait(TIMEOUT) != 0
    process.communicate()


def test_what_did_not_run_when_the_line_broke_is_asked_for_again(bench: Bench) -> None:
    process = bench.start(["dash"], "host", "true")
    first = bench.asked(1)[0]["stream"]
    bench.sessions.close()
    again = bench.asked(2)[1]
    assert again["stream"] != first
    assert again["host"] == "host"
    bench.answer(again["stream"], "opened")
    bench.answer(again["stream"], "closed", code=3)
    assert bench.end(process) == (b"", b"", 3)


def test_what_ran_when_the_line_broke_runs_on_and_is_no_failure(bench: Bench) -> None:
    process = bench.start(["dash"], "host", "hydra_pmi_proxy")
    bench.answer(bench.asked(1)[0]["stream"], "opened")
    bench.sessions.turn(bench.link)
    bench.sessions.close()
    out, errors, code = bench.end(process)
    assert (out, code) == (b"", 0)
    assert b"runs on" in errors


def test_nonsense_at_the_ring_is_passed_over(bench: Bench) -> None:
    ring = os.open(bench.folder / "ring", os.O_WRONLY | os.O_NONBLOCK)
    os.write(ring, b"x\n-1\n99999\n5\n")  # nobody has asked for anything in place 5
    os.close(ring)
    bench.sessions.turn(bench.link)
    assert bench.line.told == []


def test_without_an_agent_the_script_says_what_it_expected(tmp_path: Path) -> None:
    path = tmp_path / "rsh"
    path.write_text(script("rsh"))
    env = {**os.environ, "ORLOP_GROUP_DIR": str(tmp_path / "none")}
    ended = subprocess.run(["sh", str(path), "h", "id"], env=env, capture_output=True, text=True)
    assert ended.returncode == 255
    assert "expected the pipes of the pod's agent" in ended.stderr


def test_the_hold_script_stays_until_it_is_told_to_go(bench: Bench, shell: list[str]) -> None:
    path = bench.folder.parent / "hold"
    path.write_text(script("hold"))
    env = {**os.environ, "ORLOP_GROUP_DIR": str(bench.folder)}
    process = subprocess.Popen([*shell, str(path)], env=env)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.terminate()
    assert process.wait(TIMEOUT) == 0


def test_nothing_that_it_started_outlives_the_script(bench: Bench, shell: list[str]) -> None:
    """Hydra is often the first process of its container, and takes every bad end for its own."""
    reaper = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
    reaper += "child = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])\n"
    reaper += "ends = {}\n"
    reaper += "while child not in ends: ends.__setitem__(*os.waitpid(-1, 0))\n"
    reaper += "try:\n    while True: ends.__setitem__(*os.waitpid(-1, 0))\n"
    reaper += "except ChildProcessError: print(sorted(ends.values()))\n"
    held, ours = os.pipe()  # an input that does not end, as mpiexec's does not
    env = {**os.environ, "ORLOP_GROUP_DIR": str(bench.folder)}
    argv = [sys.executable, "-c", reaper, *shell, str(bench.rsh), "host", "proxy"]
    process = subprocess.Popen(argv, env=env, stdin=held, stdout=subprocess.PIPE, stderr=-1)
    number = bench.asked(1)[0]["stream"]
    bench.answer(number, "opened")
    bench.sessions.turn(bench.link)
    bench.answer(number, "closed", code=0)
    assert bench.end(process) == (b"[0]\n", b"", 0)
    os.close(held)
    os.close(ours)


# A container that does not play by the rules


def ring(bench: Bench, place: int) -> None:
    with (bench.folder / "ring").open("w") as pipe:
        pipe.write(f"{place}\n")


def turned(bench: Bench, seconds: float = 0.3) -> None:
    until = time.monotonic() + seconds
    bench.turn_until(lambda: time.monotonic() > until)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("s3cret")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "large", "device"])
def test_a_wish_that_is_no_file_is_not_read(bench: Bench, secret: Path, kind: str) -> None:
    """The agent may read what the container may not, and would tell it as an unknown host."""
    ask = bench.folder / "3.ask"
    if kind == "link":
        ask.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(ask)
    elif kind == "folder":
        ask.mkdir()
    elif kind == "device":
        ask.symlink_to("/dev/zero")
    else:
        ask.write_bytes(b"x" * (2 << 20))
    ring(bench, 3)
    turned(bench)
    assert bench.line.asks("start") == []
    (bench.folder / "4.ask").write_text("host\ntrue")
    ring(bench, 4)
    assert bench.asked(1)[0]["host"] == "host"


@pytest.mark.parametrize("name", ["out", "err", "say", "in"])
def test_a_link_in_the_place_of_a_pipe_is_neither_written_nor_read(
    bench: Bench, secret: Path, name: str
) -> None:
    place = bench.folder / f"3.{name}"
    place.unlink()
    place.symlink_to(secret)
    held = [os.open(bench.folder / f"3.{pipe}", os.O_RDWR) for pipe in PIPES if pipe != name]
    (bench.folder / "3.ask").write_text("host\ntrue")
    ring(bench, 3)
    stream = bench.asked(1)[0]["stream"]
    bench.answer(stream, "opened")
    bench.answer(stream, "closed", code=0, error="written by the agent")
    turned(bench)
    assert secret.read_text() == "s3cret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in str(bench.line.data)
    for fd in held:
        os.close(fd)


def test_a_place_that_was_spoiled_spoils_no_other(bench: Bench) -> None:
    (bench.folder / "0.ask").write_text("host\ntrue")
    ring(bench, 0)
    stream = bench.asked(1)[0]["stream"]
    (bench.folder / "0.out").unlink()
    (bench.folder / "0.out").mkdir()
    (bench.folder / "0.ask").unlink()
    bench.answer(stream, "closed", code=0, error="no such host")
    turned(bench)
    with (bench.folder / "ring").open("w") as pipe:
        pipe.write("9" * 3000 + "\n" * 3)
    (bench.folder / "5.ask").write_text("other\ntrue")
    ring(bench, 5)
    assert bench.asked(2)[1]["host"] == "other"
