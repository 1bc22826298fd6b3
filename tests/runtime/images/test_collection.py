"""Images that nobody needs make room for others; those that somebody needs never do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from orlop.runtime.images import collection

KIB = 1024


def image(root: Path, name: str, size: int, age: float, *holders: Path) -> Path:
    """An unpacked image of that many bytes, last asked for `age` seconds ago."""
    (root / "tmp").mkdir(parents=True, exist_ok=True)
    folder = root / f"sha256-{name}"
    (folder / "rootfs").mkdir(parents=True)
    (folder / "image.json").write_text("{}")
    (folder / collection.SIZE_FILE).write_text(str(size))
    for holder in holders:
        collection.hold(root, folder.name, holder)
    uses = root / collection.USES / folder.name
    uses.mkdir(parents=True, exist_ok=True)
    then = time.time() - age
    os.utime(uses, (then, then))
    return folder


@pytest.fixture
def running(tmp_path: Path) -> Path:
    folder = tmp_path / "pods" / "default_web_1"
    folder.mkdir(parents=True)
    return folder


def test_nothing_goes_while_all_fits(tmp_path: Path):
    image(tmp_path, "a", 600, 9000)
    image(tmp_path, "b", 400, 9000)
    assert collection.collect(tmp_path, 1000) == []


def test_the_one_asked_for_longest_ago_goes_first_and_only_as_many_as_needed(tmp_path: Path):
    image(tmp_path, "new", 500, 1000)
    image(tmp_path, "old", 500, 9000)
    image(tmp_path, "older", 500, 99000)
    assert collection.collect(tmp_path, 1400) == ["sha256-older"]
    assert not (tmp_path / "sha256-older").exists()
    assert (tmp_path / "sha256-old").exists()


def test_a_fifth_of_the_limit_is_free_afterwards(tmp_path: Path):
    for number in range(11):
        image(tmp_path, f"{number:02}", 100, 9000 - number)
    assert len(collection.collect(tmp_path, 1000)) == 3


def test_an_image_of_a_pod_that_is_there_stays(tmp_path: Path, running: Path):
    image(tmp_path, "used", 2000, 99000, running)
    image(tmp_path, "unused", 10, 9000)
    assert collection.collect(tmp_path, 1000) == ["sha256-unused"]
    running.rmdir()
    assert collection.collect(tmp_path, 1000) == ["sha256-used"]
    assert list((tmp_path / collection.USES).iterdir()) == []


def test_a_hold_counts_before_its_pods_folder_is_there(tmp_path: Path):
    folder = image(tmp_path, "soon", 2000, 99000, tmp_path / "not-yet")
    assert not collection.is_held(tmp_path, folder.name)
    collection.hold(tmp_path, folder.name, tmp_path / "not-yet")
    assert collection.is_held(tmp_path, folder.name)
    assert collection.collect(tmp_path, 1000) == []


def test_one_taken_hold_of_in_the_very_moment_is_put_back(tmp_path: Path, monkeypatch):
    folder = image(tmp_path, "wanted", 2000, 99000)
    answers = iter([False, True])
    monkeypatch.setattr(collection, "is_held", lambda root, name: next(answers))
    assert collection.collect(tmp_path, 1000) == []
    assert (folder / "image.json").exists()


def test_half_of_an_image_is_none_of_ours(tmp_path: Path):
    folder = image(tmp_path, "whole", 100, 9000)
    (folder / "image.json").unlink()
    assert collection.collect(tmp_path, 10) == []


def test_a_size_is_what_the_files_take_each_counted_once(tmp_path: Path):
    folder = image(tmp_path, "a", 0, 9000)
    (folder / "rootfs" / "file").write_bytes(os.urandom(256 * KIB))
    collection.measure(folder)
    once = int((folder / collection.SIZE_FILE).read_text())
    os.link(folder / "rootfs" / "file", folder / "rootfs" / "again")
    collection.measure(folder)
    twice = int((folder / collection.SIZE_FILE).read_text())
    assert 256 * KIB <= once <= 300 * KIB
    assert twice == once


def test_what_an_image_made_unwritable_goes_too(tmp_path: Path):
    folder = image(tmp_path, "stubborn", 2000, 99000)
    locked = folder / "rootfs" / "locked" / "deeper"
    locked.mkdir(parents=True)
    (locked / "file").write_text("")
    locked.chmod(0o500)
    locked.parent.chmod(0o500)
    assert collection.collect(tmp_path, 10) == ["sha256-stubborn"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_one_that_another_cluster_removes_in_this_moment_is_no_failure(tmp_path: Path, monkeypatch):
    folder = image(tmp_path, "a", 900, 9000)
    image(tmp_path, "b", 900, 900)
    is_held = collection.is_held

    def another_comes_first(root: Path, name: str) -> bool:
        if name == folder.name and folder.exists():
            collection.remove_tree(folder)
        return is_held(root, name)

    monkeypatch.setattr(collection, "is_held", another_comes_first)
    assert collection.collect(tmp_path, 1000) == ["sha256-b"]


def test_what_an_image_made_unreadable_goes_too(tmp_path: Path):
    folder = image(tmp_path, "a", 900, 9000)
    (folder / "rootfs" / "closed" / "deep").mkdir(parents=True)
    (folder / "rootfs" / "closed").chmod(0)
    collection.remove_tree(folder)
    assert not folder.exists()


def test_links_of_pods_that_are_gone_do_not_pile_up(tmp_path: Path, running: Path):
    folder = image(tmp_path, "popular", 10, 9000, running)
    uses = tmp_path / collection.USES / folder.name
    then = time.time() - 2 * collection.FRESH
    for number in range(2, collection.PRUNED + 1):
        collection.hold(tmp_path, folder.name, tmp_path / "pods" / f"gone-{number}")
        if number == 2:
            os.utime(uses / "gone-2", (then, then), follow_symlinks=False)
    assert not (uses / "gone-2").is_symlink()
    assert (uses / "gone-3").is_symlink(), "its pod may be about to come"
    assert (uses / running.name).is_symlink()
