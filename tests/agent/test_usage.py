"""How much a volume holds, and what becomes of the pod that holds too much."""

from __future__ import annotations

import os

import pytest

from orlop.agent.usage import bytes_in, is_watched


def test_a_folder_is_counted_as_du_counts(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"x" * 1_000_000)
    os.link(tmp_path / "a/b/file", tmp_path / "a/same")
    (tmp_path / "a/out").symlink_to("/usr")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert 1_000_000 <= bytes_in(str(tmp_path)) < 1_200_000


def test_what_is_gone_counts_nothing(tmp_path):
    assert bytes_in(str(tmp_path / "gone")) == 0


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"kind": "emptyDir", "sizeLimit": 5}, True),
        ({"kind": "emptyDir", "sizeLimit": None}, False),
        ({"kind": "emptyDir", "medium": "Memory", "sizeLimit": 5}, False),
        ({"kind": "hostPath"}, False),
    ],
)
def test_only_limits_on_disk_are_watched(volume, expected):
    assert is_watched(volume) is expected
