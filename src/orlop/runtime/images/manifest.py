"""Reads manifests and configurations of images, OCI's and docker's, as values.

Used by `cache` on what a registry or a layout answers; pure. It knows which of an index's images
fits a machine. Whatever the document is, and whoever wrote it, what comes out is of the types that
it says, or an ImageError.
"""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass
from typing import Any

from ...errors import ImageError
from .answers import loads, shown

MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
ACCEPT = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))

MOST_LAYERS = 1000  # the overlays of docker and containerd end at 128 and 500
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
# What is taken from a configuration, and what it must be.
_WORDS, _LISTS = ("User", "WorkingDir", "StopSignal"), ("Entrypoint", "Cmd", "Env")

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
    """Raise ErrImagePull unless the bytes have that digest."""
    found = digest_of(data, digest.partition(":")[0])
    if found != digest:
        message = f"{what}: expected {digest}, found {found}; the registry or a proxy changed it"
        raise ImageError("ErrImagePull", message)


def parse(data: bytes, digest: str, what: str) -> Manifest | list[dict[str, Any]]:
    """Read a manifest, or the entries of an index."""
    document = _document(data, what)
    media_type = document.get("mediaType", "")
    if media_type in INDEX_TYPES or "manifests" in document:
        return [entry for entry in _list(document, "manifests", what) if isinstance(entry, dict)]
    if "config" not in document or "layers" not in document:
        found = shown(str(media_type)) or "schema 1"
        message = f"{what}: expected an OCI or docker v2 image, found {found}; push it again anew"
        raise ImageError("ErrImagePull", message)
    layers = _list(document, "layers", what)
    if len(layers) > MOST_LAYERS:
        message = f"{what} has {len(layers)} layers, and {MOST_LAYERS} are the most"
        raise ImageError("ErrImagePull", f"{message}; build it with fewer")
    config = blob(document["config"], what)
    return Manifest(digest, config, tuple(blob(entry, what) for entry in layers))


def choose(entries: list[dict[str, Any]], what: str, machine: str = "") -> Blob:
    """Choose the image of an index for this machine's architecture."""
    architecture, variant = _MACHINES.get(machine or platform.machine(), (machine, ""))
    fitting: list[tuple[bool, int, dict[str, Any]]] = []
    for entry in entries:
        where = _where(entry)
        if where.get("os") == "linux" and where.get("architecture") == architecture:
            fitting.append((where.get("variant", variant) != variant, len(fitting), entry))
    if fitting:
        return blob(min(fitting, key=lambda found: found[:2])[2], what)
    platforms = sorted({_platform(entry) for entry in entries} - {"unknown/unknown"})[:20]
    message = f"{what} has no image for linux/{architecture}, only for {', '.join(platforms)}"
    raise ImageError("ErrImagePull", message)


def config_of(data: bytes, what: str) -> dict[str, Any]:
    """Read the `config` object: Entrypoint, Cmd, Env, User, WorkingDir, StopSignal."""
    config = _document(data, what).get("config") or {}
    if not isinstance(config, dict):
        return {}
    found = {name: config[name] for name in (*_WORDS, *_LISTS) if config.get(name)}
    for name, value in found.items():
        words = value if name in _LISTS else [value]
        if not isinstance(words, list) or not all(map(_is_word, words)):
            message = f"{what}: its {name} is not what an image may have there; build it anew"
            raise ImageError("ErrImagePull", message)
    return found


def _is_word(value: object) -> bool:
    """Return whether it is text that a program can be given."""
    return isinstance(value, str) and "\0" not in value and (value.isascii() or _is_unicode(value))


def _is_unicode(value: str) -> bool:
    """Return whether it can be written: JSON may hold halves of characters, which cannot."""
    try:
        return bool(value.encode())
    except UnicodeEncodeError:
        return False


def _where(entry: dict[str, Any]) -> dict[str, Any]:
    found = entry.get("platform")
    return found if isinstance(found, dict) else {}


def _platform(entry: dict[str, Any]) -> str:
    where = _where(entry)
    return shown(f"{where.get('os', '?')}/{where.get('architecture', '?')}")


def _list(document: dict[str, Any], name: str, what: str) -> list[Any]:
    found = document.get(name) or []
    if not isinstance(found, list):
        raise ImageError("ErrImagePull", f"{what}: expected a list of {name}; push it again anew")
    return found


def blob(entry: object, what: str) -> Blob:
    """Read what is fetched and written under the name of its digest: it must be one."""
    found = entry if isinstance(entry, dict) else {}
    digest, size = found.get("digest"), found.get("size") or 0
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        message = f"{what}: {shown(str(digest))!r} is no digest such as sha256:<64 hex digits>"
        raise ImageError("ErrImagePull", f"{message}; push it again anew")
    if type(size) is not int or size < 0:
        raise ImageError("ErrImagePull", f"{what}: {digest} has no size; push it again anew")
    return Blob(digest, size, str(found.get("mediaType", "")))


def _document(data: bytes, what: str) -> dict[str, Any]:
    try:
        document = loads(data)
    except ValueError as error:
        raise ImageError("ErrImagePull", f"{what}: expected JSON, {error}") from None
    if not isinstance(document, dict):
        raise ImageError("ErrImagePull", f"{what}: expected a JSON object")
    return document
