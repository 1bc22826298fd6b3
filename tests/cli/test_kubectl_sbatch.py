"""`kubectl slurm sbatch`: sbatch's command line, and the SlurmJob it becomes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from orlop.cli.kubectl_sbatch import manifest, split
from orlop.cli.kubectl_slurm import slurm
from orlop.errors import ConfigError

SCRIPT = "#!/bin/bash\n#SBATCH --time=5\necho hi\n"


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
        ("--follow --name=n job.sh", [], "job.sh", [], {"follow": "yes", "name": "n"}),
    ],
)
def test_a_command_line_is_taken_apart_as_sbatch_does(
    line: str, flags: list[str], script: str, arguments: list[str], own: dict[str, str]
) -> None:
    asked = split(line.split())
    found = (asked.flags, asked.script, asked.arguments, asked.own)
    assert found == (flags, script, arguments, own)


@pytest.mark.parametrize("words", [[], ["-n", "4"], ["--wrap"], ["--name"]])
def test_a_command_line_without_a_script_is_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="found none"):
        split(words)


def test_the_job_starts_and_prints_where_the_user_is(tmp_path: Path) -> None:
    (tmp_path / "Train_It.sh").write_text(SCRIPT)
    found = manifest(split(["-p", "long", "Train_It.sh", "a b"]), tmp_path)
    assert found["metadata"] == {"generateName": "train-it-sh-"}
    assert found["spec"] == {
        "script": SCRIPT,
        "options": {
            "job-name": "Train_It.sh",
            "chdir": str(tmp_path),
            "output": "slurm-%j.out",
        },
        "flags": ["-p", "long"],
        "args": ["a b"],
    }


def test_what_the_script_says_of_itself_holds(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH -J mine -D /scratch -o out.txt\ntrue\n"
    (tmp_path / "job.sh").write_text(text)
    found = manifest(split(["job.sh"]), tmp_path)
    assert found["spec"]["options"] == {}
    assert found["metadata"] == {"generateName": "mine-"}


def test_an_array_prints_to_a_file_a_task(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    found = manifest(split(["--array=0-3", "job.sh"]), tmp_path)
    assert found["spec"]["options"]["output"] == "slurm-%A_%a.out"


def test_a_command_may_be_wrapped(tmp_path: Path) -> None:
    found = manifest(split(["--wrap", "echo hi"]), tmp_path)
    assert found["spec"]["script"] == "#!/bin/sh\necho hi\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nosuch.sh"], "unable to open batch script"),
        (["text.txt"], "expected a first line"),
        (["-M", "other", "job.sh"], "--clusters cannot be used"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, words: list[str], expected: str) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    (tmp_path / "text.txt").write_text("no script\n")
    with pytest.raises(ConfigError, match=expected):
        manifest(split(words), tmp_path)


def test_a_dry_run_prints_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(slurm, ["sbatch", "--dry-run", "-n", "4", "job.sh"])
    assert result.exit_code == 0
    assert "kind: SlurmJob" in result.output


def test_help_says_what_is_sbatchs_and_what_is_ours() -> None:
    result = CliRunner().invoke(slurm, ["sbatch", "--help"])
    assert "--follow" in result.output
    assert "-n is sbatch's --ntasks here" in result.output
