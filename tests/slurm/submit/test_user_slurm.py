"""From where jobs that are no pods are submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from orlop.slurm.submit.user_slurm import here


@pytest.mark.parametrize(
    ("name", "is_here"),
    [("folder", True), ("no such", False), ("run.sh", False), ("run.sh/below", False)],
)
def test_a_job_is_submitted_from_a_folder_only(tmp_path: Path, name: str, is_here: bool) -> None:
    """sbatch itself says what is wrong with another, or with one of the nodes alone."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "run.sh").touch(mode=0o755)
    assert here(tmp_path / name) == (tmp_path / name if is_here else None)
