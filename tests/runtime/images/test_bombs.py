"""Images that are little and become much, and paths of images that are no files at all."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orlop.errors import ImageError
from orlop.runtime.images import Images
from orlop.runtime.images import unpack as module
from orlop.runtime.images.sif import Sif
from orlop.settings import ImageSettings
from tests.cluster.oci import Image, Layer, LayerBuilder

from .stand_in import StandIn
from .test_sif import PRIMARY, a_sif, squashed

SIZE, FILES = 8 << 20, 1000
BIGGER, MORE = "set images.max_size in config.yaml", "set images.max_files in config.yaml"


def head(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> bytes:
    """A member's head alone: what it says need not be true."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, link
    return info.tobuf(tarfile.GNU_FORMAT)


def sparse(name: str, size: int) -> bytes:
    """A file that is all hole, as GNU tar writes it."""
    info = tarfile.TarInfo(name)
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.name": name,
        "GNU.sparse.size": str(size),
        "GNU.sparse.map": f"{size},0",
    }
    return info.tobuf(tarfile.PAX_FORMAT)


def told(tmp_path: Path, *layers: Iterator[bytes] | bytes) -> tuple[int, str, Path]:
    """What the child says of layers, which are compressed as they come."""
    lines = ""
    for number, layer in enumerate(layers):
        path = tmp_path / f"layer{number}"
        with gzip.open(path, "wb", compresslevel=1) as file:
            for part in [layer] if isinstance(layer, bytes) else layer:
                file.write(part)
        lines += json.dumps({"path": str(path)}) + "\n"
    root = tmp_path / "root"
    argv = [sys.executable, "-I", str(module.__file__), str(root), str(SIZE), str(FILES)]
    answer = subprocess.run(argv, input=lines, text=True, capture_output=True, timeout=60)
    return answer.returncode, answer.stderr, root


def used(root: Path) -> int:
    out = subprocess.run(["du", "-sk", str(root)], capture_output=True, text=True, check=True)
    return int(out.stdout.split()[0]) << 10


ZEROS = b"\0" * (1 << 20)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (lambda: sparse("a", 1 << 43), BIGGER),
        (lambda: head("a", size=1 << 43), BIGGER),
        (lambda: b"".join(sparse(f"f{n}", 1 << 20) for n in range(20)), BIGGER),
        (lambda: b"".join(head(f"f{n}") for n in range(2000)), MORE),
        (lambda: b"".join(head(f"d{n}/", tarfile.DIRTYPE) for n in range(2000)), MORE),
        (lambda: b"".join(head(f"d{n}/f") for n in range(600)), MORE),
        (lambda: b"".join(head(f"l{n}", tarfile.SYMTYPE, 0, "x") for n in range(2000)), MORE),
        (lambda: head("a") + b"".join(head("a") for n in range(2000)), MORE),
        (lambda: b"".join(head(f".wh.{n}") for n in range(2000)), MORE),
        (lambda: head("a") + b"".join(head(f"l{n}", tarfile.LNKTYPE, 0, "a") for n in range(2000)),
         MORE),
        (lambda: head("a" * 90 + "/", tarfile.DIRTYPE, 0) + head("x", b"Z", 1 << 43) + ZEROS * 20,
         BIGGER),
        (lambda: head("x", tarfile.GNUTYPE_LONGNAME, 1 << 40) + ZEROS, "has a head of"),
        (lambda: head("x", tarfile.XHDTYPE, 1 << 40) + ZEROS, "has a head of"),
        (lambda: head("x", tarfile.XGLTYPE, 1 << 33) + ZEROS, "has a head of"),
        (lambda: b"".join(head("/".join("d" * n) + "/f") for n in (100, 150, 201)), "folders deep"),
    ],
    ids=["hole", "long", "holes", "files", "folders", "implied", "links", "again", "whiteouts",
         "hard links", "unknown", "name", "pax", "global", "depth"],
)  # fmt: skip
def test_a_layer_that_becomes_more_than_it_may_is_refused(tmp_path, layer, words):
    began = time.monotonic()
    code, said, root = told(tmp_path, layer())
    assert code == 1
    assert words in said
    assert len(said.splitlines()) == 1
    assert used(root) < 3 * SIZE
    assert sum(len(folders) + len(files) for _, folders, files in os.walk(root)) <= FILES
    assert time.monotonic() - began < 20


def test_a_stream_that_unpacks_without_an_end_is_given_up(tmp_path):
    """Heads that say nothing, or what comes after the end: neither is a file of the image."""
    comment = tarfile.TarInfo("c")
    comment.pax_headers = {"comment": "x" * 60_000}
    part = comment.tobuf(tarfile.PAX_FORMAT).replace(b"\0ustar", b"\0ustar")[:-512]
    code, said, _ = told(tmp_path, (part for _ in range(20_000)))
    assert code == 1
    assert BIGGER in said


