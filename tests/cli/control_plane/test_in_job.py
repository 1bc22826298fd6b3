from __future__ import annotations

import shlex

import pytest

from orlop.cli.control_plane import in_job
from orlop.errors import ConfigError
from orlop.settings import Paths, Settings, SlurmSettings
from orlop.slurm.translate.script import script


def job_script(tmp_path, **slurm):
    settings = Settings(slurm=SlurmSettings(**slurm))
    return script(in_job._job(Paths(tmp_path), settings, ["--engine=slurm"]))


def test_the_job_runs_this_installation_in_this_home(tmp_path):
    text = job_script(tmp_path)
    last = shlex.split(text.splitlines()[-1])
    assert last[0] == "exec"
    assert last[-3:] == ["serve", "--in-job", "--engine=slurm"]
    assert f"export ORLOP_HOME={tmp_path}" in text
    assert f"#SBATCH --output={tmp_path}/log/orlop.log" in text


def test_it_may_be_requeued_and_is_told_before_its_time_is_over(tmp_path):
    text = job_script(tmp_path)
    assert "#SBATCH --requeue" in text
    assert "#SBATCH --signal=B:TERM@60" in text


def test_its_comment_is_not_that_of_a_pod(tmp_path):
    (comment,) = [line for line in job_script(tmp_path).splitlines() if "--comment" in line]
    assert "orlop:" not in comment


def test_the_sites_settings_hold_for_it_too(tmp_path):
    text = job_script(tmp_path, partition="long", account="physics", prologue="module load python")
    assert "#SBATCH --partition=long" in text
    assert "#SBATCH --account=physics" in text
    assert text.index("module load python") < text.index("exec ")


def test_without_slurm_there_is_no_job(tmp_path):
    with pytest.raises(ConfigError, match="needs Slurm"):
        in_job.start(Paths(tmp_path), Settings(), "local", [], "")
