"""Children: their streams, their exits, and what they do not inherit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from orlop.agent.linux.process import children, exit_of, first_child, program, run_quickly, spawn


def run(body, cgroups=()):
    """A child's exit code, output and errors."""
    null = os.open(os.devnull, os.O_RDONLY)
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    pid = spawn(body, (null, out_write, err_write), cgroups)
    for fd in (null, out_write, err_write):
        os.close(fd)
    with open(out_read) as out, open(err_read) as err:
        texts = out.read(), err.read()
    return exit_of(os.waitpid(pid, 0)[1]), *texts


def test_a_program_has_the_streams_and_variables_given():
    command = ["/bin/sh", "-c", "echo $A; echo err >&2; exit 3"]
    assert run(program(command, {"A": "x"})) == ((3, 0), "x\n", "err\n")


def test_a_program_is_looked_for_in_the_path():
    assert run(program(["sh", "-c", "exit 4"], {"PATH": "/usr/bin:/bin"}))[0] == (4, 0)


def test_a_program_that_is_not_there_ends_the_child_with_a_word():
    code, _, err = run(program(["/no/such/program"], {}))
    assert code == (127, 0)
    assert "No such file" in err


def test_a_body_that_fails_ends_the_child():
    def fail():
        raise ValueError("it broke")

    assert run(fail) == ((127, 0), "", "it broke\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_is_128_and_its_number(number):
    assert run(program(["/bin/sh", "-c", f"kill -{int(number)} $$"], {}))[0] == (
        128 + number,
        number,
    )


def test_a_child_enters_its_cgroups_first(tmp_path):
    procs = tmp_path / "cgroup.procs"
    procs.touch()
    run(program(["/bin/true"], {}), [str(procs)])
    assert procs.read_text() == "0"


def test_broken_pipes_end_a_child_as_anywhere():
    # Python ignores SIGPIPE, and a container must not inherit that.
    words = run(program(["/bin/sh", "-c", "grep SigIgn /proc/self/status"], {}))[1]
    assert int(words.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_what_a_command_prints_is_captured():
    assert run_quickly(["/bin/echo", "two words"]) == (0, "two words\n")
    code, words = run_quickly(["/no/such/program"])
    assert (code, "No such file" in words) == (127, True)


def test_children_are_found():
    sleeper = subprocess.Popen(["sleep", "30"])
    assert sleeper.pid in children(os.getpid())
    sleeper.kill()
    sleeper.wait()
    assert sleeper.pid not in children(os.getpid())


def test_the_first_child_is_the_oldest():
    code = "import subprocess,sys; subprocess.Popen(['sleep','9']); print(1,flush=True); input()"
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    parent.stdout.readline()
    child = first_child(parent.pid)
    assert children(parent.pid) == [child]
    os.kill(child, signal.SIGKILL)
    parent.communicate(b"\n")
    assert first_child(parent.pid) == 0


def test_what_the_engine_left_open_does_not_reach_containers(make_pod):
    from ..pods import container

    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    for runtime in ("crun", "apptainer", "native", "host"):
        pod = make_pod(container(script="ls -l /proc/self/fd"), runtime=runtime)
        pod.start(pass_fds=(write_end,)).wait()
        pipes = [line for line in pod.lines() if "pipe:" in line]
        assert len(pipes) <= 2, pod.lines()
    os.close(read_end)
    os.close(write_end)
