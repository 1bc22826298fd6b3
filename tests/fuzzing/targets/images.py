"""What registries and images say: manifests, SIFs, layers, challenges; logins of pull secrets."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import struct
import tarfile
import tempfile
from pathlib import Path

from orlop.errors import ImageError
from orlop.runtime.images import credential_programs, credentials, manifest, sif, unpack
from orlop.runtime.images.registry import _CHALLENGE

from ..target import Registry, Target, encoded

target = Registry()
NOBODY = 65534


@target("image-manifest", "runtime/images/manifest.py", "hostile registries")
def image_manifest() -> Target:
    def run(data: bytes) -> None:
        found = manifest.parse(data, "sha256:0", "image")
        if isinstance(found, list):
            found = manifest.choose(found, "image", "x86_64")
            manifest.check(b"", found.digest, "image")
        else:
            assert found.size is not None
            for blob in (found.config, *found.layers):
                manifest.check(b"", blob.digest, "image")
        return None

    layer = "application/vnd.oci.image.layer.v1.tar+gzip"
    blob = {"mediaType": layer, "digest": "sha256:" + "0" * 64, "size": 3}
    image = {"mediaType": manifest.MANIFEST_TYPES[0], "config": blob, "layers": [blob]}
    places = [{"os": "linux", "architecture": one, "variant": "v8"} for one in ("amd64", "arm64")]
    index = {"mediaType": manifest.INDEX_TYPES[0],
             "manifests": [{**blob, "platform": place} for place in places]}  # fmt: skip
    seeds = tuple(json.dumps(one).encode() for one in (image, index))
    words = encoded(("digest", "size", "platform", "manifests", "layers", "sha512:", "shake_128:0"))
    return Target(run, seeds, words, (ImageError,), is_json=True)


@target("image-config", "runtime/images/manifest.py: config_of", "hostile images")
def image_config() -> Target:
    def run(data: bytes) -> None:
        manifest.config_of(data, "image")

    seed = {"config": {"Entrypoint": ["a"], "Env": ["A=b"], "User": "1:2", "WorkingDir": "/"}}
    return Target(
        run, (json.dumps(seed).encode(),), encoded(("config",)), (ImageError,), is_json=True
    )


def _sif() -> bytes:
    """As apptainer writes one, but for its root."""
    config = json.dumps({"data": {"attributes": {"environment": {"a": "export A='b'\n"}}}}).encode()
    start = 128 + 2 * sif._DESCRIPTOR.size
    name = b"inspect-metadata.json".ljust(128, b"\0")
    parts = struct.pack("<ii", 1, 2).ljust(384, b"\0")
    table = sif._DESCRIPTOR.pack(0x4004, True, 1, 1, 0, start, 64, 64, 0, 0, 0, 0, b"root", parts)
    table += sif._DESCRIPTOR.pack(
        0x4006, True, 2, 1, 0, start, len(config), 0, 0, 0, 0, 0, name, b"".ljust(384, b"\0")
    )
    head = b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + bytes(16)
    head = head[:64] + struct.pack("<8q", 1, 1, 0, 2, 128, len(table), start, len(config))
    return head.ljust(128, b"\0") + table + config


@target("image-sif", "runtime/images/sif.py", "hostile images")
def image_sif() -> Target:
    path = Path(tempfile.mkdtemp(prefix="orlop-fuzz-")) / "image.sif"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        if sif.is_sif(path):
            sif.Sif(str(path))

    return Target(
        run, (_sif(),), (b"SIF_MAGIC\0", struct.pack("<i", 0x4006)), (ImageError, OSError)
    )


def _layer() -> bytes:
    """Folders, files, links of all kinds, whiteouts, and headers of several formats."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, link in (
            ("etc/", tarfile.DIRTYPE, ""),
            ("etc/passwd", tarfile.REGTYPE, ""),
            ("etc/link", tarfile.SYMTYPE, "../usr"),
            ("etc/hard", tarfile.LNKTYPE, "etc/passwd"),
            ("etc/.wh.old", tarfile.REGTYPE, ""),
            ("etc/.wh..wh..opq", tarfile.REGTYPE, ""),
            ("pipe", tarfile.FIFOTYPE, ""),
            ("é" * 60, tarfile.REGTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            member.mode, member.mtime = 0o755, 1.5
            member.size = 5 if kind == tarfile.REGTYPE and ".wh." not in name else 0
            archive.addfile(member, io.BytesIO(b"hello"))
    return out.getvalue()[:8192]


@target(
    "image-layer",
    "runtime/images/unpack.py: tar, pax, gzip, and what is laid where",
    "hostile images",
)
def image_layer() -> Target:
    folder = tempfile.mkdtemp(prefix="orlop-fuzz-")
    root, path, guard = (os.path.join(folder, name) for name in ("root", "layer", "guard"))
    Path(guard).write_text("untouched")
    is_root = os.geteuid() == 0
    if is_root:  # a layer that gets out must not meet what root may write
        os.chown(folder, NOBODY, NOBODY)

    def run(data: bytes) -> None:
        if is_root:
            os.seteuid(NOBODY)
        try:
            lay(data)
        finally:
            if is_root:
                os.seteuid(0)

    def lay(data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(data)
        room = unpack.Room(1 << 24, 1000)
        try:
            unpack.unpack(root, iter([{"path": path, "type": ""}]), room)
        finally:
            assert sorted(os.listdir(folder)) == ["guard", "layer", "root"], "it left its root"
            shutil.rmtree(root)

    plain = _layer()
    words = (b"ustar\x0000", b"ustar  \0", b"././@LongLink", b"path=../../x\n", b"30 mtime=nan\n",
             b"GNU.sparse.map=", b"GNU.sparse.major=1\n", b"size=9999999999\n", b"../guard",
             b"/guard", b".wh.", b".wh..wh..opq", b"L", b"K", b"x", b"g", b"S",
             b"\x80\0\0\0\0\0\0\1")  # fmt: skip
    seeds = (plain, plain[:2048], gzip.compress(plain, mtime=0), plain[512:3072])
    return Target(run, seeds, words, (unpack.UnpackError, OSError), longest=1 << 14)


@target(
    "registry-challenge",
    "runtime/images/registry.py: challenges; credentials.py: logins",
    "hostile registries, small accounts",
)
def registry_challenge() -> Target:
    def run(data: bytes) -> None:
        text = data.decode(errors="replace")
        dict(_CHALLENGE.findall(text))
        credential_programs._credential(text)
        auths = credentials._json(data)
        keyring = credentials._entries(auths.get("auths")) + credentials._entries(auths)
        for one in credentials.matching(keyring, "docker.io", "library/busybox"):
            one.basic()

    seeds = encoded(
        (
            'Bearer realm="https://a/token",service="b",scope="repository:c:pull"',
            '{"auths": {"https://index.docker.io/v1/": {"auth": "YTpi"}}, "*.b": {}}',
            '{"Username": "<token>", "Secret": "s"}',
        )
    )
    words = encoded(('realm="', '"', "auths", "auth", "identitytoken", "[", "*", "https://"))
    return Target(run, seeds, words, is_json=True)
