"""Images that are kept as one file, too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orlop.runtime.images import Images
from orlop.runtime.images.squash import squash
from orlop.settings import ImageSettings
from tests.cluster.registry import Registry


def names_in(file: Path) -> set[str]:
    listed = subprocess.run(
        ["unsquashfs", "-lls", "-d", "", str(file)], capture_output=True, text=True, check=True
    )
    return {line.split()[-1] for line in listed.stdout.splitlines() if line.startswith("-")}


async def test_an_image_is_kept_as_one_file_where_that_is_asked_for(
    tmp_path: Path, loopback_registry: Registry
):
    images = Images(
        tmp_path / "images",
        ImageSettings(squashfs=True, insecure_registries=[loopback_registry.address]),
        {},
        tmp_path,
    )
    image = await images.ensure(loopback_registry.name("busybox"))
    assert image.rootfs is not None
    assert "/bin/busybox" in names_in(image.rootfs.parent / "image.sqfs")
    assert (image.rootfs / "bin/busybox").exists()


async def test_else_it_is_not(tmp_path: Path, loopback_registry: Registry):
    images = Images(
        tmp_path / "images",
        ImageSettings(insecure_registries=[loopback_registry.address]),
        {},
        tmp_path,
    )
    image = await images.ensure(loopback_registry.name("busybox"))
    assert image.rootfs is not None
    assert not (image.rootfs.parent / "image.sqfs").exists()


@pytest.mark.parametrize("path", ["/nowhere", "{tmp_path}"], ids=["missing", "failing"])
async def test_an_image_that_cannot_be_one_file_stays_a_folder(tmp_path: Path, monkeypatch, path):
    program = tmp_path / "mksquashfs"
    program.write_text("#!/bin/sh\ntouch $2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", path.format(tmp_path=tmp_path) + ":/usr/bin/nowhere")
    (tmp_path / "rootfs").mkdir()
    assert not await squash(tmp_path)
    assert not (tmp_path / "image.sqfs").exists()
