"""Seccomp profiles that pods name: found, checked, and put into the plan."""

from __future__ import annotations

import json

import pytest

from orlop.kubelet.planning.refusal import Refusal
from orlop.kubelet.planning.seccomp_profiles import planned_profile, profile_names, read_profiles

from ..objects import a_container, a_pod

PROFILE = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}


def local(name):
    return {"seccompProfile": {"type": "Localhost", "localhostProfile": name}}


def planned(pod, folder, place=0):
    return planned_profile(
        pod, pod["spec"]["containers"][place], read_profiles(folder, profile_names(pod))
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "seccomp/teams").mkdir(parents=True)
    (tmp_path / "seccomp/teams/strict.json").write_text(json.dumps(PROFILE))
    (tmp_path / "seccomp/broken.json").write_text("{")
    (tmp_path / "seccomp/list.json").write_text("[]")
    (tmp_path / "seccomp/wrong.json").write_text('{"defaultAction": "ALLOW"}')
    (tmp_path / "secret.json").write_text(json.dumps(PROFILE))
    return tmp_path / "seccomp"


def test_the_containers_own_counts_more_than_the_pods(folder):
    own, default = a_container(securityContext=local("teams/strict.json")), a_container("b")
    pod = a_pod(own, default, securityContext={"seccompProfile": {"type": "RuntimeDefault"}})
    assert planned(pod, folder) == {"seccomp": {"profile": PROFILE}}
    assert planned(pod, folder, 1) == {"seccomp": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize("context", [{}, {"seccompProfile": {"type": "Unconfined"}}])
def test_who_asks_for_none_has_none(folder, context):
    assert planned(a_pod(a_container(securityContext=context)), folder) == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere.json", "nowhere.json: No such file or directory"),
        ("broken.json", "it is no JSON"),
        ("list.json", "expected a JSON object"),
        ("wrong.json", "defaultAction: expected one of"),
        ("../secret.json", "expected a path within the folder"),
        ("/etc/passwd", "expected a path within the folder"),
        ("teams", "Is a directory"),
    ],
)
def test_a_profile_that_cannot_be_had_is_told_on_the_container(folder, name, words):
    with pytest.raises(Refusal, match="cannot load seccomp profile") as refusal:
        planned(a_pod(a_container(securityContext=local(name))), folder)
    assert words in refusal.value.message
    assert refusal.value.reason == "CreateContainerError"
