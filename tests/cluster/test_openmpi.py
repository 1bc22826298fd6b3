"""Where Open MPI's programs are: of either release, and of this machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import openmpi


@pytest.mark.parametrize(
    ("installed", "started"),
    [
        (["orterun", "orted", "mpirun.openmpi"], ["orted"]),
        (["mpirun.openmpi", "prterun", "prted"], ["prterun", "prted"]),
    ],
    ids=["release 4", "release 5"],
)
def test_an_image_has_the_launcher_and_what_it_starts(
    tmp_path: Path, installed: list[str], started: list[str]
) -> None:
    for name in installed:
        (tmp_path / name).touch()
    found = openmpi.programs(tmp_path)
    assert found["/usr/bin/mpirun"] == tmp_path / installed[0]
    assert [*found][1:] == [f"/usr/bin/{name}" for name in started]


def test_without_one_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="apt-get install openmpi-bin"):
        openmpi.programs(tmp_path)


def test_this_machines_programs_are_there() -> None:
    assert all(path.exists() for path in openmpi.programs().values())
    assert all(path.suffix == ".conf" for path in openmpi.settings())
    assert openmpi.plugins()
