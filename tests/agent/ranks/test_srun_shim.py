"""srun for containers whose image has none."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from types import SimpleNamespace

import pytest

from orlop.agent.ranks import srun_shim as module
from orlop.agent.ranks.srun_options import Refused
from orlop.agent.ranks.srun_shim import FOLDER, MAX_SIZE, StandIn

SHELLS = (["dash"], ["bash"], ["busybox", "sh"])


@pytest.fixture
def standin(tmp_path):
    box = SimpleNamespace(folder=str(tmp_path), binds=[], env=[("PATH", "/bin"), ("A", "1")])
    made = StandIn(box, inside=str(tmp_path / "srun"))
    made.open()
    yield made
    os.close(made.ring)
    os.close(made._wait)


def call(tmp_path, *words, shell=("sh",), **more):
    """What a process of the container does."""
    env = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", "LD_PRELOAD": "", "OMPI_MCA_x": "1"}
    argv = [*shell, tmp_path / "srun" / "srun", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen(argv, env=env, cwd="/usr", preexec_fn=_hear_interrupts, **pipes)


def _hear_interrupts():
    """Which those do not that come of a shell's background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def rung(standin, holds=lambda pid: True):
    assert select.select([standin.ring], [], [], 60)[0]
    return standin.calls(holds)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_a_call_brings_its_words_variables_folder_and_streams_and_hears_a_code(
    tmp_path, standin, shell
):
    with call(tmp_path, "-n", "1", "prog", "a b", shell=shell, stdin=subprocess.PIPE) as child:
        [found] = rung(standin)
        wanted = found.wanted("7")
        assert wanted.command == ["prog", "a b"]
        env = found.env({"HOME": "/h", "SLURM_JOB_ID": "7", "OMPI_MCA_x": "of the job"}, wanted)
        assert os.path.normpath(env["ORLOP_CWD"]) == "/usr"
        said = {name: text for name, text in env.items() if not name.startswith("ORLOP_")}
        assert said == {"HOME": "/h", "SLURM_JOB_ID": "7"}
        assert (env["ORLOP_SAID_OMPI_MCA_x"], env["ORLOP_SAID_LD_PRELOAD"]) == ("1", "")
        assert "ORLOP_SAID_SLURM_JOB_ID" not in env
        child.stdin.write(b"asked")
        child.stdin.flush()
        assert os.read(found.streams[0], 9) == b"asked"
        os.write(found.streams[1], b"said\n")
        os.write(found.streams[2], b"complained\n")
        found.end(7)
        assert child.communicate() == (b"said\n", b"complained\n")
    assert child.returncode == 7


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_caller_without_streams_is_one_too(tmp_path, standin, shell, closed):
    argv = ["sh", "-c", f'exec "$@" {closed}', "sh", *shell, tmp_path / "srun" / "srun", "prog"]
    with subprocess.Popen(argv) as child:
        [found] = rung(standin)
        assert len(found.streams) == 3
        found.end(0)
    assert child.returncode == 0


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_one_that_is_gone_is_seen_to_be(tmp_path, standin, shell, number):
    with call(tmp_path, "prog", shell=shell, start_new_session=True) as child:
        [found] = rung(standin)
        if number == signal.SIGINT:  # as terminals send it
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)
        poll = select.poll()
        for fd in (found.answer, found.process):
            poll.register(fd, select.POLLIN)
        assert poll.poll(60_000)
        found.end(0)
        assert child.wait(60)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_a_warning_of_the_time_limit_ends_no_call(tmp_path, standin, shell):
    with call(tmp_path, "prog", shell=shell, start_new_session=True) as child:
        [found] = rung(standin)
        os.killpg(child.pid, signal.SIGUSR1)
        os.killpg(child.pid, signal.SIGUSR2)
        found.end(4)
    assert child.returncode == 4


def test_many_call_at_once_and_each_hears_its_own(tmp_path, standin):
    children = {number: call(tmp_path, "prog", str(number)) for number in range(8)}
    heard = 0
    while heard < len(children):
        for found in rung(standin):
            found.end(int(found.wanted("7").command[1]) + 10)
            heard += 1
    for number, child in children.items():
        child.communicate()
        assert child.returncode == number + 10


