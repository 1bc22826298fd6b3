"""Volumes and sub-paths, without namespaces: what is laid out, what is refused."""

from __future__ import annotations

import base64
import os
import socket

import pytest

from orlop.agent.plan import Container, Mount
from orlop.agent.volumes import Bind, VolumeError, Volumes, absolute, remove_tree, write_files

from .pods import files


@pytest.fixture
def volumes(tmp_path):
    """Makes volumes in folders of the test's own; nothing can be mounted."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "memory").mkdir()

    def make(*specs):
        return Volumes(list(specs), str(tmp_path / "disk"), str(tmp_path / "memory"), False)

    return make


def with_mounts(*mounts):
    container = Container.__new__(Container)
    container.mounts = [Mount(*mount) for mount in mounts]
    return container


def host_path(path, kind=""):
    return {"name": "v", "kind": "hostPath", "path": str(path), "type": kind}


def test_an_empty_dir_is_on_disk_and_open_to_all(volumes, tmp_path):
    path = volumes({"name": "v", "kind": "emptyDir"}).path("v")
    assert path.startswith(str(tmp_path / "disk"))
    assert os.stat(path).st_mode & 0o777 == 0o777


def test_an_empty_dir_in_memory_is_not_on_disk(volumes, tmp_path):
    path = volumes({"name": "v", "kind": "emptyDir", "medium": "Memory"}).path("v")
    assert path.startswith(str(tmp_path / "memory"))


def test_files_have_their_contents_and_modes(volumes):
    spec = files("v", a="one", sub__b="two")
    spec["files"][1]["mode"] = 0o400
    path = volumes(spec).path("v")
    with open(f"{path}/a") as a, open(f"{path}/sub/b") as b:
        assert (a.read(), b.read()) == ("one", "two")
    assert os.stat(f"{path}/a").st_mode & 0o777 == 0o644
    assert os.stat(f"{path}/sub/b").st_mode & 0o777 == 0o400


def test_files_are_laid_out_as_the_kubelet_does(volumes):
    path = volumes(files("v", a="1", sub__b="2")).path("v")
    assert os.readlink(f"{path}/a") == "..data/a"
    assert os.readlink(f"{path}/sub") == "..data/sub"
    assert os.path.isdir(os.path.join(path, os.readlink(f"{path}/..data")))


def test_binary_contents_survive(volumes):
    content = bytes(range(256))
    spec = files("v", a="")
    spec["files"][0]["data"] = base64.b64encode(content).decode()
    with open(volumes(spec).path("v") + "/a", "rb") as file:
        assert file.read() == content


def test_an_update_changes_all_files_at_once(tmp_path):
    write_files(str(tmp_path), files("v", a="1", gone="x")["files"])
    before = os.open(tmp_path / "..data", os.O_RDONLY)
    write_files(str(tmp_path), files("v", a="2", new="y")["files"])
    assert (tmp_path / "a").read_text() == "2"
    assert sorted(n for n in os.listdir(tmp_path) if not n.startswith("..")) == ["a", "new"]
    assert len(os.listdir(tmp_path)) == 4, "the old version is gone"
    os.close(before)


def test_files_are_mounted_read_only_whatever_is_asked(volumes):
    made = volumes(files("v", a="1"))
    assert made.binds(with_mounts(("v", "/p", False, "")), "") == [Bind(made.path("v"), "/p", True)]


@pytest.mark.parametrize(
    ("kind", "make", "is_right"),
    [
        ("", "folder", True), ("", "file", True), ("", None, False),
        ("Directory", "folder", True), ("Directory", "file", False), ("Directory", None, False),
        ("DirectoryOrCreate", "folder", True), ("DirectoryOrCreate", None, True),
        ("DirectoryOrCreate", "file", False),
        ("File", "file", True), ("File", "folder", False), ("File", None, False),
        ("FileOrCreate", "file", True), ("FileOrCreate", None, True),
        ("FileOrCreate", "folder", False),
        ("Socket", "socket", True), ("Socket", "file", False),
        ("CharDevice", "file", False), ("BlockDevice", "file", False),
    ],
)  # fmt: skip
def test_a_host_path_must_be_of_its_type(volumes, tmp_path, kind, make, is_right):
    path = tmp_path / "there"
    if make == "folder":
        path.mkdir()
    elif make == "file":
        path.touch()
    elif make == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    if is_right:
        assert volumes(host_path(path, kind)).path("v") == str(path)
        assert path.exists()
    else:
        with pytest.raises(VolumeError, match=r'SetUp failed for volume "v" : .*there'):
            volumes(host_path(path, kind))


def test_a_character_device_is_one(volumes):
    assert volumes(host_path("/dev/null", "CharDevice")).path("v") == "/dev/null"


def test_a_host_path_that_cannot_be_made_says_why(volumes, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(VolumeError, match=r"Not a directory|File exists"):
        volumes(host_path(tmp_path / "file" / "below", "DirectoryOrCreate"))


def test_a_sub_path_is_made_where_it_is_missing(volumes):
    made = volumes({"name": "v", "kind": "emptyDir"})
    (bind,) = made.binds(with_mounts(("v", "/p", False, "a/b")), "")
    assert bind.source == made.path("v") + "/a/b"
    assert os.path.isdir(bind.source)


def test_a_sub_path_may_be_a_file(volumes, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("x")
    made = volumes(host_path(tmp_path / "data"))
    (bind,) = made.binds(with_mounts(("v", "/p", False, "file")), "")
    assert bind.source == str(tmp_path / "data/file")


@pytest.mark.parametrize("sub_path", ["../x", "a/../../x", "link", "link/below"])
def test_a_sub_path_never_leaves_its_volume(volumes, sub_path):
    made = volumes({"name": "v", "kind": "emptyDir"})
    os.mkdir(made.path("v") + "/a")
    os.symlink("/etc", made.path("v") + "/link")
    with pytest.raises(VolumeError, match="subPath"):
        made.binds(with_mounts(("v", "/p", False, sub_path)), "")


def test_a_sub_path_of_files_is_the_current_version(volumes):
    made = volumes(files("v", a="1"))
    (bind,) = made.binds(with_mounts(("v", "/p", False, "a")), "")
    with open(bind.source) as file:
        assert file.read() == "1"


@pytest.mark.parametrize("sub_path", ["missing", "../../x", ".."])
def test_a_sub_path_of_files_must_be_one_of_them(volumes, sub_path):
    made = volumes(files("v", a="1"))
    with pytest.raises(VolumeError, match="subPath"):
        made.binds(with_mounts(("v", "/p", False, sub_path)), "")


def test_a_file_is_given_to_whom_the_plan_says(volumes):
    data = {"path": "token", "data": "eA==", "mode": 0o640}
    made = volumes({"name": "v", "kind": "files", "files": [{**data, "uid": 12, "gid": 34}]})
    found = os.stat(made.path("v") + "/token")
    expected = (12, 34) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    assert (found.st_uid, found.st_gid) == expected
    assert found.st_mode & 0o777 == 0o640


def test_a_mount_of_no_volume_is_refused(volumes):
    with pytest.raises(VolumeError, match="no such volume"):
        volumes().binds(with_mounts(("v", "/p", False, "")), "")


def test_a_volume_of_another_kind_is_refused(volumes):
    with pytest.raises(VolumeError, match="no volume of kind 'nfs'"):
        volumes({"name": "v", "kind": "nfs"})


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a", "/a"), ("//a", "/a"), ("a", "/a"), ("/a/", "/a"), ("/a/../b", "/b"), ("/", "/")],
)
def test_one_place_has_one_spelling(path, expected):
    assert absolute(path) == expected


def test_a_tree_is_removed_with_what_may_not_be_entered(tmp_path):
    (tmp_path / "t/work").mkdir(parents=True)
    (tmp_path / "t/file").touch()
    (tmp_path / "t/link").symlink_to(tmp_path)
    (tmp_path / "t/work").chmod(0)
    remove_tree(str(tmp_path / "t"))
    assert list(tmp_path.iterdir()) == []