def test_links_that_lead_deeper_and_deeper_come_to_an_end(tmp_path):
    def layer() -> Iterator[bytes]:
        yield head("/".join("d" * 150) + "/", tarfile.DIRTYPE)
        yield head("s", tarfile.SYMTYPE, 0, "/".join("d" * 150))
        for _ in range(3):
            yield head("s/" + "/".join("e" * 40) + "/", tarfile.DIRTYPE)
            yield head("t", tarfile.SYMTYPE, 0, "s/" + "/".join("e" * 40))
            yield head("t/" + "/".join("f" * 40) + "/", tarfile.DIRTYPE)

    code, said, root = told(tmp_path, layer())
    assert code == 1
    assert "folders deep" in said
    shutil.rmtree(root)


def test_opaque_folders_by_the_thousand_take_no_time(tmp_path):
    def layer() -> Iterator[bytes]:
        for number in range(400):
            yield head(f"d/f{number}")
            yield head("d/.wh..wh..opq")

    began = time.monotonic()
    code, said, root = told(tmp_path, head("d/old") + head("d/e/old"), layer())
    assert (code, said) == (0, "")
    assert len(list((root / "d").iterdir())) == 400
    assert time.monotonic() - began < 10


def test_an_opaque_folder_hides_all_that_was_and_nothing_that_is(tmp_path):
    lower = head("d/a/old") + head("d/b/old") + head("d/old")
    upper = head("d/a/new") + head("d/.wh..wh..opq") + head("d/b/new") + head("d/b/.wh..wh..opq")
    code, said, root = told(tmp_path, lower, upper)
    assert (code, said) == (0, "")
    found = {str(path.relative_to(root)) for path in (root / "d").rglob("*")}
    assert found == {"d/a", "d/a/new", "d/b", "d/b/new"}


@pytest.mark.parametrize(
    "pax",
    [{"mtime": "nan"}, {"mtime": "-1e300"}, {"mtime": "inf"}, {"path": "a\0b"}, {"size": "-5"}],
    ids=str,
)
def test_heads_that_say_what_cannot_be_are_borne_or_refused_in_words(tmp_path, pax):
    info = tarfile.TarInfo("a")
    info.pax_headers = pax
    code, said, root = told(tmp_path, info.tobuf(tarfile.PAX_FORMAT))
    assert code == 0 or "no whole tar archive" in said
    assert len(said.splitlines()) == code
    assert {path.name for path in root.iterdir()} >= ({"a"} if code == 0 else set())