def test_a_process_that_is_not_in_the_container_is_not_listened_to(tmp_path, standin, capfd):
    with call(tmp_path, "prog") as child:
        assert rung(standin, holds=lambda pid: False) == []
        assert child.poll() is None
        child.kill()
    assert "it is none of the container's that may call" in capfd.readouterr().err


def test_one_of_the_container_with_mounts_of_its_own_is_told_that_nothing_was_run(
    tmp_path, standin, capfd
):
    with call(tmp_path, "prog") as child:
        assert rung(standin, holds=lambda pid: pid == os.getpid()) == []
        _, complained = child.communicate(timeout=60)
    assert child.returncode == 1
    assert complained.startswith(b"srun: error: the pod's agent did not answer")
    assert "it has mounts of its own" in capfd.readouterr().err


def test_a_python_that_cannot_hold_a_process_listens_to_nobody(tmp_path, standin, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    with open(tmp_path / "srun" / "ring", "w") as ring:
        ring.write("1\n")
    assert rung(standin) == []


@pytest.mark.parametrize("said", ["{pid}\n", "0\n", "1{pid}\n", "-1\n", "x\n", "9" * 5000 + "\n"])
def test_no_other_process_can_be_named(tmp_path, standin, said):
    with subprocess.Popen(["sleep", "600"]) as other:
        with open(tmp_path / "srun" / "ring", "w") as ring:
            ring.write(said.format(pid=other.pid))
        while select.select([standin.ring], [], [], 0)[0]:
            assert standin.calls(lambda pid: True) == []
        assert other.poll() is None
        other.kill()


def test_a_number_may_come_in_two_parts(tmp_path, standin):
    with call(tmp_path, "prog") as child:
        assert select.select([standin.ring], [], [], 60)[0]
        line = os.read(standin.ring, 4096)
        assert os.write(standin.ring, line[:2]) == 2
        assert standin.calls(lambda pid: True) == []
        os.write(standin.ring, line[2:])
        [found] = standin.calls(lambda pid: True)
        found.end(3)
    assert child.returncode == 3


def test_one_who_says_too_much_is_told_that_nothing_was_run(tmp_path, standin, capfd):
    words = ["x" * 100_000] * (MAX_SIZE // 100_000 + 1)
    with call(tmp_path, "prog", *words) as child:
        assert rung(standin) == []
        _, complained = child.communicate()
    assert child.returncode == 1
    assert complained.startswith(b"srun: error: the pod's agent did not answer")
    assert f"more than {MAX_SIZE} bytes" in capfd.readouterr().err


def test_the_container_finds_it_first_in_its_path_and_cannot_change_it(tmp_path):
    box = SimpleNamespace(folder=str(tmp_path), binds=[], env=[("PATH", "/bin"), ("A", "1")])
    StandIn(box)
    env = dict(box.env)
    assert env["PATH"] == f"{FOLDER}:/bin"
    assert (env["A"], env["OMPI_MCA_plm"]) == ("1", "slurm")
    [bind] = box.binds
    assert (bind.path, bind.read_only) == (FOLDER, True)
    assert sorted(os.listdir(bind.source)) == ["call", "ring", "srun", "wait"]


def test_where_the_kernel_is_too_old_that_is_said(tmp_path, monkeypatch):
    def missing(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(module.syscalls, "descriptor_of", missing)
    StandIn(SimpleNamespace(folder=str(tmp_path), binds=[], env=[]))
    with call(tmp_path, "prog") as child:
        assert b"Linux 5.6 is needed" in child.communicate()[1]
    assert child.returncode == 1


def test_what_is_not_allowed_is_refused(tmp_path, standin):
    with call(tmp_path, "--prolog=/x", "prog") as child:
        [found] = rung(standin)
        with pytest.raises(Refused):
            found.wanted("7")
        found.end(1)
    assert child.returncode == 1
