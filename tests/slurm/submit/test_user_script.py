"""A user's script: what of it is for sbatch, and what sbatch is given in its place."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from orlop.errors import ConfigError
from orlop.slurm.submit import user_script

SCRIPT = """\
#!/usr/bin/env python3
# A comment.
#SBATCH --time=1:00:00 --nodes 2
#SBATCH -n4 -J "my job"   # with a comment
#SBATCH --exclusive
##SBATCH --mem=1
#SBATCH --wait

print("hello")
#SBATCH --qos=ignored
"""


def test_the_lines_before_the_first_command_are_for_sbatch() -> None:
    header = user_script.header(SCRIPT)
    assert header.options == {
        "time": "1:00:00",
        "nodes": "2",
        "ntasks": "4",
        "job-name": "my job",
        "exclusive": None,
    }
    assert len(header.lines) == 3


def test_a_line_that_would_have_sbatch_wait_is_left_out() -> None:
    assert not any("--wait" in line for line in user_script.header(SCRIPT).lines)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"time": 5}, {"time": "5"}),
        ({"exclusive": ""}, {"exclusive": None}),
        ({"hold": "true"}, {"hold": None}),
        ({"hold": "false"}, {}),
        ({"gres": "gpu:2"}, {"gres": "gpu:2"}),
    ],
    ids=["number", "empty", "true", "false", "value"],
)
def test_options_of_an_object(given: dict[str, object], expected: object) -> None:
    assert user_script.from_map(given) == expected


@pytest.mark.parametrize(
    "words", [["--wrap=ls"], ["-W"], ["-M", "other"], ["script.sh"], ["-?"], ["--uid=0"], ["-N"]]
)
def test_flags_that_cannot_be_used_are_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="flags"):
        user_script.from_words(words, "flags")


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        ("0-3", [0, 1, 2, 3]),
        ("0-15:4,20%2", [0, 4, 8, 12, 20]),
        ("7", [7]),
        ("1,3,3", [1, 3]),
    ],
)
def test_the_tasks_of_an_array(array: str, expected: list[int]) -> None:
    assert user_script.tasks(array) == expected


@pytest.mark.parametrize("array", ["x", "1-", "0-4:0", ""])
def test_an_array_that_cannot_be_read_is_refused(array: str) -> None:
    with pytest.raises(ConfigError, match="array"):
        user_script.tasks(array)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("slurm-%j.out", "slurm-17.out"),
        ("%A_%a.out", "17_3.out"),
        ("%x-%4a.log", "train-0003.log"),
        ("100%%", "100%"),
        ("raw\\%j", "raw%j"),
        ("%N/%u", "n1/ann"),
        (f"%{'0' * 5000}j", "0000000017"),
    ],
)
def test_names_of_output_files(template: str, expected: str) -> None:
    facts = {"j": "17", "A": "17", "a": "3", "x": "train", "N": "n1", "u": "ann"}
    assert user_script.output_file(template, facts) == expected


def test_what_sbatch_is_given_runs_the_script_with_its_variables(tmp_path: Path) -> None:
    """By a real shell, with a value that would break a careless one."""
    value = "it's $HOME `ls`\nand \\ more\""
    program, environment, script = tmp_path / "script", tmp_path / "env", tmp_path / "job.sh"
    text = 'import os, sys\nprint(os.environ["VALUE"], sys.argv[1:])\nsys.exit(3)\n'
    program.write_text(user_script.program(f"#!/usr/bin/env python3\n{text}", ()))
    program.chmod(0o700)
    environment.write_text(user_script.variables({"VALUE": value}))
    script.write_text(user_script.wrapper(["#SBATCH --time=5"], str(program), str(environment)))
    ran = subprocess.run(
        ["bash", str(script), "a b"], capture_output=True, text=True, env=dict(os.environ)
    )
    assert (ran.returncode, ran.stdout) == (3, f"{value} ['a b']\n")
    assert value not in script.read_text()


def test_a_command_needs_no_shell(tmp_path: Path) -> None:
    program = tmp_path / "script"
    program.write_text(user_script.program("", ["printf", "%s", "a  $b 'c'"]))
    program.chmod(0o700)
    assert subprocess.run([program], capture_output=True, text=True).stdout == "a  $b 'c'"


def test_a_script_without_a_first_line_is_a_shells() -> None:
    assert user_script.program("echo hi\n", ()).startswith("#!/bin/sh\necho hi")


def test_a_variable_that_no_shell_can_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'a\.b' is no name"):
        user_script.variables({"a.b": "1"})


def test_variables_of_a_shell_are_read_as_they_were() -> None:
    data = b"A=1\0BASH_FUNC_f%%=() {  :\n}\0B=x=y\0odd=\xff\0nothing\0"
    found = user_script.exported(data)
    assert list(found) == ["A", "BASH_FUNC_f%%", "B", "odd"]
    assert found["B"] == "x=y"
    assert found["odd"].encode(errors="surrogateescape") == b"\xff"


@pytest.mark.parametrize(
    ("script", "words"),
    [("", "is empty!"), ("true\n", "first line"), ("#!x\0", "null"), ("#!x\r\n", "DOS")],
)
def test_what_sbatch_would_not_send_is_refused(script: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        user_script.check(script, "job.sh")


@pytest.mark.parametrize(
    "array",
    [
        *("0-4294967294", "0-4294967294:4,20%2", ",".join(["0-99999"] * 20)),
        *("9" * 5000, "1-2:" + "9" * 99),
    ],
)
def test_an_array_beyond_reason_is_refused_at_once(array):
    """Whoever may make a SlurmJob may write such a one."""
    began = time.process_time()
    with pytest.raises(ConfigError, match="array"):
        user_script.tasks(array)
    assert time.process_time() - began < 1.0


def test_very_many_flags_are_read_at_once():
    began = time.process_time()
    for text in ("-" + "H" * 50_000, "-H " * 50_000):
        assert user_script.header(f"#!/bin/sh\n#SBATCH {text}\n").options == {"hold": None}
    assert time.process_time() - began < 3
