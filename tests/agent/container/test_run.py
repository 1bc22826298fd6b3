"""One run of a container, with children that behave as runtimes' launchers do."""

from __future__ import annotations

import os
import select
import signal
import time
from types import SimpleNamespace

import pytest

from orlop.agent.container.cgroups import NONE
from orlop.agent.container.container_setup import Prepared
from orlop.agent.container.run import Run
from orlop.agent.container.runtimes import Launch
from orlop.agent.linux.process import program

ENV = {"PATH": "/usr/bin:/bin"}


class Words:
    """A runtime that only has to explain, and to forget."""

    name = "words"

    def __init__(self):
        self.removed = 0

    def words(self, box, launch, output, report):
        return f"printed {output!r}, reported {report!r}"

    def remove(self, box):
        self.removed += 1


class Play:
    """A Run, told by poll() and waitpid() as the supervisor tells it."""

    def __init__(self, folder, script, status="", **container):
        self.folder, self.poll, self.runtime = folder, select.poll(), Words()
        (folder / "termination-log").touch()
        options = {"name": "c", "tty": False, "stdin": False, "message_policy": "File"}
        options["stop_signal"] = signal.SIGINT
        spec = SimpleNamespace(**{**options, **container})
        box = SimpleNamespace(container=spec, folder=str(folder), id="c-0", restart=0)
        pid_file = "" if status else str(folder / "pid")
        body = program(["/bin/sh", "-c", script, "sh", str(folder)], ENV)
        launch = Launch(body, pid_file, str(folder / "errors"), status)
        prepared = Prepared(box, self.runtime, launch, NONE)
        self.run = Run(prepared, str(folder / "0.log"), self.poll)

    def until(self, is_done, timeout=10.0):
        end = time.monotonic() + timeout
        while not is_done(self.run):
            assert time.monotonic() < end, "it did not come to pass"
            for fd, _ in self.poll.poll(20):
                if self.run.owns(fd):
                    self.run.on_readable(fd)
            self._reap()
        return self.run

    def _reap(self):
        if self.run.launcher:
            pid, status = os.waitpid(self.run.launcher, os.WNOHANG)
            if pid:
                self.run.on_launcher_exit(status, time.time())

    def lines(self):
        text = (self.folder / "0.log").read_text()
        return [tuple(line.split(" ", 3)[1::2]) for line in text.splitlines()]


@pytest.fixture
def play(tmp_path):
    made = []

    def make(script, **options):
        made.append(Play(tmp_path, script, **options))
        return made[-1]

    yield make
    for one in made:
        one.run.close()


@pytest.fixture
def fifo(tmp_path):
    path = str(tmp_path / "status")
    os.mkfifo(path)
    return path


def is_started(run):
    return run.pid


def is_refused(run):
    return run.refusal is not None


def is_over(run):
    return run.is_over


def test_a_launcher_that_leaves_a_number_has_started_its_container(play):
    run = play("echo 4711 > $1/pid").until(is_started)
    assert run.pid == 4711
    assert run.refusal is None
    assert not run.has_ended


def test_a_launcher_that_fails_is_a_refusal_with_what_it_printed(play):
    story = play("echo oh; echo no >&2; exit 3")
    run = story.until(is_refused)
    assert run.refusal == "printed 'oh\\nno\\n', reported b''"
    assert run.pid == 0
    assert story.lines() == [], "no container has run: there is nothing to log"


def test_what_a_quick_container_prints_before_its_launcher_ends_is_logged(play):
    story = play("echo out; echo err >&2; echo 4711 > $1/pid; exec sleep 0.2")
    run = story.until(lambda run: run.launcher == 0)
    assert run.pid == 4711
    assert sorted(story.lines()) == [("stderr", "err"), ("stdout", "out")]


def test_the_end_of_the_first_process_waits_for_its_last_words(play):
    story = play("echo 4711 > $1/pid; (sleep 0.2; echo late) &")
    run = story.until(lambda run: run.launcher == 0)
    run.on_exit(3 << 8, time.time())
    assert run.has_ended
    assert not run.is_over
    assert run.drain_until > time.time()
    assert story.until(is_over).exit() == (3, 0, False)
    assert story.lines() == [("stdout", "late")]


