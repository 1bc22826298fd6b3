"""The pod's folders on its node, and what is swept away there."""

from __future__ import annotations

import fcntl
import os
from types import SimpleNamespace

import pytest

from orlop.agent.pod.sandbox import Sandbox
from orlop.agent.pod.scratch_dirs import make_places, remove_places, sweep

OUTSIDE = Sandbox(1000, 1000, False, False, False, "denied")


@pytest.fixture
def plan(tmp_path):
    return SimpleNamespace(scratch=str(tmp_path), pod=SimpleNamespace(uid="u"))


def test_places_are_for_their_owner_alone(plan, tmp_path):
    places = make_places(plan, OUTSIDE)
    assert os.stat(places.scratch).st_mode & 0o777 == 0o700
    assert [entry.name for entry in tmp_path.iterdir()] == [os.path.basename(places.scratch)]


def test_two_agents_of_one_pod_have_places_of_their_own(plan):
    assert make_places(plan, OUTSIDE).scratch != make_places(plan, OUTSIDE).scratch


def test_places_are_removed_with_all_in_them(plan, tmp_path):
    places = make_places(plan, OUTSIDE)
    os.makedirs(os.path.join(places.disk, "a/b"))
    remove_places(places, OUTSIDE)
    assert list(tmp_path.iterdir()) == []


def test_scratch_is_where_the_job_has_its_temporary_files(plan, tmp_path, monkeypatch):
    plan.scratch = ""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert make_places(plan, OUTSIDE).base == str(tmp_path)


def test_a_sweep_removes_what_nobody_holds_and_nothing_else(plan, tmp_path):
    alive = make_places(plan, OUTSIDE).scratch
    for name in ("orlop-1000-dead-1/disk", "orlop-1001-anothers", "orlop-10000-x", "unrelated"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "orlop-1000-link").symlink_to(tmp_path / "unrelated")
    sweep(str(tmp_path), 1000)
    left = {entry.name for entry in tmp_path.iterdir()}
    kept = {"orlop-1001-anothers", "orlop-10000-x", "unrelated", "orlop-1000-link"}
    assert left == {os.path.basename(alive), *kept}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be two users")
def test_what_another_user_made_to_look_like_ours_is_not_entered(tmp_path):
    trap = tmp_path / "orlop-0-trap"
    trap.mkdir()
    os.chown(trap, 12345, 12345)
    sweep(str(tmp_path), 0)
    assert trap.exists()


def test_what_is_held_is_not_swept(tmp_path):
    held = tmp_path / "orlop-1000-held"
    held.mkdir()
    fd = os.open(held, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    sweep(str(tmp_path), 1000)
    assert held.exists()
    os.close(fd)
    sweep(str(tmp_path), 1000)
    assert not held.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be two users")
def test_where_anybody_could_exchange_our_folder_we_have_none(plan, tmp_path):
    os.chown(tmp_path, 12345, 12345)
    tmp_path.chmod(0o777)
    with pytest.raises(OSError, match=r"not safe.*agent\.scratch"):
        make_places(plan, OUTSIDE)
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o1777)
    assert make_places(plan, OUTSIDE).base == str(tmp_path)


def test_a_name_that_somebody_has_taken_is_not_ours(plan, tmp_path, monkeypatch):
    """They saw the folder being made, and were quicker than its last step."""
    words = iter([b"aaaa", b"bbbb"])
    monkeypatch.setattr(os, "urandom", lambda count: next(words))
    squatted = tmp_path / f"orlop-1000-u-{b'aaaa'.hex()}"
    (squatted / "theirs").mkdir(parents=True)
    places = make_places(plan, OUTSIDE)
    assert places.scratch.endswith(b"bbbb".hex())
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {squatted.name, os.path.basename(places.scratch)}
