"""Folders of volumes: made and removed in their root, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orlop.api.objects import Key
from orlop.controllers.storage.volume_folders import FolderError, VolumeFolders

CLAIM = Key("default", "data")


def never(root: Path, name: str) -> None:
    raise AssertionError(f"nothing foreign in {root}/{name}")


@pytest.fixture
def folders(tmp_path: Path) -> VolumeFolders:
    return VolumeFolders(tmp_path / "volumes", never)


def made(folders: VolumeFolders) -> Path:
    path = folders.path_for(CLAIM, "pvc-1")
    folders.create(path)
    return path


def test_the_outer_folder_is_its_owners_and_the_inner_one_everybodys(folders):
    path = made(folders)
    assert path == folders.root / "default_data_pvc-1" / "data"
    modes = [oct(os.stat(one).st_mode & 0o777) for one in (folders.root, path.parent, path)]
    assert modes == ["0o700", "0o700", "0o777"]
    folders.create(path)  # again, after a crash


def test_the_longest_names_make_a_name_that_file_systems_take(folders):
    path = folders.path_for(Key("n" * 63, "c" * 253), "pvc-" + "0" * 36)
    folders.create(path)
    assert path.is_dir()


def test_odd_permissions_and_depth_do_not_keep_a_folder(folders):
    path = made(folders)
    (path / "sealed" / "inner").mkdir(parents=True)
    (path / "sealed" / "inner" / "file").write_text("x")
    (path / "sealed" / "inner").chmod(0)
    (path / "sealed").chmod(0o500)
    deep = os.open(path, os.O_RDONLY)
    for _ in range(1500):  # deeper than a path may be long
        os.mkdir("a-folder-with-a-name", dir_fd=deep)
        deeper = os.open("a-folder-with-a-name", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = deeper
    os.close(deep)
    for name in ("..x", "...", "-rf", "a\nb", "\udcff"):
        (path / name).write_text("")
    folders.remove(path)
    assert os.listdir(folders.root) == []
    folders.remove(path)  # again, after a crash


def test_links_in_a_folder_are_removed_and_not_followed(folders, tmp_path):
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "file").write_text("mine")
    path = made(folders)
    (path / "link").symlink_to(outside)
    (path / "up").symlink_to("../../..")
    folders.remove(path)
    assert (outside / "file").read_text() == "mine"


@pytest.mark.parametrize("where", ["outer", "inner"])
def test_a_folder_that_is_a_link_is_neither_used_nor_removed(folders, tmp_path, where):
    outside = tmp_path / "precious"
    (outside / "data").mkdir(parents=True)
    path = folders.path_for(CLAIM, "pvc-1")
    folders.root.mkdir()
    if where == "outer":
        path.parent.symlink_to(outside)
    else:
        path.parent.mkdir()
        path.symlink_to(outside)
    with pytest.raises(FolderError):
        folders.create(path)
    if where == "outer":
        with pytest.raises(FolderError, match="not a folder"):
            folders.remove(path)
    else:
        folders.remove(path)
    assert (outside / "data").is_dir()


@pytest.mark.parametrize(
    "text",
    ["/etc/data", "{root}/data", "{root}/../data", "{root}/../x/data", "{root}/a/b/data",
     "{root}/a/other", "{root}/./../data", "data", "", "/"],
)  # fmt: skip
def test_any_other_path_is_refused(folders, text):
    folders.root.mkdir()
    path = Path(text.format(root=folders.root))
    for act in (folders.create, folders.remove):
        with pytest.raises(FolderError, match="is not the folder of a volume"):
            act(path)


def test_what_is_not_ours_is_left_to_who_may(tmp_path, monkeypatch):
    asked = []
    folders = VolumeFolders(tmp_path / "v", lambda root, name: asked.append((root, name)))
    path = made(folders)

    def refuse(name: str, parent: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("orlop.controllers.storage.volume_folders.remove_below", refuse)
    folders.remove(path)
    assert asked == [(folders.root, "default_data_pvc-1")]
