"""SIFs as apptainer makes them, and files that only look like one."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from orlop.errors import ImageError
from orlop.runtime.images import Images
from orlop.runtime.images.sif import RUNSCRIPT, Sif, is_sif
from orlop.settings import ImageSettings
from tools.devroot import dev_root

APPTAINER = dev_root().apptainer / "usr/bin/apptainer"
CONFIG = {"Entrypoint": ["/bin/app"], "Env": ["A=1"], "User": "7", "WorkingDir": "/data"}


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return Images(tmp_path / "images", ImageSettings(), {}, tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root folder with what unpacking could get wrong."""
    folder = tmp_path / "root"
    for name in ("bin", "etc", "shut"):
        (folder / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "/bin/busybox", folder / "bin/busybox")
    (folder / "bin/busybox").chmod(0o4755)
    (folder / "bin/sh").symlink_to("busybox")
    (folder / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (folder / "shut/secret").write_text("s")
    (folder / "shut").chmod(0o000)
    return folder


def squashed(root: Path, target: Path) -> bytes:
    words = ["mksquashfs", str(root), str(target), "-noappend", "-quiet", "-no-progress"]
    subprocess.run(words, check=True, capture_output=True)
    return target.read_bytes()


def a_sif(path: Path, *objects: tuple[int, str, bytes, bytes]) -> Path:
    """A SIF of (kind, name, extra, content); written by hand, as the format says."""
    start = 128 + 585 * len(objects)
    table, data = b"", b""
    for number, (kind, name, extra, content) in enumerate(objects, 1):
        sizes = (start + len(data), len(content), len(content), 0, 0, 0, 0)
        head = struct.pack("<i?III7q", kind, True, number, 1, 0, *sizes)
        table += head + name.encode().ljust(128, b"\0") + extra.ljust(384, b"\0")
        data += content
    first = b"#!/usr/bin/env run-singularity\n".ljust(32, b"\0") + b"SIF_MAGIC\x0001\x0002\0"
    counts = (1, 1, 0, len(objects), 128, len(table), start, len(data))
    path.write_bytes(first + os.urandom(16) + struct.pack("<8q", *counts) + table + data)
    return path


PRIMARY = struct.pack("<ii", 1, 2)


async def test_a_sif_of_apptainer_becomes_a_root(images: Images, root: Path, tmp_path: Path):
    (root / "shut").chmod(0o755)
    target = tmp_path / "made.sif"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    argv = [APPTAINER, "build", str(target), str(root)]
    subprocess.run(argv, check=True, capture_output=True, env=environment)
    image = await images.ensure(str(target))
    assert image.rootfs is not None
    assert image.rootfs.parent.parent == images.root
    answer = subprocess.run([image.rootfs / "bin/busybox", "echo", "runs"], capture_output=True)
    assert answer.stdout == b"runs\n"
    assert image.entrypoint == [RUNSCRIPT]
    assert (image.rootfs / RUNSCRIPT.lstrip("/")).exists()
    assert (image.rootfs / "proc").is_dir()


async def test_what_it_was_built_from_says_what_is_run(images: Images, root: Path, tmp_path: Path):
    content = squashed(root, tmp_path / "sq")
    config = json.dumps(CONFIG).encode()
    path = a_sif(
        tmp_path / "x.sif", (0x4006, "oci-config.json", b"", config), (0x4004, "", PRIMARY, content)
    )
    image = await images.ensure(str(path))
    assert (image.entrypoint, image.env) == (["/bin/app"], {"A": "1"})
    assert (image.user, image.working_dir) == ("7", "/data")


async def test_no_file_is_setuid_or_shut_to_its_owner(images: Images, root: Path, tmp_path: Path):
    path = a_sif(tmp_path / "x.sif", (0x4004, "", PRIMARY, squashed(root, tmp_path / "sq")))
    image = await images.ensure(str(path))
    assert image.rootfs is not None
    assert (image.rootfs / "bin/busybox").stat().st_mode & 0o7777 == 0o755
    assert (image.rootfs / "shut").stat().st_mode & 0o700 == 0o700
    assert (image.rootfs / "bin/sh").readlink() == Path("busybox")


async def test_a_sif_is_unpacked_once_and_again_when_it_is_another(
    images: Images, root: Path, tmp_path: Path
):
    path = a_sif(tmp_path / "x.sif", (0x4004, "", PRIMARY, squashed(root, tmp_path / "sq")))
    first = await images.ensure(str(path))
    assert (await images.ensure(str(path))).rootfs == first.rootfs
    (root / "new").write_text("new")
    a_sif(path, (0x4004, "", PRIMARY, squashed(root, tmp_path / "sq2")))
    second = await images.ensure(str(path))
    assert second.rootfs is not None
    assert second.rootfs != first.rootfs
    assert (second.rootfs / "new").exists()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ('export PATH="/a:/b"', ["PATH=/a:/b"]),
        ('export LANG="${LANG:-"C.UTF-8"}"', ["LANG=C.UTF-8"]),
        ("A='x y'\n# B=1\nexport C=3", ["A=x y", "C=3"]),
        ('export D="$HOME/x"\nexport E=`date`', []),
    ],
)
def test_plain_variables_of_its_scripts_are_set(tmp_path, script, expected):
    scripts = {"/.singularity.d/env/10-docker2singularity.sh": script}
    metadata = {"data": {"attributes": {"environment": scripts}}}
    path = a_sif(
        tmp_path / "x.sif",
        (0x4006, "inspect-metadata.json", b"", json.dumps(metadata).encode()),
        (0x4004, "", PRIMARY, b"root"),
    )
    config = json.loads(Sif(str(path))._config)["config"]
    assert config["Env"] == expected


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (struct.pack("<ii", 5, 2), "encrypted"),
        (struct.pack("<ii", 2, 2), "ext3"),
        (None, "found none"),
    ],
    ids=["encrypted", "ext3", "no partition"],
)
async def test_a_sif_without_a_root_of_ours_says_what_it_has(
    images: Images, tmp_path, extra, words
):
    objects = [(0x4004, "", extra, b"x")] if extra else [(0x4001, "", b"", b"x")]
    path = a_sif(tmp_path / "x.sif", *objects)
    with pytest.raises(ImageError, match=words):
        await images.ensure(str(path))


@pytest.mark.parametrize("length", [42, 60, 128, 500])
async def test_a_torn_sif_is_no_image(images: Images, tmp_path, length):
    path = a_sif(tmp_path / "x.sif", (0x4004, "", PRIMARY, b"x" * 100))
    path.write_bytes(path.read_bytes()[:length])
    assert is_sif(path)
    with pytest.raises(ImageError, match=r"no whole SIF|none"):
        await images.ensure(str(path))


async def test_a_root_that_is_no_squashfs_says_so(images: Images, tmp_path):
    path = a_sif(tmp_path / "x.sif", (0x4004, "", PRIMARY, b"x" * 4096))
    with pytest.raises(ImageError, match="unsquashfs ended with 1"):
        await images.ensure(str(path))


async def test_a_file_that_is_no_sif_is_refused(images: Images, tmp_path):
    (tmp_path / "x.sif").write_text("hello")
    with pytest.raises(ImageError, match="expected a SIF, an OCI layout or a root folder") as error:
        await images.ensure(str(tmp_path / "x.sif"))
    assert error.value.reason == "InvalidImageName"
