"""sbatch's command line, and the SlurmJob it becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from orlop.api.objects import Obj
from orlop.cli.kubectl_plugin import sbatch_line
from orlop.cli.kubectl_plugin.sbatch_line import depends, split, taken_along
from orlop.errors import ConfigError

SCRIPT = "#!/bin/bash\n#SBATCH --time=5\necho hi\n"


def manifest(words: list[str], folder: Path, incoming: bytes = b"") -> Obj:
    numbers, defaults = {"17": "prepare"}, {"account": "mine"}
    asked = split(words)
    return sbatch_line.manifest(asked, folder, lambda: incoming, lambda: numbers, defaults)


@pytest.mark.parametrize(
    ("line", "flags", "script", "arguments", "own"),
    [
        ("job.sh", [], "job.sh", [], {}),
        ("job.sh -n 4", [], "job.sh", ["-n", "4"], {}),
        ("-n 4 job.sh a", ["-n", "4"], "job.sh", ["a"], {}),
        ("-n4 -H job.sh", ["-n4", "-H"], "job.sh", [], {}),
        ("--exclusive job.sh", ["--exclusive"], "job.sh", [], {}),
        ("--time 5 --mem=1G job.sh", ["--time", "5", "--mem=1G"], "job.sh", [], {}),
        ("--namespace x --wait job.sh", [], "job.sh", [], {"namespace": "x", "wait": "yes"}),
        ("-W job.sh", [], "job.sh", [], {"wait": "yes"}),
        ("--parsable job.sh", [], "job.sh", [], {"parsable": "yes"}),
        ("-n 4", ["-n", "4"], "", [], {}),
        ("--follow --name=n job.sh", [], "job.sh", [], {"follow": "yes", "name": "n"}),
    ],
)
def test_a_command_line_is_taken_apart_as_sbatch_does(
    line: str, flags: list[str], script: str, arguments: list[str], own: dict[str, str]
) -> None:
    asked = split(line.split())
    found = (asked.flags, asked.script, asked.arguments, asked.own)
    assert found == (flags, script, arguments, own)


@pytest.mark.parametrize("words", [["-n"], ["--wrap"], ["--name"], ["--time"]])
def test_an_option_without_its_value_is_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="found none"):
        split(words)


def test_the_job_starts_and_prints_where_the_user_is(tmp_path: Path) -> None:
    (tmp_path / "Train_It.sh").write_text(SCRIPT)
    found = manifest(["-p", "long", "Train_It.sh", "a b"], tmp_path)
    assert found["metadata"] == {"generateName": "train-it-sh-"}
    assert found["spec"] == {
        "script": SCRIPT,
        "options": {
            "account": "mine",
            "job-name": "Train_It.sh",
            "output": "slurm-%j.out",
        },
        "workingDirectory": str(tmp_path),
        "flags": ["-p", "long"],
        "args": ["a b"],
    }


def test_what_the_script_says_of_itself_holds(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH -J mine -D /scratch -o out.txt\ntrue\n"
    (tmp_path / "job.sh").write_text(text)
    found = manifest(["job.sh"], tmp_path)
    assert (found["spec"]["options"], found["spec"]["workingDirectory"]) == (
        {"account": "mine"},
        "/scratch",
    )
    assert found["metadata"] == {"generateName": "mine-"}


def test_the_users_variables_are_between_the_script_and_the_command_line(tmp_path: Path) -> None:
    text = b"#!/bin/sh\n#SBATCH --account=other\n"
    assert manifest([], tmp_path, text)["spec"]["options"]["account"] == "mine"
    assert "account" not in manifest(["-A", "third"], tmp_path, text)["spec"]["options"]


SHELL = {"PATH": "/bin", "WORD": "a b", "SLURM_JOB_ID": "7", "BASH_FUNC_module%%": "() { :; }"}


@pytest.mark.parametrize(
    ("export", "names"),
    [
        ([], {"PATH", "WORD", "BASH_FUNC_module%%"}),
        (["--export=ALL,NEW=1"], {"PATH", "WORD", "BASH_FUNC_module%%"}),
        (["--export=all,NEW=1"], {"PATH", "WORD", "BASH_FUNC_module%%"}),
        (["--export=WORD,NEW=1"], {"WORD"}),
        (["--export=OTHER"], set()),
        (["--export", "NONE"], None),
        (["--export", "none"], None),
    ],
    ids=["default", "all", "small", "some", "unset", "none", "small none"],
)
def test_a_shells_variables_come_along_as_export_says(
    tmp_path: Path, export: list[str], names: set[str] | None
) -> None:
    """None: sbatch looks at no shell, and there is none to keep for it."""
    spec = manifest(export, tmp_path, SCRIPT.encode())["spec"]
    header = f"#!/bin/sh\n#SBATCH {' '.join(export)}\n" if export else SCRIPT
    for found in (taken_along(spec, SHELL), taken_along({"script": header}, SHELL)):
        assert (found if found is None else set(found)) == names


def test_what_the_user_keeps_in_a_variable_is_stronger_than_the_script(tmp_path: Path) -> None:
    text = b"#!/bin/sh\n#SBATCH --export=ALL\n"
    defaults = {"export": "WORD"}
    made = sbatch_line.manifest(split([]), tmp_path, lambda: text, dict, defaults)
    assert taken_along(made["spec"], SHELL) == {"WORD": "a b"}


def test_an_array_prints_to_a_file_a_task(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    found = manifest(["--array=0-3", "job.sh"], tmp_path)
    assert found["spec"]["options"]["output"] == "slurm-%A_%a.out"


def test_a_command_may_be_wrapped(tmp_path: Path) -> None:
    found = manifest(["--wrap", "echo hi"], tmp_path)
    assert found["spec"]["script"].startswith("#!/bin/sh\n")
    assert found["spec"]["script"].endswith("\necho hi\n")
    with pytest.raises(ConfigError, match="script arguments not permitted"):
        manifest(["--wrap", "echo hi", "more"], tmp_path)


def test_a_script_may_come_in(tmp_path: Path) -> None:
    found = manifest(["-n", "4"], tmp_path, SCRIPT.encode())
    assert found["spec"]["script"] == SCRIPT
    assert found["spec"]["options"]["job-name"] == "sbatch"


def test_a_relative_folder_begins_where_the_user_is(tmp_path: Path) -> None:
    found = manifest(["-D", "sub"], tmp_path, SCRIPT.encode())
    assert found["spec"]["workingDirectory"] == str(tmp_path / "sub")


@pytest.mark.parametrize(
    ("text", "named", "rest"),
    [
        ("afterok:18", [], "afterok:18"),
        ("afterok:17", ["afterok prepare"], ""),
        ("afterok:train", ["afterok train"], ""),
        ("afterok:17:18_3,afterany:x", ["afterok prepare", "afterany x"], "afterok:18_3"),
        ("singleton,after:20+5", [], "singleton,after:20+5"),
        ("afterok:18?afterok:19", [], "afterok:18?afterok:19"),
    ],
)
def test_a_dependency_is_on_slurmjobs_where_it_can(text: str, named: list[str], rest: str) -> None:
    found, left = depends(text, {"17": "prepare"})
    assert [f"{one['condition']} {one['name']}" for one in found] == named
    assert left == rest


@pytest.mark.parametrize("text", ["afterok:train?afterok:18", "expand:train", "after:train+5"])
def test_what_slurm_alone_could_wait_for_needs_its_numbers(text: str) -> None:
    with pytest.raises(ConfigError, match=r"one of several|expected one of|minutes"):
        depends(text, {})


def test_what_the_object_waits_for_is_not_said_to_sbatch(tmp_path: Path) -> None:
    found = manifest(["-d", "afterok:17:18", "-n4"], tmp_path, SCRIPT.encode())
    assert found["spec"]["dependencies"] == [{"name": "prepare", "condition": "afterok"}]
    assert found["spec"]["flags"] == ["--ntasks=4", "--dependency=afterok:18"]
    alone = manifest(["-d", "afterok:17"], tmp_path, SCRIPT.encode())
    assert "flags" not in alone["spec"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nosuch.sh"], "unable to open file"),
        (["text.txt"], "first line must start with #!"),
        (["dos.sh"], "DOS line breaks"),
        (["zero.sh"], "null character"),
        (["image.sif"], "found bytes"),
        ([], "standard input: batch script is empty!"),
        (["-M", "other", "job.sh"], "--clusters cannot be used"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, words: list[str], expected: str) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    (tmp_path / "text.txt").write_text("no script\n")
    (tmp_path / "dos.sh").write_bytes(b"#!/bin/sh\r\ntrue\r\n")
    (tmp_path / "zero.sh").write_bytes(b"#!/bin/sh\n\0")
    (tmp_path / "image.sif").write_bytes(b"#!\xff")
    with pytest.raises(ConfigError, match=expected):
        manifest(words, tmp_path)
