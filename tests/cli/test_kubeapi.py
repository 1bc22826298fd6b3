from __future__ import annotations

import pytest

from orlop import pki
from orlop.cli.home import kubeconfig_file
from orlop.cli.kubeapi import KubeApi, default_config
from orlop.errors import ConfigError, Forbidden, NotFound, Unavailable


def test_lists_and_objects_are_read_with_the_kubeconfigs_credentials(home):
    api = KubeApi.at(home.paths.kubeconfig)
    names = {item["metadata"]["name"] for item in api.items("/api/v1/namespaces")}
    assert {"default", "kube-system"} <= names
    assert api.get("/api/v1/namespaces/default")["kind"] == "Namespace"
    assert api.namespace == "default"


def test_what_is_not_there_is_the_apis_own_error(home):
    with pytest.raises(NotFound, match='pods "gone" not found'):
        KubeApi.at(home.paths.kubeconfig).get("/api/v1/namespaces/default/pods/gone")


def test_a_user_who_may_not_is_told_so(home):
    ours = kubeconfig_file.loaded(home.paths.kubeconfig)
    made = pki.Pki(home.paths.pki)
    crt, key = made.issue("alice", ["readers"])
    url = ours["clusters"][0]["cluster"]["server"]
    theirs = kubeconfig_file.document("orlop", url, made.ca.read_bytes(), crt, key)
    with pytest.raises(Forbidden, match="alice"):
        KubeApi.of(theirs).get("/api/v1/nodes")


def test_silence_says_how_to_end_it(home):
    config = kubeconfig_file.loaded(home.paths.kubeconfig)
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    with pytest.raises(Unavailable, match="orlop up"):
        KubeApi.of(config).get("/version")


def test_plain_text_answers_are_messages(home):
    assert KubeApi.at(home.paths.kubeconfig).get("/readyz") == {"message": "ok"}


def test_credentials_may_also_be_in_files(home):
    made = pki.Pki(home.paths.pki)
    config = kubeconfig_file.loaded(home.paths.kubeconfig)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    del cluster["certificate-authority-data"]
    cluster["certificate-authority"] = str(made.ca)
    user.clear()
    user |= {"client-certificate": str(made.admin.crt), "client-key": str(made.admin.key)}
    assert KubeApi.of(config).items("/api/v1/namespaces")


def test_a_context_that_is_not_there_is_named_with_those_that_are(home):
    config = kubeconfig_file.loaded(home.paths.kubeconfig)
    with pytest.raises(ConfigError, match=r"no context 'work' \(it has: orlop\)"):
        KubeApi.of(config, "work")


def test_no_kubeconfig_at_all_says_what_to_set(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(ConfigError, match=r"KUBECONFIG=\$\(orlop kubeconfig\)"):
        KubeApi.of(default_config())


def test_several_kubeconfigs_are_one_and_the_first_wins(monkeypatch, tmp_path):
    for name, url in (("a", "https://a"), ("b", "https://b")):
        document = kubeconfig_file.document(name, url, b"", b"", b"")
        (tmp_path / name).write_text(kubeconfig_file.dumped(document))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/none:{tmp_path}/b")
    config = default_config()
    assert config["current-context"] == "a"
    assert [entry["name"] for entry in config["contexts"]] == ["a", "b"]
