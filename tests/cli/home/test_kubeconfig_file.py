from __future__ import annotations

import base64

import pytest
import yaml

from orlop.cli.home import kubeconfig_file
from orlop.errors import ConfigError


def ours(name: str = "orlop", url: str = "https://10.0.0.1:6443"):
    return kubeconfig_file.document(name, url, b"CA", b"CRT", b"KEY")


def test_everything_is_in_the_file_itself():
    document = yaml.safe_load(kubeconfig_file.dumped(ours()))
    (cluster,) = document["clusters"]
    (user,) = document["users"]
    assert cluster["cluster"]["server"] == "https://10.0.0.1:6443"
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"CA"
    assert base64.b64decode(user["user"]["client-key-data"]) == b"KEY"
    assert document["current-context"] == document["contexts"][0]["name"] == "orlop"


def test_merging_keeps_what_is_there_and_switches_to_ours():
    theirs = ours("work", "https://work")
    theirs["contexts"][0]["context"]["namespace"] = "mine"
    merged = kubeconfig_file.merged(theirs, ours())
    assert [entry["name"] for entry in merged["contexts"]] == ["work", "orlop"]
    assert merged["contexts"][0]["context"]["namespace"] == "mine"
    assert merged["current-context"] == "orlop"


def test_merging_again_replaces_ours():
    once = kubeconfig_file.merged({}, ours(url="https://old"))
    twice = kubeconfig_file.merged(once, ours(url="https://new"))
    assert [entry["cluster"]["server"] for entry in twice["clusters"]] == ["https://new"]


@pytest.mark.parametrize("text", ["", "clusters:\nusers:\ncontexts:\n"])
def test_an_empty_file_can_be_merged_into(tmp_path, text):
    (tmp_path / "config").write_text(text)
    theirs = kubeconfig_file.loaded(tmp_path / "config")
    assert len(kubeconfig_file.merged(theirs, ours())["users"]) == 1


def test_no_file_is_an_empty_one(tmp_path):
    assert kubeconfig_file.loaded(tmp_path / "none") == {}


@pytest.mark.parametrize("text", ["a: [", "- a", "words"])
def test_what_is_no_kubeconfig_is_said_and_not_overwritten(tmp_path, text):
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError, match="no kubeconfig"):
        kubeconfig_file.loaded(tmp_path / "config")
