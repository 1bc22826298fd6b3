from __future__ import annotations

import os
import stat

import pytest

from orlop.files import open_regular, read_regular, write_private


@pytest.mark.parametrize("data", [b"\0bytes", "text ✓"], ids=["bytes", "text"])
def test_what_is_written_is_what_was_given(tmp_path, data):
    write_private(tmp_path / "file", data)
    written = (tmp_path / "file").read_bytes()
    assert written == (data if isinstance(data, bytes) else data.encode())


@pytest.mark.parametrize("mode", [0o600, 0o700])
def test_others_cannot_read_it_whatever_the_umask(tmp_path, mode):
    before = os.umask(0)
    try:
        write_private(tmp_path / "file", b"", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_an_open_reader_keeps_the_old_file_whole(tmp_path):
    path = tmp_path / "file"
    write_private(path, "old")
    with path.open() as reader:
        write_private(path, "new")
        assert reader.read() == "old"
    assert path.read_text() == "new"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        write_private(path, "new")
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_killed_writer_left_is_no_obstacle(tmp_path):
    (tmp_path / f".file.{os.getpid()}").write_text("half")
    write_private(tmp_path / "file", "whole")
    assert (tmp_path / "file").read_text() == "whole"
    assert os.listdir(tmp_path) == ["file"]


def test_only_regular_files_are_opened_and_read(tmp_path):
    (tmp_path / "file").write_bytes(b"words")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    assert read_regular(tmp_path / "link", 5) == b"words"
    with pytest.raises(OSError, match="at most 4 bytes"):
        read_regular(tmp_path / "file", 4)
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(OSError, match=r"expected a regular file|Is a directory"):
            open_regular(path)
