from __future__ import annotations

from pathlib import Path

import pytest

from orlop.errors import ConfigError
from orlop.settings import Paths, Settings, home_from_env, load


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path)


@pytest.mark.parametrize("text", [None, "", "# nothing\n", "{}"])
def test_an_empty_home_has_every_default(paths, text):
    if text is not None:
        paths.config.write_text(text)
    assert load(paths) == Settings()


def test_the_file_is_laid_over_the_defaults_and_flags_over_the_file(paths):
    paths.config.write_text("port: 1\nslurm: {partition: gpu, account: physics}\n")
    settings = load(paths, {"port": 2, "slurm": {"account": "chemistry"}})
    assert (settings.port, settings.slurm.partition) == (2, "gpu")
    assert settings.slurm.account == "chemistry"
    assert settings.slurm.busy_tick == Settings().slurm.busy_tick


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prot: 1", "prot"),
        ("slurm: {partion: gpu}", "partion"),
        ("port: many", "port"),
        ("slurm: gpu", "slurm"),
        ("- a list", "mapping"),
        ("just words", "mapping"),
        ("a: [", "did not find expected"),
    ],
    ids=["unknown", "unknown in a section", "type", "section", "list", "text", "syntax"],
)
def test_a_wrong_setting_is_named_with_its_file_and_where_to_read_more(paths, text, expected):
    paths.config.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(paths)
    assert expected in str(caught.value)
    assert str(paths.config) in str(caught.value)
    assert "configuration.md" in str(caught.value)


def test_a_config_that_cannot_be_read_is_an_error_of_ours(paths):
    paths.config.mkdir()
    with pytest.raises(ConfigError, match="Is a directory"):
        load(paths)


def test_the_home_is_what_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert home_from_env({"ORLOP_HOME": "/scratch/me"}).home == Path("/scratch/me")
    assert home_from_env({"ORLOP_HOME": "here"}).home == tmp_path / "here"
    assert home_from_env({}).home == Path.home() / ".orlop"
    assert home_from_env({"ORLOP_HOME": ""}).home == Path.home() / ".orlop"


def test_every_path_is_inside_the_home(paths):
    properties = [name for name, value in vars(Paths).items() if isinstance(value, property)]
    assert len(properties) >= 12
    for name in properties:
        assert getattr(paths, name).is_relative_to(paths.home)
    assert paths.pod("ns", "web", "123") == paths.home / "pods" / "ns_web_123"
