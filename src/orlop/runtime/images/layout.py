"""Images in an OCI layout on the shared file system: `/path/to/layout[:tag]`.

Used by `cache` like a registry, for sites without one: `skopeo copy docker://… oci:/path:tag` fills
it. It never writes into a layout.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import ImageError
from . import manifest
from .manifest import Blob, Manifest

_NAME = "org.opencontainers.image.ref.name"


def _split(image: str) -> tuple[Path, str]:
    path, colon, tag = image.rpartition(":")
    if colon and "/" not in tag and not Path(image).exists():
        return Path(path), tag
    return Path(image), ""


def is_layout(image: str) -> bool:
    return (_split(image)[0] / "oci-layout").is_file()


class Layout:
    """One image of a layout, read from its files."""

    def __init__(self, image: str) -> None:
        self.name = image
        self._path, self._tag = _split(image)

    async def __aenter__(self) -> Layout:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def resolve(self) -> Manifest:
        index = json.loads((self._path / "index.json").read_bytes())
        entry = self._chosen(index.get("manifests") or [])
        found = self._manifest(entry["digest"])
        if isinstance(found, list):
            found = self._manifest(manifest.choose(found, self.name).digest)
        if isinstance(found, list):
            raise ImageError("ErrImagePull", f"{self.name} is an index of indexes; name one image")
        return found

    def _chosen(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        names = {(entry.get("annotations") or {}).get(_NAME, ""): entry for entry in entries}
        if self._tag and self._tag in names:
            return names[self._tag]
        if not self._tag and len(entries) == 1:
            return entries[0]
        if not self._tag and "latest" in names:
            return names["latest"]
        message = f"{self._path} holds {', '.join(sorted(filter(None, names))) or 'no images'}"
        raise ImageError("ErrImagePull", f"{message}; name one as {self._path}:<tag>")

    def _manifest(self, digest: str) -> Manifest | list[dict[str, Any]]:
        return manifest.parse(self._blob(digest), digest, self.name)

    async def config(self, image: Manifest) -> bytes:
        return self._blob(image.config.digest)

    async def layer(self, blob: Blob, folder: Path, arrived: Callable[[int], None]) -> Path:
        path = self._file(blob.digest)
        if not path.exists():
            raise ImageError("ErrImagePull", f"{self.name} lacks its layer {blob.digest}")
        arrived(blob.size)
        return path

    def _blob(self, digest: str) -> bytes:
        try:
            data = self._file(digest).read_bytes()
        except FileNotFoundError:
            raise ImageError("ErrImagePull", f"{self.name} lacks {digest}") from None
        manifest.check(data, digest, self.name)
        return data

    def _file(self, digest: str) -> Path:
        algorithm, _, hexadecimal = digest.partition(":")
        if not hexadecimal.isalnum() or not algorithm.isalnum():
            raise ImageError("ErrImagePull", f"{self.name}: {digest!r} is no digest")
        return self._path / "blobs" / algorithm / hexadecimal
