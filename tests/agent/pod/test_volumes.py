"""Volumes and sub-paths, without namespaces: what is laid out, what is refused."""

from __future__ import annotations

import base64
import os
import re
import socket

import pytest

from orlop.agent.plan import Container, Mount
from orlop.agent.pod.volumes import (
    Bind,
    VolumeError,
    Volumes,
    absolute,
    give_to_group,
    remove_tree,
    write_files,
)

from ..pods import files


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


@pytest.mark.parametrize("sub_path", ["inner", "inner/below", "up/real", "a/b"])
def test_a_sub_path_may_lead_over_links_inside_its_volume(volumes, sub_path):
    made = volumes({"name": "v", "kind": "emptyDir"})
    path = made.path("v")
    os.makedirs(f"{path}/real/below")
    os.symlink("real", f"{path}/inner")
    os.symlink("real/..", f"{path}/up")
    (bind,) = made.binds(with_mounts(("v", "/p", False, sub_path)), "")
    assert os.path.realpath(bind.source) == os.path.realpath(f"{path}/{sub_path}")


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other groups")
def test_files_of_a_group_are_in_folders_of_that_group(volumes):
    spec = files("v", a="1", sub__b="2")
    spec["files"] = [{**file, "gid": 34, "mode": 0o440} for file in spec["files"]]
    path = volumes(spec).path("v")
    for place in (path, f"{path}/..data", f"{path}/sub"):
        found = os.stat(place)
        assert (found.st_gid, found.st_mode & 0o2550) == (34, 0o2550), place


def test_files_of_another_group_are_other_files(volumes):
    """Only where they can be given to it: else nothing would ever be the same."""
    spec = files("v", a="1")
    made = volumes(spec)
    path = made.path("v")
    before = os.readlink(f"{path}/..data")
    made.update("v", spec["files"])
    assert os.readlink(f"{path}/..data") == before
    made.update("v", [{**file, "gid": 2**32 - 1} for file in spec["files"]])
    assert os.readlink(f"{path}/..data") == before, "no such group can be had"
    made.update("v", [{**file, "gid": 34} for file in spec["files"]])
    assert (os.readlink(f"{path}/..data") != before) == (os.geteuid() == 0)


def test_a_mount_of_no_volume_is_refused(volumes):
    with pytest.raises(VolumeError, match="no such volume"):
        volumes().binds(with_mounts(("v", "/p", False, "")), "")


def test_a_volume_of_another_kind_is_refused(volumes):
    with pytest.raises(VolumeError, match="no volume of kind 'iscsi'"):
        volumes({"name": "v", "kind": "iscsi"})


def test_an_export_that_is_not_mounted_here_is_refused_with_a_remedy(volumes):
    with pytest.raises(VolumeError, match=r"filer:/x is not mounted on .* ask the site"):
        volumes({"name": "v", "kind": "nfs", "server": "filer", "path": "/x"})


def test_an_image_is_mounted_as_it_is_and_read_only(volumes, tmp_path):
    (tmp_path / "root/models").mkdir(parents=True)
    made = volumes({"name": "v", "kind": "image", "path": str(tmp_path / "root")})
    (bind,) = made.binds(with_mounts(("v", "/m", False, "models")), "")
    assert bind == Bind(str(tmp_path / "root/models"), "/m", True)
    with pytest.raises(VolumeError, match="No such file"):  # nothing is made in an image
        made.binds(with_mounts(("v", "/m", False, "absent")), "")


@pytest.mark.parametrize("where", ["outer", "inner", "gone"])
def test_a_folder_of_a_claim_that_is_a_link_is_refused(volumes, tmp_path, where):
    precious = tmp_path / "precious"
    (precious / "data").mkdir(parents=True)
    root = tmp_path / "claims"
    root.mkdir()
    if where == "outer":
        (root / "c").symlink_to(precious)
    elif where == "inner":
        (root / "c").mkdir()
        (root / "c/data").symlink_to(precious)
    with pytest.raises(VolumeError, match=r"not a folder of ours|No such file"):
        volumes({"name": "v", "kind": "folder", "path": str(root / "c/data")})


def test_a_claim_may_be_mounted_read_only(volumes, tmp_path):
    (tmp_path / "c/data").mkdir(parents=True)
    path = str(tmp_path / "c/data")
    made = volumes({"name": "v", "kind": "folder", "path": path, "readOnly": True})
    assert made.binds(with_mounts(("v", "/d", False, "")), "") == [Bind(path, "/d", True)]


def test_new_files_take_the_place_of_old_ones_in_a_folder_named_by_the_time(volumes):
    made = volumes(files("v", a="1"), {"name": "w", "kind": "emptyDir"})
    before = os.readlink(made.path("v") + "/..data")
    assert re.fullmatch(r"\.\.\d{4}(_\d\d){5}\.\d{9}[0-9a-f]{4}", before)
    made.update("v", files("v", a="2")["files"])
    with open(made.path("v") + "/a") as file:
        assert file.read() == "2"
    assert not os.path.exists(os.path.join(made.path("v"), before))
    made.update("w", files("v", a="2")["files"])  # not of files: nobody's to overwrite
    assert os.listdir(made.path("w")) == []


def test_a_group_may_read_and_write_what_is_given_to_it(tmp_path):
    (tmp_path / "v/sub").mkdir(parents=True)
    (tmp_path / "v/sub/file").write_text("")
    (tmp_path / "v/sub/file").chmod(0o400)
    (tmp_path / "v/link").symlink_to("/etc")
    give_to_group(str(tmp_path / "v"), os.getgid(), "Always")
    assert os.stat(tmp_path / "v/sub").st_mode & 0o2770 == 0o2770
    assert os.stat(tmp_path / "v/sub/file").st_mode & 0o660 == 0o660
    (tmp_path / "v/sub/file").chmod(0o400)
    give_to_group(str(tmp_path / "v"), os.getgid(), "OnRootMismatch")
    assert os.stat(tmp_path / "v/sub/file").st_mode & 0o777 == 0o400


def test_what_links_of_a_volume_lead_to_is_not_given(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "mine").mkdir(0o700)
    (tmp_path / "mine/secret").write_text("")
    (tmp_path / "mine/secret").chmod(0o600)
    (tmp_path / "v/folder").symlink_to(tmp_path / "mine")
    (tmp_path / "v/file").symlink_to(tmp_path / "mine/secret")
    give_to_group(str(tmp_path / "v"), os.getgid(), "Always")
    modes = [os.stat(tmp_path / name).st_mode & 0o777 for name in ("mine", "mine/secret")]
    assert modes == [0o700, 0o600]


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
