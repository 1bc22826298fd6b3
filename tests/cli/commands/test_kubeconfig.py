from __future__ import annotations

import stat
import subprocess

import pytest
import yaml

from orlop.cli.home import kubeconfig_file
from orlop.cli.main import orlop


@pytest.fixture
def user_home(tmp_path, environment, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_path_is_all_it_prints(home, environment, runner):
    assert runner.invoke(orlop, ["kubeconfig"]).output == f"{home.paths.kubeconfig}\n"


def test_before_the_first_up_it_says_what_makes_it(empty_home, runner):
    said = runner.invoke(orlop, ["kubeconfig"])
    assert said.exit_code == 1
    assert "orlop up" in said.output


def test_raw_prints_a_file_that_kubectl_takes(home, environment, runner, tmp_path):
    (tmp_path / "copy").write_text(runner.invoke(orlop, ["kubeconfig", "--raw"]).output)
    command = ["kubectl", "--kubeconfig", tmp_path / "copy", "get", "namespaces", "-o", "name"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "namespace/default" in answer.stdout


def test_merging_makes_the_users_own_file(user_home, runner):
    said = runner.invoke(orlop, ["kubeconfig", "--merge"])
    config = user_home / ".kube" / "config"
    assert str(config) in said.output
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert yaml.safe_load(config.read_text())["current-context"] == "orlop"


def test_merging_keeps_a_copy_of_the_file_of_before(user_home, runner):
    theirs = kubeconfig_file.dumped(kubeconfig_file.document("work", "https://w", b"", b"", b""))
    (user_home / ".kube").mkdir()
    (user_home / ".kube" / "config").write_text(theirs)
    runner.invoke(orlop, ["kubeconfig", "--merge"])
    merged = yaml.safe_load((user_home / ".kube" / "config").read_text())
    assert [entry["name"] for entry in merged["contexts"]] == ["work", "orlop"]
    assert (user_home / ".kube" / "config.before-orlop").read_text() == theirs


def test_another_user_has_no_rights_until_given_some(home, environment, runner, tmp_path):
    said = runner.invoke(orlop, ["kubeconfig", "--user", "alice", "--group", "readers"])
    (tmp_path / "alice").write_text(said.output)
    kubectl = ["kubectl", "--kubeconfig", tmp_path / "alice"]
    who = subprocess.run([*kubectl, "auth", "whoami"], capture_output=True, text=True)
    assert "alice" in who.stdout
    assert "readers" in who.stdout
    denied = subprocess.run([*kubectl, "get", "nodes"], capture_output=True, text=True)
    assert denied.returncode != 0
    assert "Forbidden" in denied.stderr
