"""Mount points inside a root that may hold links to anywhere."""

from __future__ import annotations

import os

import pytest

from orlop.agent.container.mountpoints import inside, make_point, make_points
from orlop.agent.pod.volumes import Bind


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "run").mkdir(parents=True)
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    (root / "up").symlink_to("../../..")
    (root / "host").symlink_to("/etc")
    (root / "loop").symlink_to("loop")
    return str(root)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/b", "a/b"),
        ("/var/run/x", "run/x"),
        ("/up/x", "x"),
        ("/host/passwd", "etc/passwd"),
        ("/../../x", "x"),
        ("/./a//b/", "a/b"),
        ("/", ""),
    ],
)
def test_links_lead_where_a_process_inside_would_go(root, path, expected):
    assert inside(root, path) == os.path.join(root, expected).rstrip("/")


def test_a_loop_of_links_is_an_error(root):
    with pytest.raises(OSError, match="too many levels"):
        inside(root, "/loop/x")


def test_a_point_is_a_folder_or_a_file_as_its_source_is(root):
    assert os.path.isdir(make_point(root, "/new/folder", True))
    assert os.path.isfile(make_point(root, "/other/file", False))


def test_a_point_that_is_there_is_left_alone(root):
    path = os.path.join(root, "file")
    with open(path, "w") as file:
        file.write("kept")
    make_point(root, "/file", False)
    with open(path) as file:
        assert file.read() == "kept"


def test_a_point_below_a_bind_is_made_in_its_source(root, tmp_path):
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    outer.mkdir()
    inner.mkdir()
    binds = [Bind(str(outer), "/data"), Bind(str(inner), "/data/deep/er")]
    make_points(root, binds, "/data/cwd")
    assert (outer / "deep/er").is_dir()
    assert (outer / "cwd").is_dir()
    assert os.path.isdir(os.path.join(root, "data"))
    assert not os.path.exists(os.path.join(root, "data/deep"))
