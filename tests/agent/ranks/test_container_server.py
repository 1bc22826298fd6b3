"""The door of a node: what ranks are given, without a sandbox and with what the kernel allows."""

from __future__ import annotations

import os
import platform
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from orlop.agent.ranks import container_server as doors
from orlop.agent.ranks.container_server import tasks_on
from orlop.agent.ranks.node_main import _lives
from orlop.agent.ranks.starter import RUN, TERMINAL_ENV, main

from .conftest import TOLD, serve


@pytest.mark.parametrize(
    ("text", "node", "expected"),
    [("8(x2)", 1, 8), ("8(x2),4", 2, 4), ("3,1", 1, 1), ("1", 0, 1), ("1", 5, 0)],
)
def test_how_many_ranks_a_node_has(text, node, expected):
    assert tasks_on(text, node) == expected


def test_only_the_outermost_of_the_folders_of_pmi_are_shown(tmp_path):
    inner = tmp_path / "pmix.1.0" / "store"
    inner.mkdir(parents=True)
    found = doors._outermost([f"{tmp_path}/pmix.1.0/", str(inner), "/not/there"])
    assert found == [str(tmp_path / "pmix.1.0")]


def test_the_program_that_waits_removes_itself_and_ends_by_a_signal(tmp_path, monkeypatch):
    path = tmp_path / "hold"
    monkeypatch.setattr(doors, "HOLD", str(path))
    path.write_bytes(doors._hold(platform.machine()).elf())
    path.chmod(0o755)
    with subprocess.Popen([path]) as child:
        while path.exists():
            assert child.poll() is None
        child.terminate()
    assert child.returncode == -15


def test_ranks_become_the_command_with_what_slurm_tells_them(start, opened):
    script = 'echo $SLURM_PROCID $PMI_FD $A $HOSTNAME "$SECRET_OF_THE_JOB" $(pwd)'
    door = opened(["sh", "-c", script], env=[["A", "1"]], cwd="/usr")
    ranks = [start(rank) for rank in (0, 1)]
    serve(door, lambda: door.is_full and not door.lines())
    assert [one.communicate()[0] for one in ranks] == [b"0 7 1 n1  /usr\n", b"1 7 1 n1  /usr\n"]
    assert (door.step, door.expected, door.error) == ("5.0", 2, "")


@pytest.fixture
def terminal():
    ours, theirs = os.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def test_the_first_rank_alone_has_the_terminal_and_its_own_session(tmp_path, opened, terminal):
    ours, theirs = terminal
    script = (
        "test -t 0 && test -t 2 && : < /dev/tty && echo $SLURM_PROCID has it && exit 3; echo no"
    )
    door = opened(["sh", "-c", script], terminal=theirs)
    ranks = [started_by_python(tmp_path, rank) for rank in (0, 1)]
    serve(door, lambda: door.is_full and not door.lines())
    assert [one.communicate()[0] for one in ranks] == [b"", b"no\n"]
    assert os.read(ours, 100) == b"0 has it\r\n"
    assert ranks[0].returncode == 3


def test_a_signal_of_slurms_ends_the_rank_and_what_stands_before_it(tmp_path, opened, terminal):
    door = opened(["sh", "-c", "echo begun; exec sleep 60"], terminal=terminal[1])
    rank = started_by_python(tmp_path, 0)
    serve(door, lambda: door.runs(0))
    assert os.read(terminal[0], 100) == b"begun\r\n"
    assert door.pids[0] != rank.pid
    for pid in (rank.pid, door.pids[0]):  # Slurm sends it to all processes of a step
        os.kill(pid, signal.SIGTERM)
    rank.communicate()
    assert rank.returncode == -signal.SIGTERM


def test_a_first_rank_on_another_node_than_the_terminal_does_without(tmp_path, opened):
    door = opened(["sh", "-c", "test -t 0 || echo none"])
    rank = started_by_python(tmp_path, 0)
    serve(door, lambda: door.runs(0))
    assert rank.communicate()[0] == b"none\n"


