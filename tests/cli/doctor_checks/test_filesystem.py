from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orlop.cli.doctor_checks import filesystem

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw - nfs4 server:/export/home rw
31 30 0:41 /a\040b /home/with\040space rw master:3 - lustre 10.0.0.1@tcp:/fs rw
32 22 0:5 / /tmp rw - tmpfs tmpfs rw
33 22 0:6 / /tmp rw - btrfs /dev/sdb rw
""".strip()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/etc", ("ext4", "/dev/sda1")),
        ("/homely", ("ext4", "/dev/sda1")),
        ("/home/me", ("nfs4", "server:/export/home")),
        ("/home/with space/me", ("lustre", "10.0.0.1@tcp:/fs")),
        ("/tmp", ("btrfs", "/dev/sdb")),
    ],
    ids=["root", "not by prefix of letters", "mount", "escaped", "the last hides the first"],
)
def test_the_innermost_mount_is_meant(path, expected):
    assert filesystem.mount_of(Path(path), MOUNTS) == expected


def test_df_agrees(tmp_path):
    said = subprocess.run(
        ["df", "--output=fstype,size", "-B1", tmp_path], capture_output=True, text=True, check=True
    )
    kind, size = said.stdout.splitlines()[1].split()
    found = filesystem.of(tmp_path)
    assert (found.kind, found.total) == (kind, int(size))
    assert 0 < found.free <= found.total


def test_a_folder_yet_to_be_made_is_on_its_parents_file_system(tmp_path):
    assert filesystem.of(tmp_path / "a" / "b").kind == filesystem.of(tmp_path).kind


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3.2 * 2**30, "3.2 GiB"),
        (99 * 2**30, "99 GiB"),
        (5000 * 2**40, "5000 TiB"),
    ],
)
def test_sizes_are_said_in_words(size, words):
    assert filesystem.in_words(size) == words


@pytest.mark.parametrize(("kind", "shared"), [("nfs4", True), ("lustre", True), ("ext4", False)])
def test_which_file_systems_other_hosts_see(kind, shared):
    assert filesystem.FileSystem(kind, "", 0, 0).is_shared is shared
