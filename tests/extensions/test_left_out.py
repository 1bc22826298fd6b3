"""Each kind that is left out by configuration: none of its code is there, and others go on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from orlop.extensions.registry import ENTRIES

ROOT = Path(__file__).parents[2]
WITHOUT_SLURM = {
    "mpijob": ["mpi-job-controller"],
    "pytorchjob": ["pytorchjob-controller"],
    "jobset": ["jobset-controller"],
    "leaderworkerset": ["leaderworkerset-controller"],
    "podgroup": ["pod-group", "built-in-pod-group"],
}
ON_SLURM = ("slurmjob", "slurmsite", "wlmjob", "bridgejob")  # slurmjob/test_left_out_on_slurm.py


def definitions_of(folder: str) -> list[str]:
    entry = next(one for one in ENTRIES if one.package.endswith(f".{folder}"))
    return sorted(entry.definitions())


def control_plane(home: Path, *awaited: str) -> dict[str, list[str]]:
    arguments = [sys.executable, "-m", "tests.extensions.control_plane", str(home), *awaited]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="session")
def home_with_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which all kinds have been installed."""
    home = tmp_path_factory.mktemp("had") / "home"
    control_plane(home, *(name for names in WITHOUT_SLURM.values() for name in names))
    return home


def test_all_kinds_are_looked_at() -> None:
    folders = {entry.package.rpartition(".")[2] for entry in ENTRIES}
    assert folders == {*WITHOUT_SLURM, *ON_SLURM}


@pytest.mark.parametrize("is_new", [True, False], ids=["a new home", "a home that had it"])
@pytest.mark.parametrize("folder", [*WITHOUT_SLURM, *ON_SLURM])
def test_none_of_its_code_is_in_the_control_plane(
    tmp_path: Path, home_with_all: Path, folder: str, is_new: bool
) -> None:
    home = tmp_path / "home"
    home.mkdir() if is_new else shutil.copytree(home_with_all, home)
    settings = {"without_kinds": definitions_of(folder)}
    (home / "config.yaml").write_text(yaml.safe_dump(settings))
    others = [name for one, names in WITHOUT_SLURM.items() if one != folder for name in names]
    found = control_plane(home, *others)
    package = f"orlop.extensions.{folder}"
    assert [name for name in found["modules"] if f"{name}.".startswith(f"{package}.")] == []
    assert not set(WITHOUT_SLURM.get(folder, ())) & set(found["tasks"])
