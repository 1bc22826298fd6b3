"""Which runtimes a PATH offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from orlop.runtime import detect
from orlop.runtime.detect import Runtime, candidates, runtimes
from orlop.settings import AgentSettings


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def found(folder: Path, runtime: str = "") -> list[Runtime]:
    return runtimes(AgentSettings(path=str(folder), runtime=runtime))


def test_a_host_without_runtimes_has_none(tmp_path):
    assert found(tmp_path) == []


def test_those_there_are_come_in_the_agents_order(tmp_path):
    for name in reversed(detect.CANDIDATES):
        program(tmp_path, name, f"echo {name} version 1.2.3")
    assert [runtime.name for runtime in found(tmp_path)] == list(detect.CANDIDATES)


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ("echo crun version 1.8.1; echo commit: f8a0", "1.8.1"),
        ("echo apptainer version 1.4.5-1.el9", "1.4.5"),
        ("echo runc version 1.1.5+ds1", "1.1.5"),
        ("echo something else", ""),
        ("exit 1", ""),
    ],
)
def test_a_version_is_found_in_what_a_runtime_says(tmp_path, says, version):
    path = program(tmp_path, "crun", says)
    assert found(tmp_path) == [Runtime("crun", str(path), version)]


def test_a_runtime_that_hangs_is_there_but_does_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(detect, "_PATIENCE", 0.2)
    program(tmp_path, "crun", "exec sleep 30")
    assert [str(runtime) for runtime in found(tmp_path)] == ["crun"]


def test_the_settings_may_name_one_by_name_or_path(tmp_path):
    for name in ("crun", "apptainer"):
        program(tmp_path, name, "echo version 1.0")
    assert [runtime.name for runtime in found(tmp_path, "apptainer")] == ["apptainer"]
    other = tmp_path / "other"
    other.mkdir()
    path = program(other, "youki", "echo youki version 0.5.1")
    assert found(tmp_path, str(path)) == [Runtime("youki", str(path), "0.5.1")]
    assert candidates(AgentSettings(runtime="x")) == ["x"]


def test_the_machines_own_crun_tells_its_version():
    by_name = {runtime.name: runtime for runtime in runtimes(AgentSettings(path="/usr/bin"))}
    if "crun" not in by_name:
        pytest.skip("this machine has no crun")
    assert by_name["crun"].version
