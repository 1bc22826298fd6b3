"""The program that becomes another: run for real, on this machine's architecture and by qemu."""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess

import pytest

from orlop.agent.container.runtimes.stub import RECORD, Program

QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
MACHINES = [platform.machine()] + (["aarch64"] if QEMU and platform.machine() != "aarch64" else [])
CREATE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
CWD, EXEC = 5, 6


@pytest.fixture(params=MACHINES)
def run(request, tmp_path):
    """Runs a program that ends by becoming `paths`; what it printed, and what it reported."""
    prefix = [] if request.param == platform.machine() else [QEMU]

    def run(paths, argv, env=(), cwd="/"):
        made = Program(request.param)
        status = made.call("openat", -100, made.string(str(tmp_path / "status")), CREATE, 0o600)
        made.report_to(status)
        made.call("chdir", made.string(cwd), step=CWD)
        made.become(list(paths), list(argv), list(env), step=EXEC)
        program = tmp_path / "program"
        program.write_bytes(made.elf())
        program.chmod(0o755)
        done = subprocess.run([*prefix, program], capture_output=True, check=False, env={"L": "1"})
        report = (tmp_path / "status").read_bytes()
        return done.returncode, done.stdout, RECORD.unpack(report) if report else None

    return run


def test_it_becomes_the_program_with_these_arguments(run):
    words = ["two words", "$HOME", "", "new\nline", "grüße"]
    code, out, report = run(["/bin/sh"], ["sh", "-c", 'printf "%s|" "$@"; exit 9', "sh", *words])
    assert (code, report) == (9, None)
    assert out.decode() == "".join(word + "|" for word in words)


def test_it_has_these_variables_and_no_others(run):
    env = ["A=1\n2", "my.name=x", "EMPTY="]
    _, out, _ = run(["/bin/cat"], ["cat", "/proc/self/environ"], env)
    assert out.decode().split("\0")[:-1] == env


def test_paths_are_tried_in_turn(run):
    code, _, _ = run(["/nowhere/sh", "/etc/no/sh", "/bin/sh"], ["sh", "-c", "exit 4"])
    assert code == 4


def test_the_working_directory_is_set(run):
    assert run(["/bin/pwd"], ["pwd"], cwd="/usr/bin")[1] == b"/usr/bin\n"


@pytest.mark.parametrize(
    ("paths", "cwd", "report"),
    [
        (["/nowhere"], "/", (EXEC, -2)),
        (["/nowhere", "/etc/passwd", "/nothing"], "/", (EXEC, -13)),
        ([], "/", (EXEC, -2)),
        (["/bin/sh"], "/nowhere", (CWD, -2)),
        (["/bin/sh"], "/etc/passwd", (CWD, -20)),
    ],
    ids=["missing", "not executable", "no path", "no folder", "not a folder"],
)
def test_what_fails_is_reported_and_the_end(run, paths, cwd, report):
    assert run(paths, ["sh", "-c", "exit 0"], cwd=cwd) == (127, b"", report)


def test_the_report_is_not_open_in_what_it_becomes(run):
    _, out, _ = run(["/bin/ls"], ["ls", "/proc/self/fd"])
    assert b"status" not in out
    assert len(out.split()) <= 4


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_file_is_a_static_program_of_its_machine(machine):
    made = Program(machine)
    made.become(["/bin/true"], ["true"], [], step=1)
    elf = made.elf()
    kind, number = struct.unpack_from("<HH", elf, 16)
    assert elf[:5] == b"\x7fELF\x02"
    assert (kind, number) == (2, {"x86_64": 62, "aarch64": 183}[machine])
