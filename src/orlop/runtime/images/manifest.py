"""Manifests and configurations of images, OCI's and docker's, as values.

Used by `cache` on what a registry or a layout answers; pure. It knows which of an index's images
fits a machine, and never fetches anything.
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import dataclass
from typing import Any

from ...errors import ImageError

MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
ACCEPT = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))

# uname's machine -> GOARCH, variant
_MACHINES = {
    "x86_64": ("amd64", ""),
    "aarch64": ("arm64", "v8"),
    "armv7l": ("arm", "v7"),
    "ppc64le": ("ppc64le", ""),
    "s390x": ("s390x", ""),
    "riscv64": ("riscv64", ""),
    "loongarch64": ("loong64", ""),
}


@dataclass(frozen=True, slots=True)
class Blob:
    digest: str
    size: int
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    digest: str
    config: Blob
    layers: tuple[Blob, ...]

    @property
    def size(self) -> int:
        return sum(layer.size for layer in self.layers)


def digest_of(data: bytes, algorithm: str = "sha256") -> str:
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def check(data: bytes, digest: str, what: str) -> None:
    """ErrImagePull unless the bytes have that digest."""
    found = digest_of(data, digest.partition(":")[0])
    if found != digest:
        message = f"{what}: expected {digest}, found {found}; the registry or a proxy changed it"
        raise ImageError("ErrImagePull", message)


def parse(data: bytes, digest: str, what: str) -> Manifest | list[dict[str, Any]]:
    """A manifest, or the entries of an index."""
    document = _document(data, what)
    media_type = document.get("mediaType", "")
    if media_type in INDEX_TYPES or "manifests" in document:
        return [entry for entry in document.get("manifests") or [] if isinstance(entry, dict)]
    if "config" not in document or "layers" not in document:
        found = media_type or "schema 1"
        message = f"{what}: expected an OCI or docker v2 image, found {found}; push it again anew"
        raise ImageError("ErrImagePull", message)
    return Manifest(digest, _blob(document["config"]), tuple(map(_blob, document["layers"])))


def choose(entries: list[dict[str, Any]], what: str, machine: str = "") -> Blob:
    """The image of an index for this machine's architecture."""
    architecture, variant = _MACHINES.get(machine or platform.machine(), (machine, ""))
    fitting: list[tuple[bool, int, dict[str, Any]]] = []
    for entry in entries:
        where = entry.get("platform") or {}
        if where.get("os") == "linux" and where.get("architecture") == architecture:
            fitting.append((where.get("variant", variant) != variant, len(fitting), entry))
    if fitting:
        return _blob(min(fitting, key=lambda found: found[:2])[2])
    platforms = sorted({_platform(entry) for entry in entries} - {"unknown/unknown"})
    message = f"{what} has no image for linux/{architecture}, only for {', '.join(platforms)}"
    raise ImageError("ErrImagePull", message)


def config_of(data: bytes, what: str) -> dict[str, Any]:
    """The `config` object: Entrypoint, Cmd, Env, User, WorkingDir, StopSignal."""
    config = _document(data, what).get("config") or {}
    return config if isinstance(config, dict) else {}


def _platform(entry: dict[str, Any]) -> str:
    where = entry.get("platform") or {}
    return f"{where.get('os', '?')}/{where.get('architecture', '?')}"


def _blob(entry: dict[str, Any]) -> Blob:
    return Blob(str(entry["digest"]), int(entry.get("size") or 0), str(entry.get("mediaType", "")))


def _document(data: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise ImageError("ErrImagePull", f"{what}: expected JSON, {error}") from None
    if not isinstance(document, dict):
        raise ImageError("ErrImagePull", f"{what}: expected a JSON object")
    return document
