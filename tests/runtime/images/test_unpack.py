"""Layers into a folder: what is laid over what, and what is not let out."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from orlop.runtime.images import unpack as module
from orlop.runtime.images.unpack import Room, UnpackError, opened, unpack
from tests.cluster.oci import LayerBuilder


@pytest.fixture
def laid(tmp_path: Path):
    """Unpacks layers, given as builders or tar bytes, and answers the root."""

    def lay(*layers: LayerBuilder | bytes) -> Path:
        files = []
        for number, layer in enumerate(layers):
            path = tmp_path / f"layer{number}"
            path.write_bytes(layer if isinstance(layer, bytes) else layer.build().blob)
            files.append({"path": str(path)})
        unpack(str(tmp_path / "root"), iter(files), Room(1 << 30, 10_000))
        return tmp_path / "root"

    return lay


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = ""):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, link
    return info


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_files_folders_and_links_are_as_in_the_layer(laid):
    layer = LayerBuilder().folder("bin").file("bin/a", "A", 0o755).link("sh", "bin/a")
    root = laid(layer.hard_link("bin/b", "bin/a"))
    assert (root / "bin/a").read_text() == "A"
    assert (root / "sh").readlink() == Path("bin/a")
    assert (root / "bin/a").samefile(root / "bin/b")
    assert stat.S_IMODE((root / "bin/a").stat().st_mode) == 0o755


def test_later_layers_lie_over_earlier_ones(laid):
    lower = LayerBuilder().file("etc/a", "old").file("etc/b", "kept")
    root = laid(lower, LayerBuilder().file("etc/a", "new"))
    assert (root / "etc/a").read_text() == "new"
    assert (root / "etc/b").read_text() == "kept"


def test_a_hard_link_is_broken_by_a_later_layers_file(laid):
    lower = LayerBuilder().file("a", "old").hard_link("b", "a")
    root = laid(lower, LayerBuilder().file("a", "new"))
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("new", "old")


def test_whiteouts_remove_files_folders_and_links(laid):
    lower = LayerBuilder().file("d/a", "1").file("d/sub/b", "2").link("l", "d").file("keep", "3")
    upper = LayerBuilder().without("d/a").without("d/sub").without("l").without("never-was")
    found = names(laid(lower, upper))
    assert {"d", "keep"} <= found
    assert not {"d/a", "d/sub", "d/sub/b", "l"} & found
    assert not [name for name in found if ".wh." in name]


@pytest.mark.parametrize("marker_first", [True, False])
def test_an_opaque_folder_hides_the_layers_below_and_nothing_else(laid, marker_first):
    lower = LayerBuilder().file("d/old", "1").file("d/sub/old", "2").file("e/kept", "3")
    upper = LayerBuilder()
    if marker_first:
        upper.nothing_below("d").file("d/new", "4").file("d/sub/new", "5")
    else:
        upper.file("d/new", "4").file("d/sub/new", "5").nothing_below("d")
    found = names(laid(lower, upper))
    assert {"d/new", "d/sub/new", "e/kept"} <= found
    assert not {"d/old", "d/sub/old"} & found


def test_what_was_a_file_may_become_a_folder_and_the_other_way(laid):
    lower = LayerBuilder().file("a", "1").file("b/c", "2").link("l", "b")
    upper = LayerBuilder().folder("a").file("a/x", "3").file("b", "4").folder("l")
    root = laid(lower, upper)
    assert (root / "a/x").read_text() == "3"
    assert (root / "b").read_text() == "4"
    assert not (root / "l").is_symlink()


def test_layers_write_through_links_of_lower_layers_inside_the_root(laid):
    """As images with a merged /usr do: /lib is a link, and later layers fill lib/."""
    lower = LayerBuilder().folder("usr/lib").link("lib", "usr/lib").link("lib64", "/usr/lib")
    root = laid(lower, LayerBuilder().file("lib/a", "A").file("lib64/b", "B"))
    assert (root / "usr/lib/a").read_text() == "A"
    assert (root / "usr/lib/b").read_text() == "B"
    assert (root / "lib").is_symlink()


def test_a_link_that_changes_is_followed_anew(laid):
    lower = LayerBuilder().folder("one").folder("two").link("l", "one").file("l/a", "1")
    root = laid(lower, LayerBuilder().link("l", "two").file("l/b", "2"))
    assert (root / "one/a").exists()
    assert (root / "two/b").exists()


@pytest.mark.parametrize("target", ["/outside", "../../outside", "../../../../../../outside", "/"])
def test_no_link_leads_out_of_the_root(laid, tmp_path, target):
    outside = tmp_path / "outside"
    outside.mkdir()
    root = laid(LayerBuilder().link("l", target).file("l/escaped", "x"))
    assert list(outside.iterdir()) == []
    assert not Path("/escaped").exists()
    assert not Path("/outside").exists()
    assert [path for path in root.rglob("escaped") if path.is_file()]


def test_a_file_is_never_written_through_a_link(laid, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("safe")
    root = laid(LayerBuilder().link("a", str(victim)).file("a", "evil"))
    assert victim.read_text() == "safe"
    assert (root / "a").read_text() == "evil"


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "a/..", "/../evil"])
def test_names_that_lead_out_are_refused(laid, tmp_path, name):
    with pytest.raises(UnpackError, match="leads out of the image"):
        laid(tar((member(name), b"x")))
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("name", [".wh...", ".wh..", ".wh.", "a/.wh...", "a/.wh."])
def test_whiteouts_that_lead_out_are_refused(laid, tmp_path, name):
    (tmp_path / "neighbour").touch()
    with pytest.raises(UnpackError, match="leads out"):
        laid(LayerBuilder().file("a/b", "B"), tar((member(name), b"")))
    assert (tmp_path / "neighbour").exists()
    assert (tmp_path / "root/a/b").exists()


@pytest.mark.parametrize("link", ["../outside", "/../outside"])
def test_hard_links_that_lead_out_are_refused(laid, link):
    with pytest.raises(UnpackError, match="leads out"):
        laid(tar((member("a", tarfile.LNKTYPE, link=link), b"")))


def test_a_hard_link_to_nothing_is_told(laid):
    with pytest.raises(UnpackError, match="hard link to 'gone'"):
        laid(tar((member("a", tarfile.LNKTYPE, link="gone"), b"")))


def test_a_hard_link_to_a_link_is_not_followed(laid, tmp_path):
    (tmp_path / "victim").write_text("secret")
    links = member("l", tarfile.SYMTYPE, link=str(tmp_path / "victim"))
    root = laid(tar((links, b""), (member("h", tarfile.LNKTYPE, link="l"), b"")))
    assert (root / "h").is_symlink()


def test_absolute_and_dotted_names_are_of_the_root(laid):
    root = laid(tar((member("/a"), b"1"), (member("./b"), b"2"), (member("c//d"), b"3")))
    assert {"a", "b", "c", "c/d"} <= names(root)


def test_circles_of_links_end(laid):
    with pytest.raises(UnpackError, match="too many levels"):
        laid(LayerBuilder().link("a", "b").link("b", "a").file("a/x", "1"))


def test_devices_are_left_out_and_pipes_made(laid):
    kinds = [(member("null", tarfile.CHRTYPE), b""), (member("disk", tarfile.BLKTYPE), b"")]
    root = laid(tar(*kinds, (member("pipe", tarfile.FIFOTYPE), b"")))
    assert not {"null", "disk"} & names(root)
    assert (root / "pipe").is_fifo()


def test_no_setuid_bits_are_set(laid):
    root = laid(LayerBuilder().file("su", "x", 0o6755).folder("tmp", 0o1777))
    assert stat.S_IMODE((root / "su").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777


def test_the_user_can_always_read_files_and_enter_folders(laid):
    root = laid(LayerBuilder().file("shadow", "x", 0).folder("closed", 0o500).file("closed/a", ""))
    assert (root / "shadow").stat().st_mode & 0o400
    assert (root / "closed").stat().st_mode & 0o700 == 0o700


def test_owners_are_those_who_unpack(laid):
    root = laid(LayerBuilder().file("a", "x", owner=1234))
    assert (root / "a").stat().st_uid == os.geteuid()


def test_files_keep_their_times(laid):
    info = member("a.py")
    info.mtime = 1_000_000_000
    assert (laid(tar((info, b"x"))) / "a.py").stat().st_mtime == 1_000_000_000


def test_what_runtimes_mount_onto_is_made_where_it_lacks(laid):
    root = laid(LayerBuilder().file("etc/hosts", "mine").link("run", "/var/run"))
    assert {"dev", "proc", "sys", "tmp", "etc/resolv.conf", "etc/hostname"} <= names(root)
    assert (root / "etc/hosts").read_text() == "mine"
    assert (root / "run").is_symlink()


def test_an_image_without_layers_is_a_root_all_the_same(laid):
    assert (laid() / "proc").is_dir()


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
def test_contents_are_whole(laid, size):
    data = os.urandom(size)
    assert (laid(LayerBuilder().file("a", data)) / "a").read_bytes() == data


@pytest.mark.parametrize(
    "compress",
    [
        pytest.param(lambda data: data, id="plain"),
        pytest.param(gzip.compress, id="gzip"),
        pytest.param(lambda data: gzip.compress(data[:700]) + gzip.compress(data[700:]), id="two"),
        pytest.param(
            lambda data: subprocess.run(["zstd", "-q"], input=data, capture_output=True).stdout,
            id="zstd",
        ),
    ],
)
def test_layers_may_be_compressed_in_every_usual_way(laid, compress):
    data = LayerBuilder().file("a", "A" * 5000).build().tar
    assert (laid(compress(data)) / "a").read_text() == "A" * 5000


def test_zstd_without_any_zstd_says_what_to_do(laid, monkeypatch):
    data = LayerBuilder().file("a", "A").build().tar
    compressed = subprocess.run(["zstd", "-q"], input=data, capture_output=True).stdout
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(UnpackError, match="install zstd"):
        laid(compressed)


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_a_layer_that_was_cut_is_refused(laid, cut):
    blob = LayerBuilder().file("a", os.urandom(100_000)).build().blob
    with pytest.raises(UnpackError, match="no whole tar archive"):
        laid(blob[: int(len(blob) * cut)])


def test_what_is_no_archive_is_refused(laid):
    with pytest.raises(UnpackError, match="no whole tar archive"):
        laid(b"<html>not found</html>" * 100)


def test_a_stream_is_closed_after_use(tmp_path):
    path = tmp_path / "layer"
    path.write_bytes(b"plain")
    with opened(str(path)) as stream:
        assert stream.read() == b"plain"
    assert stream.closed


def child(root: Path, lines: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", str(module.__file__), str(root), str(1 << 30), "1000"]
    return subprocess.run(argv, input=lines, text=True, capture_output=True, check=False)


def test_it_runs_as_a_program_of_its_own(tmp_path):
    layer = tmp_path / "layer"
    layer.write_bytes(LayerBuilder().file("a", "A").build().blob)
    answer = child(tmp_path / "root", json.dumps({"path": str(layer)}) + "\n")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert (tmp_path / "root/a").read_text() == "A"


def test_as_a_program_it_says_in_one_line_what_is_wrong(tmp_path):
    answer = child(tmp_path / "root", json.dumps({"path": str(tmp_path / "gone")}) + "\n")
    assert answer.returncode == 1
    assert "No such file" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
