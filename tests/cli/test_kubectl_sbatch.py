"""`kubectl slurm sbatch` as far as it goes without Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from orlop.cli.kubectl_sbatch import sbatch

SCRIPT = "#!/bin/bash\n#SBATCH --time=5\necho hi\n"


def test_a_dry_run_prints_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(sbatch, ["--dry-run", "-n", "4", "job.sh"])
    assert result.exit_code == 0
    assert "kind: SlurmJob" in result.output


def test_help_says_what_is_sbatchs_and_what_is_ours() -> None:
    result = CliRunner().invoke(sbatch, ["--help"])
    assert "--follow" in result.output
    assert "-n is sbatch's --ntasks here" in result.output
