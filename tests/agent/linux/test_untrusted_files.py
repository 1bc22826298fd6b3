"""Nothing that a container lays in our way is followed, waited for, or removed in its stead."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from orlop.agent.linux.untrusted_files import make_pipe, open_pipe, read_text, remove_tree


@pytest.fixture
def folder(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/kept").write_text("kept")
    fd = os.open(tmp_path / "folder", os.O_RDONLY | os.O_DIRECTORY)
    yield tmp_path / "folder", fd
    os.close(fd)


def test_a_file_is_read_if_it_is_one(folder):
    path, fd = folder
    (path / "a").write_text("words")
    assert read_text("a", 5, fd) == "words"
    with pytest.raises(OSError, match="at most 4"):
        read_text("a", 4, fd)
    os.mkfifo(path / "pipe")
    (path / "link").symlink_to(path / "a")
    for name in ("pipe", "link", "gone", "."):
        with pytest.raises(OSError, match=r"regular|symbolic|No such|directory"):
            read_text(name, 5, fd)
    with pytest.raises(OSError, match="regular"):
        read_text("/dev/zero", 5)


def test_a_pipe_is_opened_if_it_is_one(folder, tmp_path):
    path, fd = folder
    make_pipe("pipe", fd)
    assert stat.S_IMODE((path / "pipe").stat().st_mode) == 0o666
    os.close(open_pipe("pipe", os.O_RDWR, fd))
    (path / "link").symlink_to(tmp_path / "victim/kept")
    (path / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(OSError, match=r"expected a pipe|symbolic"):
            open_pipe(name, os.O_WRONLY, fd)
    with pytest.raises(FileExistsError):
        make_pipe("link", fd)
    assert (tmp_path / "victim/kept").read_text() == "kept"


def test_modes_are_given_to_no_other_file_than_the_pipe(folder, tmp_path):
    """Somebody exchanges each pipe for a link as soon as it is there."""
    path, fd = folder
    secret = tmp_path / "victim/kept"
    secret.chmod(0o600)
    is_over = threading.Event()

    def exchange() -> None:
        while not is_over.is_set():
            try:
                (path / "link").symlink_to(secret)
                os.rename(path / "link", path / "pipe")
            except OSError:
                pass

    thread = threading.Thread(target=exchange)
    thread.start()
    until = time.monotonic() + 2
    while time.monotonic() < until:
        try:
            make_pipe("pipe", fd)
        except OSError:
            pass
        (path / "pipe").unlink(missing_ok=True)
    is_over.set()
    thread.join()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_tree_goes_with_all_that_is_in_it_and_nothing_that_is_not(folder, tmp_path):
    path, _ = folder
    deep = path / "/".join("d" * 40)
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    (path / "way").symlink_to(tmp_path / "victim")
    (path / "shut").mkdir()
    (path / "shut/file").write_text("x")
    (path / "shut").chmod(0o000)
    remove_tree(str(path))
    assert not path.exists()
    assert (tmp_path / "victim/kept").read_text() == "kept"
    remove_tree(str(tmp_path / "gone"))
    remove_tree(str(tmp_path / "gone/further"))


def test_a_tree_deeper_than_any_stack_goes_too(folder):
    path, fd = folder
    here = os.dup(fd)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(str(path))
    assert not path.exists()


def test_a_link_in_the_place_of_the_tree_is_not_followed(tmp_path):
    (tmp_path / "victim").mkdir(mode=0o755)
    (tmp_path / "victim/kept").write_text("kept")
    (tmp_path / "tree").symlink_to(tmp_path / "victim")
    remove_tree(str(tmp_path / "tree"))
    assert (tmp_path / "victim/kept").read_text() == "kept"
    assert stat.S_IMODE((tmp_path / "victim").stat().st_mode) == 0o755


def test_folders_exchanged_for_links_while_a_tree_is_removed_lead_nowhere(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    for number in range(50):
        (victim / f"kept{number}").write_text("kept")
    is_over = threading.Event()

    def exchange() -> None:
        while not is_over.is_set():
            for name in ("a", "b", "c"):
                try:
                    (tmp_path / "link").symlink_to(victim)
                    os.rename(tmp_path / "tree" / name, tmp_path / f"was-{os.urandom(4).hex()}")
                    os.rename(tmp_path / "link", tmp_path / "tree" / name)
                except OSError:
                    (tmp_path / "link").unlink(missing_ok=True)

    thread = threading.Thread(target=exchange)
    thread.start()
    until = time.monotonic() + 2
    while time.monotonic() < until:
        for name in ("a", "b", "c"):
            try:
                (tmp_path / "tree" / name / "deep").mkdir(parents=True)
            except OSError:
                pass
        remove_tree(str(tmp_path / "tree"))
    is_over.set()
    thread.join()
    assert len(list(victim.glob("kept*"))) == 50