def test_last_words_are_not_waited_for_for_ever(play):
    story = play("echo 4711 > $1/pid; echo said; sleep 30 &")
    run = story.until(lambda run: run.launcher == 0)
    run.on_exit(0, time.time())
    story.until(lambda run: story.lines() == [("stdout", "said")])
    assert not run.is_over
    run.stop_draining()
    assert run.is_over


def test_a_launcher_that_stays_tells_its_containers_end(play, fifo):
    story = play("printf S > $1/status; echo hi; exit 7", status=fifo)
    run = story.until(is_over)
    assert run.exit() == (7, 0, False)
    assert story.lines() == [("stdout", "hi")]


def test_a_launcher_that_stays_is_running_once_the_stub_has_become(play, fifo):
    story = play("exec 9> $1/status; printf S >&9; sleep 0.3; exec 9>&-; exec sleep 5", status=fifo)
    before = time.monotonic()
    run = story.until(is_started)
    assert time.monotonic() - before > 0.2, "not while the stub still may report an error"
    os.kill(run.launcher, 9)
    assert story.until(is_over).exit() == (137, 9, False)


def test_the_first_process_of_one_that_stays_is_its_child(play, fifo):
    story = play("sleep 9 & printf S > $1/status; wait", status=fifo)
    run = story.until(is_started)
    assert run.pid != run.launcher
    with open(f"/proc/{run.pid}/stat") as file:
        assert int(file.read().rpartition(")")[2].split()[1]) == run.launcher
    os.kill(run.pid, 9)
    story.until(is_over)


def test_what_the_stub_reports_is_a_refusal(play, fifo):
    story = play("printf 'S and why' > $1/status; exit 127", status=fifo)
    assert story.until(is_refused).refusal == "printed '', reported b'S and why'"


def test_one_that_stays_and_ends_without_a_word_from_the_stub_was_refused(play, fifo):
    story = play("echo FATAL: no; exit 255", status=fifo)
    assert story.until(is_refused).refusal == "printed 'FATAL: no\\n', reported b''"


def test_a_terminal_is_one_stream(play):
    story = play("echo 4711 > $1/pid; test -t 0 && test -t 1 && test -t 2 && echo tty", tty=True)
    run = story.until(lambda run: run.launcher == 0)
    run.on_exit(0, time.time())
    story.until(is_over)
    assert story.lines() == [("stdout", "tty\r")] or story.lines() == [("stdout", "tty")]


def test_standard_input_can_be_written_where_asked_for(play):
    story = play("echo 4711 > $1/pid; echo ready; read line; echo got $line", stdin=True)
    story.until(is_started)
    os.write(story.run.stdin, b"this\n")
    story.until(lambda run: ("stdout", "got this") in story.lines())


def test_standard_input_is_empty_otherwise(play):
    story = play("cat; echo 4711 > $1/pid; echo end")
    assert story.run.stdin == -1
    story.until(lambda run: story.lines() == [("stdout", "end")])


@pytest.mark.parametrize(
    ("policy", "left", "code", "expected"),
    [
        ("File", "written", 1, "written"),
        ("File", "", 1, ""),
        ("FallbackToLogsOnError", "written", 1, "written"),
        ("FallbackToLogsOnError", "", 1, "logged\n"),
        ("FallbackToLogsOnError", "", 0, ""),
        ("File", "x" * 5000, 0, "x" * 4096),
    ],
)
def test_the_message_follows_the_policy(play, policy, left, code, expected):
    story = play("echo 4711 > $1/pid; echo logged", message_policy=policy)
    story.until(lambda run: story.lines() == [("stdout", "logged")])
    (story.folder / "termination-log").write_text(left)
    assert story.run.message(code) == expected


def test_a_closed_run_keeps_nothing_open(play):
    before = len(os.listdir("/proc/self/fd"))
    story = play("echo 4711 > $1/pid; exec sleep 0.1", stdin=True)
    story.until(lambda run: run.launcher == 0)
    story.run.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert story.runtime.removed == 1
    story.run.close = lambda: None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_one_that_is_stopped_is_known_to_be(play, number):
    run = play("trap '' INT TERM; read nothing", status="", stdin=True).run
    run.signal(signal.SIGCONT)
    assert not run.is_told_to_end
    run.signal(number)
    assert run.is_told_to_end
    run.signal(signal.SIGKILL)
    os.waitpid(run.launcher, 0)
