"""Folders with files of several ids are removed by a process that has these ids."""

from __future__ import annotations

import os

import pytest

from orlop.cli.home.removal import RemovalFailed, in_namespace


def test_a_folder_is_removed_with_all_in_it(tmp_path):
    (tmp_path / "volume/data/deep").mkdir(parents=True)
    (tmp_path / "volume/data/deep/file").write_text("x")
    (tmp_path / "volume/data/deep").chmod(0)
    (tmp_path / "volume/data/out").symlink_to("/")
    in_namespace(tmp_path, "volume")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["link", "absent"])
def test_what_is_no_folder_is_left_and_told(tmp_path, name):
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to("precious")
    with pytest.raises(RemovalFailed, match="cannot remove"):
        in_namespace(tmp_path, name)
    assert (tmp_path / "precious").is_dir()