def test_garbage_in_a_compressed_layer_is_told_in_one_line(tmp_path):
    whole = gzip.compress(tar_of("a", os.urandom(9000).hex().encode()))
    (tmp_path / "layer").write_bytes(whole[:10] + b"\xff" * 900)
    argv = [sys.executable, "-I", str(module.__file__), str(tmp_path / "root"), "9999", "99"]
    line = json.dumps({"path": str(tmp_path / "layer")})
    answer = subprocess.run(argv, input=line, text=True, capture_output=True)
    assert "no whole tar archive" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def tar_of(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.skipif(not shutil.which("zstd"), reason="needs zstd")
def test_what_zstd_has_after_the_end_is_not_waited_for(tmp_path):
    layer = tmp_path / "layer"
    with layer.open("wb") as file:
        argv = ["zstd", "-q", "-3", "--long=27"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=file) as child:
            assert child.stdin is not None
            child.stdin.write(tar_of("a", b"A") + b"\0" * 10240)
            for _ in range(512):
                child.stdin.write(ZEROS)
    argv = [sys.executable, "-I", str(module.__file__), str(tmp_path / "root"), "9999", "99"]
    used_before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    line = json.dumps({"path": str(layer)})
    answer = subprocess.run(argv, input=line, text=True, capture_output=True, timeout=30)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert (tmp_path / "root/a").read_text() == "A"
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert max(after - used_before, 0) < 300_000


async def test_the_pod_is_told_which_setting_was_not_enough(tmp_path: Path):
    layer = Layer.of(sparse("a", 1 << 40))
    async with StandIn(Image((layer,), {})) as stand_in:
        settings = ImageSettings(insecure_registries=[stand_in.address])
        images = Images(tmp_path, settings, {}, tmp_path)
        with pytest.raises(ImageError, match=r"larger than 68719476736 bytes.*images\.max_size"):
            await images.ensure(f"{stand_in.address}/app")
        assert list((tmp_path / "tmp").iterdir()) == []


async def test_layers_that_say_they_are_huge_are_not_fetched(tmp_path: Path):
    layer = LayerBuilder().file("a", "A" * 5000).build()
    async with StandIn(Image((layer,), {})) as stand_in:
        settings = ImageSettings(insecure_registries=[stand_in.address], max_size="10")
        with pytest.raises(ImageError, match=r"compressed.*images\.max_size"):
            await Images(tmp_path, settings, {}, tmp_path).ensure(f"{stand_in.address}/app")
        assert len([asked for asked in stand_in.requests if "/blobs/" in asked]) == 1


# Files


@pytest.fixture
def images(tmp_path: Path) -> Images:
    settings = ImageSettings(max_size=str(SIZE), max_files=FILES)
    return Images(tmp_path / "images", settings, {}, tmp_path)


@pytest.mark.parametrize("kind", ["hole", "many", "deep"])
async def test_a_sif_that_becomes_more_than_it_may_is_refused(images, tmp_path, kind):
    root = tmp_path / "root"
    root.mkdir()
    if kind == "hole":
        with (root / "a").open("wb") as file:
            file.truncate(1 << 28)
    for number in range(1500 if kind == "many" else 0):
        (root / f"f{number}").touch()
    if kind == "deep":
        (root / "/".join("d" * 300)).mkdir(parents=True)
    path = a_sif(tmp_path / "x.sif", (0x4004, "", PRIMARY, squashed(root, tmp_path / "sq")))
    words = {"hole": "images.max_size", "many": "images.max_files", "deep": "folders deep"}
    with pytest.raises(ImageError, match=words[kind]):
        await images.ensure(str(path))
    assert list((images.root / "tmp").iterdir()) == []


@pytest.mark.parametrize("value", [[], "x", {"data": []}, {"data": {"attributes": 7}}], ids=str)
def test_a_sif_with_other_words_than_apptainers_wants_its_script_run(tmp_path, value):
    words = json.dumps(value).encode()
    path = a_sif(
        tmp_path / "x.sif",
        (0x4006, "inspect-metadata.json", b"", words),
        (0x4006, "oci-config.json", b"", b"[" * 100_000),
        (0x4004, "", PRIMARY, b"root"),
    )
    assert b"runscript" in Sif(str(path))._config


def test_variables_of_a_sif_are_found_in_no_time(tmp_path):
    """A line that makes a pattern look again from each of its characters."""
    script = "A=" + " " * 200_000 + "x\n" + "export" + " " * 200_000
    metadata = {"data": {"attributes": {"environment": {"x": script}}}}
    path = a_sif(
        tmp_path / "x.sif",
        (0x4006, "inspect-metadata.json", b"", json.dumps(metadata).encode()),
        (0x4004, "", PRIMARY, b"root"),
    )
    began = time.monotonic()
    Sif(str(path))
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("place", ["image", "index", "manifest", "layer"])
async def test_a_pipe_in_the_place_of_an_image_is_not_waited_for(images, tmp_path, place):
    """The control plane reads these itself: who waits there stops all of it."""
    layout = tmp_path / "layout"
    blobs = layout / "blobs/sha256"
    blobs.mkdir(parents=True)
    (layout / "oci-layout").write_text("{}")
    image = Image((LayerBuilder().file("a", "A").build(),), {})
    for blob in (*image.blobs(), image.manifest()):
        (blobs / module_digest(blob)).write_bytes(blob)
    entry = {"digest": f"sha256:{module_digest(image.manifest())}", "size": 1}
    (layout / "index.json").write_text(json.dumps({"manifests": [entry]}))
    assert await images.ensure(str(layout))
    shutil.rmtree(images.root)
    targets = {
        "image": tmp_path / "pipe",
        "index": layout / "index.json",
        "manifest": blobs / module_digest(image.manifest()),
        "layer": blobs / module_digest(image.layers[0].blob),
    }
    targets[place].unlink(missing_ok=True)
    os.mkfifo(targets[place])
    async with asyncio.timeout(10):
        with pytest.raises(ImageError):
            await images.ensure(str(targets["image"] if place == "image" else layout))


def module_digest(blob: bytes) -> str:
    import hashlib

    return hashlib.sha256(blob).hexdigest()


@pytest.mark.parametrize("image", ["/dev/zero", "/proc/kmsg", "/a\0b", "/" + "x" * 5000], ids=repr)
async def test_what_is_no_image_of_a_path_is_told(images, image):
    async with asyncio.timeout(10):
        with pytest.raises(ImageError) as caught:
            await images.ensure(image)
    assert caught.value.reason == "InvalidImageName"


@pytest.mark.parametrize(
    "index",
    [b"[]", b"[" * 100_000, b'{"manifests": 7}', b'{"manifests": [{"digest": "../../x"}]}',
     b'{"manifests": [{"annotations": [], "digest": 7}]}', b" " * (5 << 20)],
    ids=["list", "deep", "number", "upwards", "types", "long"],
)  # fmt: skip
async def test_a_layout_of_a_strangers_making_is_an_image_error(images, tmp_path, index):
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout/oci-layout").write_text("{}")
    (tmp_path / "layout/index.json").write_bytes(index)
    with pytest.raises(ImageError):
        await images.ensure(str(tmp_path / "layout"))
