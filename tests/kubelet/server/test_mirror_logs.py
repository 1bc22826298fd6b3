"""Logs of mirror pods: plain files, cut as kubectl asks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from orlop.kubelet.server.logs import LogOptions
from orlop.kubelet.server.mirror_logs import is_mirror, read_plain

TEXT = b"one\ntwo\nthree\n"


async def shown(path: Path, **options: Any) -> bytes:
    return b"".join([data async for data in read_plain(path, LogOptions(**options), lambda: True)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "slurm-1.out"
    path.write_bytes(TEXT)
    return path


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (None, TEXT),
        (0, b""),
        (1, b"three\n"),
        (2, b"two\nthree\n"),
        (3, TEXT),
        (9, TEXT),
    ],
)
async def test_tail(file: Path, lines: int | None, expected: bytes) -> None:
    assert await shown(file, tail_lines=lines) == expected


async def test_a_last_line_without_an_end_counts(file: Path) -> None:
    file.write_bytes(TEXT + b"four")
    assert await shown(file, tail_lines=2) == b"three\nfour"


async def test_a_long_file_is_cut_from_its_end(file: Path) -> None:
    lines = [f"line {number:07}\n".encode() for number in range(60_000)]
    file.write_bytes(b"".join(lines))
    assert await shown(file, tail_lines=30_000) == b"".join(lines[30_000:])


async def test_bytes_are_limited(file: Path) -> None:
    assert await shown(file, limit_bytes=5) == b"one\nt"


async def test_times_are_the_files(file: Path) -> None:
    lines = (await shown(file, timestamps=True)).splitlines()
    assert [line.split(b" ", 1)[1] for line in lines] == [b"one", b"two", b"three"]
    assert lines[0].split(b" ")[0].endswith(b"Z")


async def test_what_has_not_changed_since_is_not_shown(file: Path) -> None:
    assert await shown(file, since=file.stat().st_mtime + 10) == b""
    assert await shown(file, since=file.stat().st_mtime - 10) == TEXT


async def test_a_file_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    assert await shown(tmp_path / "none") == b""


async def test_following_ends_when_the_job_is_over(file: Path) -> None:
    is_over = False
    seen = b""

    async def follow() -> None:
        nonlocal seen
        async for data in read_plain(file, LogOptions(follow=True), lambda: is_over):
            seen += data

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(follow())
        while seen != TEXT:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with file.open("ab") as more:
            more.write(b"four\n")
        is_over = True
    assert seen == TEXT + b"four\n"


def test_upstreams_annotation_marks_a_mirror_pod() -> None:
    assert is_mirror({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})
    assert not is_mirror({"metadata": {}})