def started_by_python(folder, rank):
    env = {**TOLD, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), TERMINAL_ENV: "1"}
    words = ["agent.pyz", "rank", str(folder / "m"), str(folder)]
    line = f"import sys; from orlop.agent.ranks.starter import main; sys.exit(main({words!r}))"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-c", line], env=env, **pipes)


def test_a_command_beside_a_rank_has_its_variables(start, opened):
    door = opened(["sh", "-c", "exec sleep 60"])
    rank = start(1)
    try:
        serve(door, lambda: door.runs(1))
        beside = start(0, "1", "sh", "-c", "echo beside $SLURM_PROCID; exit 4")
        serve(door, lambda: _said(beside))
        assert beside.communicate()[0] == b"beside 1\n"
        assert beside.returncode == 4
    finally:
        rank.kill()
        rank.communicate()


def test_a_rank_is_not_told_what_makes_one_its_user_to_slurm(start, opened):
    door = opened(["sh", "-c", "echo $SLURM_NTASKS; env | grep -c -e JWT -e SACK_KEY"])
    secrets = {"SLURM_JWT": "x", "SLURM_SACK_KEY": "y"}
    rank = start(1, SLURM_NTASKS="8", **secrets)
    serve(door, lambda: door.runs(1))
    assert rank.communicate()[0] == b"8\n0\n"


@pytest.mark.parametrize(("there", "at"), [("/usr", "/usr"), ("/no/such", "/")])
def test_a_task_of_a_call_of_srun_has_its_callers_command_variables_and_folder(
    start, opened, there, at
):
    door = opened(["not", "this"], env=[["A", "1"], ["B", "2"]])
    script = 'echo $A $B $SLURM_PROCID "$PMI_FD" "$1" $(pwd); env | grep -c ORLOP_'
    said = {"B": "said", "SLURM_PROCID": "9", "PMI_FD": "9"}
    told = {f"ORLOP_SAID_{name}": text for name, text in said.items()}
    words = [f".{word}" for word in ("sh", "-c", script, "sh", ":")]
    task = start(1, RUN, *words, ORLOP_CWD=there, **told)
    serve(door, lambda: door.runs(1))
    assert task.communicate()[0].decode() == f"1 said 1 7 : {at}\n0\n"


def test_what_launches_ranks_itself_is_told_what_the_batch_script_is(start, opened):
    door = opened(["sh", "-c", 'echo $SLURM_NTASKS "$PMI_FD" "$SLURM_STEP_ID"'])
    door._own_env = {"SLURM_NTASKS": "8"}
    rank = start(0)
    serve(door, lambda: door.runs(0))
    assert rank.communicate()[0] == b"8  \n"


def test_without_a_container_nobody_is_in_it(opened):
    assert not opened(["true"]).holds(os.getpid())


def _said(child):
    return select.select([child.stdout], [], [], 0.05)[0]


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        (["nosuch"], "/", 'exec: "nosuch": executable file not found in $PATH'),
        (["/no/such"], "/", 'exec: "/no/such": no such file or directory'),
        (["true"], "/no/folder", 'chdir to cwd ("/no/folder")'),
    ],
)
def test_a_rank_that_cannot_be_says_why(start, opened, argv, cwd, words):
    door = opened(argv, cwd=cwd)
    rank = start(0)
    serve(door, lambda: bool(door.error))
    assert words in rank.communicate()[1].decode()
    assert rank.returncode == 127
    assert words in door.error
    assert not door.runs(0)


def test_an_image_needs_user_namespaces(tmp_path, start, opened):
    (tmp_path / "root").mkdir()
    door = opened(["true"], rootfs=str(tmp_path / "root"))
    rank = start(0)
    serve(door, lambda: bool(door.error) and not door.lines())
    assert b"cannot be had without user namespaces: denied" in rank.communicate()[1]


def test_a_rank_is_behind_the_filter_of_its_container(start, opened):
    calls = [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}]
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": calls}
    script = "grep Seccomp: /proc/self/status; mkdir /tmp/x"
    door = opened(["sh", "-c", script], seccomp={"profile": profile})
    rank = start(0)
    serve(door, lambda: door.runs(0))
    said, complained = rank.communicate()
    assert said.split() == [b"Seccomp:", b"2"]
    assert b"not supported" in complained


