"""Calls of srun by a container: each is run, answered and ended."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from types import SimpleNamespace

import pytest

from orlop.agent.ranks import srun_calls as module
from orlop.agent.ranks.srun_calls import Calls

SRUN = "import sys; print(sys.argv[1:], flush=True); sys.exit(3)"


class Leader:
    """What the pod's leader does for calls: forks, reaps, turns."""

    def __init__(self, tmp_path, monkeypatch):
        made = module.StandIn
        monkeypatch.setattr(module, "StandIn", lambda box: made(box, str(tmp_path / "srun")))
        monkeypatch.setattr(module, "find", lambda names: "srun")
        monkeypatch.setenv("SLURM_JOB_ID", "17")
        box = SimpleNamespace(folder=str(tmp_path), binds=[], env=[])
        self.program = [sys.executable, "-c", SRUN]
        self.children, self.callers, self.refusals = [], [], []
        self.calls = Calls(box, self.start, lambda number: [f"starter-{number}"])
        self.calls.open()

    def start(self, argv, env, call, refusal):
        self.refusals += [refusal] if refusal else []
        program = [sys.executable, "-c", "raise SystemExit(1)"] if refusal else self.program
        child = subprocess.Popen([*program, *argv], stdout=call.streams[1], env=env)
        self.children.append(child)
        return child.pid

    def reap(self):
        for child in [child for child in self.children if child.poll() is not None]:
            self.children.remove(child)
            self.calls.on_end(child.pid, child.returncode)

    def turn(self, until):
        while not until():
            for fd in self.calls.fds():
                poll = select.poll()
                poll.register(fd, select.POLLIN)
                if poll.poll(5):
                    self.calls.on_ready(fd, lambda pid: True)
            self.reap()


@pytest.fixture
def leader(tmp_path, monkeypatch):
    made = Leader(tmp_path, monkeypatch)
    yield made
    made.calls.end(made.reap)
    for fd in (made.calls._standin.ring, made.calls._standin._wait):
        os.close(fd)  # and nobody waits any longer
    for child in made.callers:
        child.kill()
        child.communicate()


@pytest.fixture
def srun(tmp_path, leader):
    """What a process of the container calls."""

    def srun(*words):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        leader.callers.append(subprocess.Popen([tmp_path / "srun" / "srun", *words], **pipes))
        return leader.callers[-1]

    return srun


def test_the_sites_srun_runs_a_starter_with_the_command_behind_marks(leader, srun):
    child = srun("-n2", "--jobid=17", "prog", "a", "")
    leader.turn(lambda: child.poll() is not None)
    expected = [
        "srun", "--jobid=17", "--overlap", "--mem=0", "--job-name=prog", "--ntasks=2",
        "--export=ALL", "starter-1", ".prog", ".a", ".",
    ]  # fmt: skip
    assert child.communicate()[0].decode() == f"{expected}\n"
    assert child.returncode == 3


def test_what_is_refused_runs_nothing(leader, srun):
    child = srun("--prolog=/tmp/x", "prog")
    leader.turn(lambda: child.poll() is not None)
    assert child.returncode == 1
    [words] = leader.refusals
    assert words.startswith("srun: error: --prolog is not allowed in a container: ")


def test_one_that_there_is_no_process_left_for_ends_alone(leader, srun, capfd):
    start = leader.start

    def full(*_):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    leader.calls._start = full
    child = srun("prog")
    leader.turn(lambda: child.poll() is not None)
    assert child.returncode == 1
    assert b"the pod's agent did not answer" in child.communicate()[1]
    assert "a call of srun: [Errno 11]" in capfd.readouterr().err
    leader.calls._start = start
    child = srun("prog")
    leader.turn(lambda: child.poll() is not None)
    assert child.returncode == 3


def test_only_so_many_run_at_once(leader, srun, monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    leader.program = [sys.executable, "-c", "import time; time.sleep(600)"]
    running = [srun("prog"), srun("prog")]
    leader.turn(lambda: len(leader.children) == 2)
    third = srun("prog")
    leader.turn(lambda: third.poll() is not None)
    assert third.returncode == 1
    assert leader.refusals == ["srun: error: 2 calls run at once; wait for one of them to end\n"]
    assert [child.poll() for child in running] == [None, None]


def test_what_nobody_waits_for_is_ended(leader, srun):
    leader.program = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = srun("prog")
    leader.turn(lambda: bool(leader.children))
    child.kill()
    leader.turn(lambda: not leader.children)
    assert leader.calls.fds() == [leader.calls._standin.ring]


def test_none_outlives_the_container(leader, srun, monkeypatch):
    monkeypatch.setattr(module, "LAST", 0.5)
    stubborn = "signal.signal(15, signal.SIG_IGN); print('here', flush=True); time.sleep(600)"
    leader.program = [sys.executable, "-c", f"import signal, time; {stubborn}"]
    child = srun("prog")
    leader.turn(lambda: bool(select.select([child.stdout], [], [], 0)[0]))
    leader.calls.end(leader.reap)
    assert leader.children == []
    leader.turn(lambda: child.poll() is not None)
