"""Which engine is chosen, with small stand-ins for a Slurm that is absent, broken or well."""

from __future__ import annotations

import stat
import uuid

import pytest

from orlop.cli.control_plane import engines
from orlop.cli.home import record
from orlop.errors import ConfigError, EngineUnavailable
from orlop.settings import Paths, Settings

WELL = "#!/bin/sh\necho 'SLURM_VERSION = 22.05.8'\n"
UNCONFIGURED = (
    "#!/bin/sh\necho 'scontrol: fatal: Could not establish a configuration source' >&2\nexit 1\n"
)
SILENT = (
    "#!/bin/sh\n"
    "echo 'slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)' >&2\n"
    "exit 1\n"
)


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "run").mkdir()
    return Paths(tmp_path)


@pytest.fixture
def scontrol(tmp_path, monkeypatch):
    """Puts a scontrol of the given text on an otherwise empty PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()

    def install(text: str) -> None:
        program = tmp_path / "bin" / "scontrol"
        program.write_text(text)
        program.chmod(0o755)

    return install


@pytest.mark.parametrize(
    ("text", "expected"), [(WELL, "slurm"), (UNCONFIGURED, "local"), ("", "local")]
)
async def test_slurm_is_used_where_there_is_one(paths, scontrol, text, expected):
    if text:
        scontrol(text)
    assert await engines.chosen_engine(Settings(), paths) == expected


async def test_a_silent_slurm_is_no_reason_to_run_pods_on_a_login_node(paths, scontrol):
    scontrol(SILENT)
    with pytest.raises(EngineUnavailable) as caught:
        await engines.chosen_engine(Settings(), paths)
    assert "Unable to contact slurm controller" in str(caught.value)
    assert "--engine local" in str(caught.value)


async def test_the_engine_of_last_time_stays_even_while_it_is_silent(paths, scontrol):
    scontrol(SILENT)
    record.write(paths, record.mine(engine="slurm").stopped())
    assert await engines.chosen_engine(Settings(), paths) == "slurm"


async def test_what_is_asked_for_is_stronger_than_last_time(paths):
    record.write(paths, record.mine(engine="slurm").stopped())
    assert await engines.chosen_engine(Settings(engine="local"), paths) == "local"


@pytest.mark.parametrize("name", ["slurm", "local"])
def test_each_engine_is_made_for_this_cluster(paths, name):
    assert engines.engine_for(name, Settings(), paths).name == name


def test_an_unknown_engine_is_named_with_those_that_are_known(paths):
    with pytest.raises(ConfigError, match="`slurm` or `local`"):
        engines.engine_for("steam", Settings(), paths)


def test_the_clusters_uid_is_made_once_and_private(paths):
    assert engines.cluster_uid(paths) == ""
    first = engines.ensure_cluster_uid(paths)
    assert uuid.UUID(first)
    assert engines.ensure_cluster_uid(paths) == engines.cluster_uid(paths) == first
    assert stat.S_IMODE(paths.cluster_uid.stat().st_mode) == 0o600
