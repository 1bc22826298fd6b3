"""OCI images as values: layers made of files, a configuration, a manifest.

Called by the recipes of the test images and by the registry that is filled with them. Layers are
the same bytes whenever and by whomever they are built, so that digests may be compared.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"
DOCKER_LAYER = "image.rootfs.diff.tar.gzip"

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Layer:
    tar: bytes
    blob: bytes
    """The tar archive, compressed: what a registry holds."""

    @classmethod
    def of(cls, tar: bytes) -> Layer:
        return cls(tar, gzip.compress(tar, compresslevel=1, mtime=0))


class LayerBuilder:
    """Collects files, all of them root's unless said otherwise."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(mode="w", fileobj=self._buffer, format=tarfile.PAX_FORMAT)

    def folder(self, path: str, mode: int = 0o755, owner: int = 0) -> LayerBuilder:
        return self._add(path, tarfile.DIRTYPE, mode, owner=owner)

    def file(self, path: str, data: bytes | str, mode: int = 0o644, owner: int = 0) -> LayerBuilder:
        content = data.encode() if isinstance(data, str) else data
        return self._add(path, tarfile.REGTYPE, mode, content, owner)

    def link(self, path: str, target: str) -> LayerBuilder:
        return self._add(path, tarfile.SYMTYPE, 0o777, target=target)

    def hard_link(self, path: str, target: str) -> LayerBuilder:
        return self._add(path, tarfile.LNKTYPE, 0o644, target=target)

    def without(self, path: str) -> LayerBuilder:
        """A whiteout: the file of a lower layer is gone."""
        folder, _, name = path.rpartition("/")
        return self.file(f"{folder}/.wh.{name}", b"")

    def nothing_below(self, folder: str) -> LayerBuilder:
        """An opaque whiteout: nothing of the lower layers is left in a folder."""
        return self.file(f"{folder}/.wh..wh..opq", b"")

    def tree(self, source: Path, leave_out: Callable[[Path], bool]) -> LayerBuilder:
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source)
            if leave_out(name):
                continue
            if path.is_symlink():
                self.link(str(name), str(path.readlink()))
            elif path.is_dir():
                self.folder(str(name), path.stat().st_mode & 0o7777)
            elif path.is_file():
                self.file(str(name), path.read_bytes(), path.stat().st_mode & 0o7777)
        return self

    def build(self) -> Layer:
        self._tar.close()
        return Layer.of(self._buffer.getvalue())

    def _add(
        self,
        path: str,
        kind: bytes,
        mode: int,
        data: bytes = b"",
        owner: int = 0,
        target: str = "",
    ) -> LayerBuilder:
        entry = tarfile.TarInfo(path.strip("/"))
        entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(data), target
        entry.uid = entry.gid = owner
        self._tar.addfile(entry, io.BytesIO(data))
        return self


@dataclass(frozen=True, slots=True)
class Image:
    layers: tuple[Layer, ...]
    config: Mapping[str, Any] = field(default_factory=dict)
    """Env, Entrypoint, Cmd, User, WorkingDir, in the spelling of the image specification."""
    docker: bool = False
    """Manifest and layers under Docker's media types instead of OCI's."""

    def blobs(self) -> list[bytes]:
        return [*(layer.blob for layer in self.layers), self._configuration()]

    def manifest(self) -> bytes:
        of_config, of_layer = f"{OCI}.config.v1+json", f"{OCI}.layer.v1.tar+gzip"
        if self.docker:
            of_config, of_layer = f"{DOCKER}.container.image.v1+json", f"{DOCKER}.{DOCKER_LAYER}"
        *layers, config = self.blobs()
        value = {
            "schemaVersion": 2,
            "mediaType": self.media_type,
            "config": _descriptor(of_config, config),
            "layers": [_descriptor(of_layer, blob) for blob in layers],
        }
        return json.dumps(value).encode()

    @property
    def media_type(self) -> str:
        docker = f"{DOCKER}.distribution.manifest.v2+json"
        return docker if self.docker else f"{OCI}.manifest.v1+json"

    def _configuration(self) -> bytes:
        value = {
            "architecture": machine_architecture(),
            "os": "linux",
            "config": dict(self.config),
            "rootfs": {"type": "layers", "diff_ids": [digest(layer.tar) for layer in self.layers]},
            "history": [{"created_by": "tests.cluster"} for _ in self.layers],
        }
        return json.dumps(value).encode()


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest(blob), "size": len(blob)}


@dataclass(frozen=True, slots=True)
class Index:
    """One name for the images of several architectures, as most public images have it."""

    images: Mapping[str, Image]
    media_type = f"{OCI}.index.v1+json"

    def manifest(self) -> bytes:
        entries = [
            _descriptor(image.media_type, image.manifest())
            | {"platform": {"architecture": architecture, "os": "linux"}}
            for architecture, image in self.images.items()
        ]
        value = {"schemaVersion": 2, "mediaType": self.media_type, "manifests": entries}
        return json.dumps(value).encode()


def machine_architecture() -> str:
    return ARCHITECTURES.get(platform.machine(), platform.machine())
