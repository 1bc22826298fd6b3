"""A pod's folder is for its owner alone, written whole, and removed whole."""

from __future__ import annotations

import fcntl
import hashlib
import hmac

import pytest

from orlop.api.objects import Key
from orlop.kubelet.pod.folder import PodFolder, agent_token, existing
from orlop.settings import Paths

from ..objects import UID, a_pod

PLAN = {
    "network": {"podIP": "10.244.0.7"},
    "initContainers": [{"name": "first", "image": "a", "imageID": "a@1"}],
    "containers": [{"name": "main", "image": "b", "imageID": "b@2", "env": [["A", "\udcff"]]}],
}


@pytest.fixture
def folder(tmp_path):
    return PodFolder.of(Paths(tmp_path), a_pod())


def test_a_folder_has_the_pods_names(folder, tmp_path):
    assert folder.path == tmp_path / "pods" / f"default_web_{UID}"


def test_everything_is_for_its_owner_alone(folder):
    folder.write(PLAN, "token")
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.path.iterdir()}
    assert modes == {"plan.json": 0o600, "token": 0o600, "logs": 0o700}
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert (folder.path / "token").read_text() == "token"


def test_it_may_be_written_again(folder):
    folder.write(PLAN, "one")
    folder.write(PLAN, "two")
    assert (folder.path / "token").read_text() == "two"


def test_a_plan_with_bytes_that_are_no_text_can_be_written_and_read(folder):
    folder.write(PLAN, "token")
    assert folder.planned() == ({"first": ("a", "a@1"), "main": ("b", "b@2")}, "10.244.0.7")


def test_without_a_plan_nothing_is_known_of_images(folder):
    assert folder.planned() == ({}, "")


def test_a_submission_counts_as_begun_once_there_is_a_plan_and_a_submit_file(folder):
    assert not folder.was_submitted
    folder.write(PLAN, "token")
    assert not folder.was_submitted
    (folder.path / "submit").touch()
    assert folder.was_submitted


def test_a_held_lock_means_that_somebody_is_submitting(folder):
    folder.write(PLAN, "token")
    assert not folder.is_being_submitted
    with (folder.path / "submit.lock").open("w") as lock:
        assert not folder.is_being_submitted
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert folder.is_being_submitted
    assert not folder.is_being_submitted


def test_the_last_lines_of_what_the_job_printed(folder):
    assert folder.output() == ""
    folder.write(PLAN, "token")
    lines = [f"line {n}" for n in range(1000)]
    (folder.path / "slurm.out").write_text("\n".join(lines) + "\n\n")
    assert folder.output().splitlines() == lines[-10:]


def test_what_was_told_is_remembered(folder):
    assert folder.told == 0
    folder.remember_told(3)  # a folder that is gone is no error
    folder.write(PLAN, "token")
    folder.remember_told(7)
    assert PodFolder(folder.path).told == 7


def test_a_folder_is_removed_with_all_in_it(folder):
    folder.write(PLAN, "token")
    (folder.path / "logs" / "main").mkdir()
    assert folder.remove()
    assert not folder.path.exists()
    assert folder.remove()


def test_folders_are_found_again_by_their_pods(tmp_path, folder):
    paths = Paths(tmp_path)
    assert existing(paths) == {}
    folder.write(PLAN, "token")
    (paths.pods / "something else").mkdir()
    [(uid, (key, found))] = existing(paths).items()
    assert (uid, key, found.path) == (UID, Key("default", "web"), folder.path)


def test_a_token_is_good_for_one_pod_alone():
    assert agent_token(b"k", "a") == hmac.new(b"k", b"a", hashlib.sha256).hexdigest()
    assert len({agent_token(b"k", "a"), agent_token(b"k", "b"), agent_token(b"l", "a")}) == 3
