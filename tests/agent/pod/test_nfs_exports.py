"""NFS exports are found where the node has mounted them."""

from __future__ import annotations

import pytest

from orlop.agent.pod.nfs_exports import huge_pages, mounted

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:44 / /home rw,relatime shared:2 - nfs4 filer:/export/home rw,vers=4.2
41 22 0:45 / /data/big\\040one rw shared:3 - nfs filer.example:/vol rw
42 40 0:46 / /home/deep rw shared:4 - nfs4 filer:/export/home/deep rw
43 22 0:44 /sub /mnt/bound rw shared:5 - nfs4 other:/e rw
44 22 0:47 / /six rw shared:6 - nfs4 [fd00::1]:/v6 rw
45 22 0:48 / /fuse rw - fuse.sshfs filer:/export/fuse rw
"""


@pytest.mark.parametrize(
    ("server", "path", "expected"),
    [
        ("filer", "/export/home", "/home"),
        ("filer", "/export/home/", "/home"),
        ("filer", "/export/home/ann/x", "/home/ann/x"),
        ("filer", "/export/home/deep/y", "/home/deep/y"),
        ("filer", "/export/homely", ""),
        ("filer", "/export/home/../etc", ""),
        ("filer", "/export", ""),
        ("filer.example", "/vol/a", "/data/big one/a"),
        ("other", "/e/sub/z", "/mnt/bound/z"),
        ("other", "/e", ""),
        ("fd00::1", "/v6", "/six"),
        ("filer", "/export/fuse", ""),
        ("nobody", "/export/home", ""),
    ],
)
def test_an_export_is(server, path, expected):
    assert mounted(server, path, MOUNTS) == expected


def test_nonsense_is_no_mount():
    assert mounted("filer", "/", "x\n\n - \n1 2 3 - nfs\n") == ""


HUGE = """\
50 22 0:50 / /dev/hugepages rw,relatime shared:7 - hugetlbfs hugetlbfs rw,pagesize=2M
51 22 0:51 / /mnt/one\\040g rw,relatime - hugetlbfs none rw,mode=1777,pagesize=1024M
52 22 0:52 / /dev/shm rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("size", "expected"),
    [("", ["/dev/hugepages", "/mnt/one g"]), ("2Mi", ["/dev/hugepages"]), ("1Gi", ["/mnt/one g"]),
     ("512Mi", [])],
)  # fmt: skip
def test_huge_pages_are_found_by_their_size(size, expected):
    assert huge_pages(size, MOUNTS + HUGE) == expected