def test_the_folders_of_its_pmi_are_told_by_either_starter(tmp_path, start, opened):
    door = opened(["true"])
    heard = []
    make = door._make
    door._make = lambda hello: (heard.append(hello), make(hello))
    folders = {"PMIX_SERVER_TMPDIR": "/a", "PMIX_DSTORE_ESH_BASE_PATH": "/b", "PMIX_DSTORE_X": "/c"}
    rank = start(1, SLURM_NODEID="3", SLURM_STEP_TASKS_PER_NODE="1(x3),2", **folders)
    serve(door, lambda: door.runs(1))
    rank.communicate()
    assert [(one.rank, one.pid, one.step, one.node) for one in heard] == [(1, rank.pid, "5.0", 3)]
    assert (sorted(heard[0].folders), door.expected) == (["/a", "/b"], 2)


def test_a_door_of_somebody_else_is_not_entered(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    (tmp_path / "m-n1").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert main(["agent.pyz", "rank", str(tmp_path / "m"), str(tmp_path)]) == 127
    assert "belongs to somebody else" in capfd.readouterr().err


LISTENS = """
import os, socket, sys
os.setresuid(65534, 65534, 65534)
sock = socket.socket(socket.AF_UNIX)
sock.bind(sys.argv[1])
sock.listen()
print("ready", flush=True)
connection, _ = sock.accept()
print(connection.recv(9999), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("place", ["folder", "link"])
def test_who_is_somebody_else_behind_a_door_of_ours_hears_nothing(start, tmp_path, place):
    """The name of the door is on command lines; a link may lead to a folder that is ours."""
    tmp_path.chmod(0o777)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    folder = tmp_path / ("m-n1" if place == "folder" else "public")
    folder.mkdir()
    folder.chmod(0o777)
    if place == "link":
        (tmp_path / "m-n1").symlink_to(folder)
        os.lchown(tmp_path / "m-n1", 65534, 65534)
    argv = ["/usr/bin/python3", "-c", LISTENS, str(folder / "door")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"ready\n"
        rank = start(1)
        assert b"belongs to somebody else" in rank.communicate(timeout=30)[1]
        assert rank.returncode != 0
        stranger.kill()
        assert stranger.stdout.read() in (b"", b"b''\n")


def test_the_starter_imports_next_to_nothing():
    code = textwrap.dedent("""
        import sys
        before = set(sys.modules)
        import orlop.agent.ranks.starter
        heavy = {"json", "socket", "subprocess", "signal", "re", "dataclasses", "typing", "select"}
        print(sorted(heavy & (set(sys.modules) - before)))
    """)
    command = [sys.executable, "-I", "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_one_who_leaves_without_a_word_harms_nobody(start, opened, tmp_path):
    door = opened(["sh", "-c", "echo here"])
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.connect(str(tmp_path / "m-n1" / "door"))
    ranks = [start(rank) for rank in (0, 1)]
    serve(door, lambda: door.is_full and not door.lines())
    assert [one.communicate()[0] for one in ranks] == [b"here\n", b"here\n"]


def test_a_rank_whose_door_closes_before_it_is_told_says_so(start, tmp_path):
    meeting = tmp_path / "m-n1"
    meeting.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(meeting / "door"))
        listener.listen()
        rank = start(0)
        line, _ = listener.accept()
        line.recv(1)
        line.close()
        _, errors = rank.communicate(timeout=60)
    assert rank.returncode == 127
    assert errors.startswith(b"orlop agent: ")


# Its first thread ends and another lives on: what /proc shows while that becomes another program.
HEADLESS = """
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


def test_a_program_lives_as_long_as_any_of_its_threads():
    def state() -> str:
        return Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]

    with subprocess.Popen([sys.executable, "-c", HEADLESS]) as child:
        while state() != "Z":
            assert child.poll() is None
        assert not doors._has_ended(child.pid)
        assert _lives(child.pid)
        child.kill()
        while not doors._has_ended(child.pid):
            time.sleep(0.01)
        assert not _lives(child.pid)
